"""Where pipeline.yaml says that things are: the source, the schema registry and the catalog."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from cdc_materializer.config.values import (
    EMPTY,
    FilePath,
    Properties,
    Secret,
    Settings,
    below_root,
    read_properties,
    refusal,
    reveal,
)
from cdc_materializer.names import nearest, shown

#: Name of the catalog when the file gives none (design section 4.2).
CATALOG_NAME = "lake"

_SQLITE = "jdbc:sqlite:"
_SQLITE_URI = "jdbc:sqlite:lake/catalog.db"
_WAREHOUSE = "lake/warehouse"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CATALOG_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Properties of Kafka clients that are files or folders; `probe` stands for those of the system.
_KAFKA_FILES = frozenset(
    {
        *("https.ca.location", "ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location"),
        *("ssl.keystore.location", "sasl.kerberos.keytab"),
    }
)
_PROBE = "probe"
_NEVER_EMPTY = ("type", "catalog-impl", "uri", "warehouse", "credential", "token", "jdbc.password")
# What a broker would take for a wrong login, or for none.
_KAFKA_LOGIN = ("sasl.username", "sasl.password", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
# The kinds of catalog that Iceberg has a name for (`CatalogUtil`); any other has its class in `catalog-impl`.
_KINDS = ("jdbc", "rest", "glue", "hive", "hadoop", "nessie", "bigquery")
# The kinds of catalog whose warehouse is a folder; to others, REST among them, it is a name of the server's own.
_WAREHOUSE_IS_FOLDER = frozenset({"jdbc", "hadoop", "hive"})


def web_address(url: str) -> SplitResult | None:
    """The parts of an address of HTTP; None where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # whose mistakes show when it is asked for
    except ValueError:
        return None
    return parts if parts.scheme in {"http", "https"} and parts.hostname else None


def _file(given: str | SecretStr, info: ValidationInfo) -> str | SecretStr:
    text = given.get_secret_value() if isinstance(given, SecretStr) else given
    found = text if text in {"", _PROBE} else str(below_root(Path(text), info))
    return SecretStr(found) if isinstance(given, SecretStr) else found


class SourceConfig(Settings):
    """Where messages come from: a Kafka cluster, or a folder of recorded topics."""

    kafka: Properties | None = Field(
        default=None,
        description="Kafka client properties by librdkafka's names, passed on as they are; `bootstrap.servers` at "
        "least. `client.id`, `group.id`, `auto.offset.reset`, `enable.auto.commit` and `isolation.level` are decided "
        "by the program: what stands here for them is left out.",
    )
    files: FilePath | None = Field(default=None, description="A folder of recorded topics, one `<topic>.jsonl` each.")

    @field_validator("kafka")
    @classmethod
    def _find_files(
        cls, properties: Mapping[str, str | SecretStr] | None, info: ValidationInfo
    ) -> Mapping[str, str | SecretStr] | None:
        """Make paths absolute, as all of the file's: a client knows of the current folder alone."""
        if properties is None:
            return None
        return {name: _file(value, info) if name in _KAFKA_FILES else value for name, value in properties.items()}

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.kafka is None) == (self.files is None):
            raise refusal("must have exactly one of `kafka` and `files`")
        if self.kafka is not None and not self.kafka.get("bootstrap.servers"):
            raise refusal(
                "has no `bootstrap.servers` under `kafka`", "Add it, like `bootstrap.servers: localhost:9092`."
            )
        given = reveal(self.kafka or {})
        # A file for brokers with and without a login has its names in both.
        login = _KAFKA_LOGIN if given.get("security.protocol", "").lower().startswith("sasl") else ()
        empty = next((name for name in login if name in given and not given[name].strip()), None)
        if empty is not None:
            raise refusal(f"has an empty `{empty}` under `kafka`", EMPTY)
        return self


class BasicAuth(Settings):
    """A user's name and password."""

    user: str = Field(description="The user's name.")
    password: SecretStr = Field(
        description="The password, empty where the user's name is all; take it from the environment or a file "
        "(`${NAME}`, `${file:PATH}`)."
    )


class TlsFiles(Settings):
    """Certificates for a TLS connection, as PEM files."""

    ca: FilePath | None = Field(default=None, description="The certificates to trust.")
    cert: FilePath | None = Field(default=None, description="The client's certificate.")
    key: FilePath | None = Field(default=None, description="The client's private key.")


class RegistryConfig(Settings):
    """Where schemas come from: a Confluent-compatible registry, or a folder of recorded schemas."""

    url: str | None = Field(default=None, description="Address of the registry's REST interface.")
    files: FilePath | None = Field(default=None, description="A folder of recorded schemas, `ids/<id>.json` each.")
    id: Literal["confluent", "apicurio-content", "apicurio-global", "apicurio-legacy"] = Field(
        default="confluent",
        description="What the id in a message is: Confluent's (four bytes), Apicurio's content id or global id (four "
        "bytes), or the global id of its former framing (eight bytes).",
    )
    basic_auth: BasicAuth | None = Field(default=None, description="User and password for the registry.")
    tls: TlsFiles | None = Field(default=None, description="Certificates for the registry.")
    headers: Mapping[str, Secret] = Field(default={}, description="HTTP headers sent to the registry.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        for one in url.split(","):
            parts = web_address(one.strip())
            if parts is None:
                raise refusal("must be an address that begins with http:// or https://")
            if "@" in parts.netloc:
                raise refusal(
                    "has a user or a password in it", "Put them under `basic_auth`, where they are kept secret."
                )
        return url

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.url is None) == (self.files is None):
            raise refusal("must have exactly one of `url` and `files`")
        return self


class CatalogConfig(Settings):
    """The Iceberg catalog: its name, and every other key of the file as a property that is passed on.

    Left out, it is SQLite beside pipeline.yaml (design section 4.2).
    """

    name: str = Field(
        default=CATALOG_NAME, description="The catalog's name, the first part of a table's name in Spark SQL."
    )
    properties: SkipJsonSchema[Properties] = Field(default={}, description="Iceberg catalog properties.")

    @model_validator(mode="before")
    @classmethod
    def _read_flat(cls, data: object, info: ValidationInfo) -> object:
        """Take the file's flat map apart into name and completed properties; pass on what is built in code."""
        if not isinstance(data, Mapping) or isinstance(data.get("properties"), Mapping):
            return data
        root = (info.context or {}).get("root", Path.cwd())
        given = {key: value for key, value in data.items() if key != "name"}
        name = {"name": data["name"]} if "name" in data else {}
        return {**name, "properties": _completed(_plain(given), root)}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if _CATALOG_NAME.fullmatch(name) is None:
            raise refusal("must be letters, digits and `_`, no digit first")
        return name

    @field_validator("properties")
    @classmethod
    def _check_cache(cls, properties: Mapping[str, str | SecretStr]) -> Mapping[str, str | SecretStr]:
        # A cached table shows another session a snapshot that is long past (recipes: Iceberg, section 12).
        if properties.get("cache-enabled", "false") != "false":
            raise refusal("has `cache-enabled`, which would show tables as they were", "Leave it out.")
        return properties

    @property
    def sqlite_path(self) -> Path | None:
        """The catalog's SQLite file; None for other kinds of catalog. Its folder may not exist yet."""
        uri = reveal(self.properties).get("uri", "")
        return _sqlite_parts(uri)[0] if uri.startswith(_SQLITE) else None


def _plain(given: Mapping[object, object]) -> dict[str, str]:
    properties = read_properties(given)
    return reveal(properties) if isinstance(properties, dict) else {}


def _completed(given: dict[str, str], root: Path) -> dict[str, str]:
    """Fill in what the file leaves out, and make its paths absolute."""
    properties = dict(given)
    empty = next((name for name in _NEVER_EMPTY if name in properties and not properties[name].strip()), None)
    if empty is not None:
        raise refusal(f"has an empty `{empty}`", EMPTY)
    if "catalog-impl" not in properties:
        properties["type"] = _kind(properties.get("type"), properties.get("uri", _SQLITE))
    if properties.get("type") == "rest" and "uri" not in properties:
        raise refusal("has no `uri`", "Add the address of the REST catalog, like `https://catalog:8181`.")
    if properties.get("type") == "jdbc":
        properties.setdefault("uri", _SQLITE_URI)
    if properties.get("uri", "").startswith(_SQLITE):
        properties["uri"] = _absolute_sqlite_uri(properties["uri"], root)
        properties.setdefault("warehouse", _WAREHOUSE)
        # Version 1 keeps views apart from tables; without the property a new catalog gets version 0.
        properties.setdefault("jdbc.schema-version", "V1")
    if properties.get("uri", "").startswith("jdbc:") and "warehouse" not in properties:
        raise refusal("has no `warehouse`", "Add the folder or bucket that tables go to, like `s3://bucket/warehouse`.")
    is_folder = properties.get("type") in _WAREHOUSE_IS_FOLDER or properties.get("uri", "").startswith("jdbc:")
    if is_folder and "warehouse" in properties and not _SCHEME.match(properties["warehouse"]):
        # Some readers fail on a warehouse without a scheme (design section 6).
        properties["warehouse"] = f"file://{_absolute(properties['warehouse'], root)}"
    return properties


def _kind(given: str | None, uri: str) -> str:
    """Tell the kind of a catalog, in lower case as Iceberg takes it; from its address, where it is not given."""
    if given is not None:
        if given.lower() in _KINDS:
            return given.lower()
        near = nearest(given, _KINDS)
        do = f"Did you mean `{near}`?" if near else f"Known are {', '.join(_KINDS)}; others have a `catalog-impl`."
        raise refusal(f"has the unknown `type` `{shown(given)}`", do)
    kinds = {"jdbc": "jdbc", "http": "rest", "https": "rest", "thrift": "hive"}
    scheme = uri.partition(":")[0].lower()
    if scheme not in kinds:
        raise refusal("has no `type`, and its `uri` does not tell it", "Add `type`: jdbc, rest, glue, hive or hadoop.")
    return kinds[scheme]


def _absolute(path: str, root: Path) -> Path:
    return Path(os.path.normpath(root / Path(path).expanduser()))


def _sqlite_parts(uri: str) -> tuple[Path, str]:
    """Return the file of a `jdbc:sqlite:` address, and its options with the question mark."""
    path, mark, options = uri.removeprefix(_SQLITE).partition("?")
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:"))
        path = "/" + path.lstrip("/") if path.startswith("/") else path
    return Path(path), mark + options


def _absolute_sqlite_uri(uri: str, root: Path) -> str:
    path, options = _sqlite_parts(uri)
    if str(path) in {".", ":memory:"} or "mode=memory" in options:
        raise refusal("keeps its catalog in memory, where other processes cannot see it", "Name a file in `uri`.")
    # `file:` makes SQLite read the rest as a URI, in which these three characters mean something.
    escaped = re.sub(r"[%?#]", lambda sign: f"%{ord(sign[0]):02X}", str(_absolute(str(path), root)))
    return f"{_SQLITE}file:{escaped}{options}"
