"""Client properties for both clients: librdkafka plans on the driver, Kafka's Java client reads inside Spark.

A user writes librdkafka's names (those of every client but Java's). Most are the same for Java; the few that differ are
translated here. Files of certificates and keys are read here, so that Spark's workers need none of them; a keytab they
need, where it is on the driver.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from cdc_materializer import environment
from cdc_materializer.errors import ConfigError

#: Properties that only Java's client knows, and what to write instead; librdkafka would refuse them.
JAVA_ONLY = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.password": "ssl.ca.location (a PEM file)",
    "ssl.truststore.type": "ssl.ca.location (a PEM file)",
    "ssl.keystore.certificate.chain": "ssl.certificate.location (a PEM file)",
    "ssl.keystore.key": "ssl.key.location (a PEM file)",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location (PEM files)",
}

#: What the product decides itself, for both clients.
OURS = frozenset({"isolation.level", "enable.auto.commit", "auto.offset.reset", "group.id", "client.id"})

#: librdkafka's names that are translated below, so they are not passed to Java as they are.
_TRANSLATED = frozenset(
    {
        "metadata.broker.list",
        "sasl.kerberos.keytab",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.endpoint.identification.algorithm",
    }
)

#: What begins so is librdkafka's alone, but for the address where tokens are asked for.
_OAUTH = "sasl.oauthbearer."
_TOKEN_ENDPOINT = f"{_OAUTH}token.endpoint.url"
_OAUTH_CLASSES = "org.apache.kafka.common.security.oauthbearer"

_KERBEROS = "GSSAPI"
#: The properties that say who the client is.
_PRINCIPAL, _KEYTAB = "sasl.kerberos.principal", "sasl.kerberos.keytab"
#: Java's property for such a file.
_LOGIN_FILE = "java.security.auth.login.config"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

_PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def brokers(properties: Mapping[str, str]) -> str:
    """Return the brokers' addresses, the one property that messages may name.

    Raises:
        ConfigError: there are none.
    """
    addresses = properties.get("bootstrap.servers") or properties.get("metadata.broker.list")
    if not addresses:
        what = "source.kafka in the configuration has no `bootstrap.servers`."
        raise ConfigError(what, "Name the brokers there, as host:port.")
    return addresses


def librdkafka_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties as the client that plans on the driver takes them.

    Raises:
        ConfigError: a property is one that only Java's client knows.
    """
    for name, instead in JAVA_ONLY.items():
        if name in properties:
            what = f"`{name}` under source.kafka belongs to Kafka's Java client only."
            raise ConfigError(what, f"Write {instead} instead; Spark is given the same.")
    return {name: value for name, value in properties.items() if name not in OURS}


def spark_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties as options of Spark's Kafka source, which hands on what begins with `kafka.`.

    Raises:
        ConfigError: a SASL mechanism without a counterpart, or a certificate or key file that cannot be read.
    """
    java = {
        name: value
        for name, value in properties.items()
        if name not in OURS | _TRANSLATED and not name.startswith(_OAUTH)
    }
    java["bootstrap.servers"] = brokers(properties)
    java.update(_security(properties))
    java["isolation.level"] = "read_committed"
    return {f"kafka.{name}": value for name, value in java.items()}


def _security(properties: Mapping[str, str]) -> dict[str, str]:
    java: dict[str, str] = {}
    if "security.protocol" in properties:
        java["security.protocol"] = properties["security.protocol"].upper()
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return java | _sasl(properties) | _truststore(properties) | _keystore(properties)


def is_kerberos(properties: Mapping[str, str]) -> bool:
    """Whether the clients log in by Kerberos, as both do with SASL where no mechanism is named."""
    is_sasl = properties.get("security.protocol", "").lower().startswith("sasl")
    return is_sasl and _mechanism(properties) in {None, _KERBEROS}


def check_kerberos(properties: Mapping[str, str]) -> None:
    """Refuse Kerberos without what Java's client needs for it, before anything is asked.

    librdkafka has a command get the ticket (`sasl.kerberos.kinit.cmd`), which Java's client does not run.

    Raises:
        ConfigError: there is no principal or no keytab.
    """
    missing = [name for name in (_PRINCIPAL, _KEYTAB) if not properties.get(name)]
    if is_kerberos(properties) and missing and not _has_login():
        default = "" if _mechanism(properties) else " (the default where `sasl.mechanism` is not set)"
        names = " and ".join(f"`{name}`" for name in missing)
        what = f"The SASL mechanism {_KERBEROS}{default} under source.kafka lacks {names}."
        others = ", ".join([*_LOGIN_MODULES, "OAUTHBEARER"])
        do = f"Set both, name a file for Java in JDK_JAVA_OPTIONS (-D{_LOGIN_FILE}), or set `sasl.mechanism` to the"
        raise ConfigError(what, f"{do} broker's: one of {others}.")


def _has_login() -> bool:
    """Whether the JVM's own options name a file that says how its clients log in."""
    return _LOGIN_FILE in environment.java_options()


def _mechanism(properties: Mapping[str, str]) -> str | None:
    return properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = _mechanism(properties)
    if is_kerberos(properties):
        return _kerberos(properties)
    if mechanism is None:
        return {}
    java = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return java | _oauth(properties)
    if "sasl.username" in properties:
        module = _LOGIN_MODULES.get(mechanism)
        if module is None:
            what = f"The SASL mechanism {mechanism} under source.kafka takes no user name in Kafka's Java client."
            raise ConfigError(what, f"Use one of {', '.join(_LOGIN_MODULES)}.")
        user, password = _quoted(properties["sasl.username"]), _quoted(properties.get("sasl.password", ""))
        java["sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return java


def _kerberos(properties: Mapping[str, str]) -> dict[str, str]:
    """How Java's client gets a ticket by a keytab, with neither a prompt nor the tickets of whoever runs it."""
    check_kerberos(properties)
    # Java's client has no default for it.
    java = {"sasl.mechanism": _KERBEROS}
    java["sasl.kerberos.service.name"] = properties.get("sasl.kerberos.service.name") or "kafka"
    if not (properties.get(_PRINCIPAL) and properties.get(_KEYTAB)):
        return java
    options = {
        "useKeyTab": "true",
        "storeKey": "true",
        "useTicketCache": "false",
        "doNotPrompt": "true",
        "keyTab": properties[_KEYTAB],
        "principal": properties[_PRINCIPAL],
    }
    said = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return java | {"sasl.jaas.config": f"{_KERBEROS_MODULE} required {said};"}


def _oauth(properties: Mapping[str, str]) -> dict[str, str]:
    """How Java's client asks for tokens as librdkafka does, by `sasl.oauthbearer.method=oidc`."""
    needed = {f"{_OAUTH}client.id": "clientId", f"{_OAUTH}client.secret": "clientSecret", _TOKEN_ENDPOINT: ""}
    is_alike = properties.get(f"{_OAUTH}grant.type", "client_credentials") == "client_credentials"
    if properties.get(f"{_OAUTH}method") != "oidc" or not is_alike or not needed.keys() <= properties.keys():
        what = "The SASL mechanism OAUTHBEARER under source.kafka is set up as Kafka's Java client cannot follow."
        do = f"Set `{_OAUTH}method` to oidc, with {', '.join(f'`{name}`' for name in needed)}, for client credentials."
        raise ConfigError(what, do)
    options = {java: properties[name] for name, java in needed.items() if java}
    if f"{_OAUTH}scope" in properties:
        options["scope"] = properties[f"{_OAUTH}scope"]
    for extension in filter(None, properties.get(f"{_OAUTH}extensions", "").split(",")):
        name, _, value = extension.partition("=")
        options[f"extension_{name.strip()}"] = value.strip()
    said = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return {
        "sasl.jaas.config": f"{_OAUTH_CLASSES}.OAuthBearerLoginModule required {said};",
        "sasl.login.callback.handler.class": f"{_OAUTH_CLASSES}.OAuthBearerLoginCallbackHandler",
        _TOKEN_ENDPOINT: properties[_TOKEN_ENDPOINT],
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _truststore(properties: Mapping[str, str]) -> dict[str, str]:
    certificates = _pem(properties, "ssl.ca")
    if certificates is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}


def _keystore(properties: Mapping[str, str]) -> dict[str, str]:
    chain, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if chain is not None and key is not None:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    # librdkafka reads key stores in PKCS#12 only; Java takes another kind where it is not told.
    return {"ssl.keystore.type": "PKCS12"} if "ssl.keystore.location" in properties else {}


def _pem(properties: Mapping[str, str], prefix: str) -> str | None:
    if f"{prefix}.pem" in properties:
        return properties[f"{prefix}.pem"]
    location = properties.get(f"{prefix}.location")
    if location is None or (prefix == "ssl.ca" and location == "probe"):
        return None
    try:
        return _blocks(Path(location).read_bytes())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a PEM file"
        what = f"The file {location} that `{prefix}.location` under source.kafka names cannot be read ({reason})."
        raise ConfigError(what, "Correct the path; it must be one PEM file.") from error


def _blocks(content: bytes) -> str:
    """What a PEM file has for clients; what stands between is for people, in whatever encoding."""
    found = [block[0].decode("ascii") for block in _PEM_BLOCK.finditer(content)]
    if not found:
        raise ValueError
    return "".join(f"{block}\n" for block in found)
