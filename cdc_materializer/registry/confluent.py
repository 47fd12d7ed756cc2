"""A registry asked over HTTP in Confluent's REST form, which Apicurio, Karapace and Redpanda answer too."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit, urlunsplit

from cdc_materializer.errors import ConfigError, RegistryUnavailable
from cdc_materializer.registry.references import Reference, ReferenceMissingError, Registered, standalone
from cdc_materializer.registry.schemas import RegisteredSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

#: How long one request may take, in seconds.
REQUEST_TIMEOUT_SECONDS = 10.0
#: How often a request that may pass the next time (429, 5xx, a broken connection) is made again.
RETRIES_MAX = 2

_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
#: Confluent's error codes for an unknown subject, version or schema.
_NOT_FOUND_CODES = frozenset({40401, 40402, 40403})


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How to reach a registry and to be let in; nothing secret is ever shown.

    Attributes:
        url: base address, or several separated by commas that are tried in turn.
        basic_auth: user and password, or None.
        ca, certificate, key: paths of PEM files, or None.
        headers: added to every request.
        timeout_seconds: how long one request may take.
    """

    url: str
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS

    @property
    def shown(self) -> str:
        """The address without the user and password that a URL can carry."""
        return ",".join(_without_credentials(url.strip()) for url in self.url.split(","))


class ConfluentRegistry:
    """A registry behind HTTP; see `Registry` for what it promises. Each id is asked for once."""

    def __init__(self, access: RegistryAccess) -> None:
        """Take the way in; the first question opens the connection."""
        self._access = access
        self._found: dict[int, RegisteredSchema] = {}
        self._opened: SchemaRegistryClient | None = None

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Find a schema by `GET /schemas/ids/<id>`; see `Registry.schema`."""
        if schema_id in self._found:
            return self._found[schema_id]
        client = self._client()
        registered = self._ask(lambda: client.get_schema(schema_id))
        if registered is None:
            return None
        try:
            text = standalone(registered, self._version)
        except ReferenceMissingError:
            return None
        except ValueError as error:
            what = f"Schema {schema_id} of the registry {self._access.shown}, or one it refers to, is not Avro."
            raise RegistryUnavailable(what, "Look at the schema in the registry.") from error
        return self._found.setdefault(schema_id, RegisteredSchema(schema_id, registered.kind, text))

    def _version(self, reference: Reference) -> Registered | None:
        client = self._client()
        return self._ask(lambda: client.get_version(reference.subject, reference.version, deleted=True).schema)

    def _client(self) -> "SchemaRegistryClient":
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "SchemaRegistryClient":
        # authlib, which the client imports, warns of a module that it will stop supporting, and turns its own warnings
        # on; so they are recorded, and so not printed.
        with warnings.catch_warnings(record=True):
            from confluent_kafka.schema_registry import SchemaRegistryClient
        try:
            client = SchemaRegistryClient(_client_properties(self._access))
        except (OSError, ValueError, TypeError) as error:
            # The client's own text is not passed on: it may quote the URL with its password.
            what = f"The registry {self._access.shown} cannot be asked with the settings under registry."
            raise ConfigError(what, "Check url, basic_auth and the files under tls.") from error
        # The client has no setting for headers that a gateway before the registry asks for.
        client._rest_client.session.headers.update(self._access.headers)  # noqa: SLF001
        return client

    def _ask(self, question: "Callable[[], Schema]") -> Registered | None:
        """Put one question; None for the registry's own 'not found'."""
        # The client uses httpx2 or httpx, whichever is installed; only it knows which one's errors it raises.
        from confluent_kafka.schema_registry import SchemaRegistryError
        from confluent_kafka.schema_registry._sync import schema_registry_client as client_module

        http = client_module.httpx
        try:
            return _registered(question())
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and self._is_registry(error.error_code):
                return None
            self._refuse(error.http_status_code, error)
        except http.TimeoutException as error:
            what = f"The registry {self._access.shown} did not answer within {self._access.timeout_seconds:g} s."
            raise RegistryUnavailable(what, "Check that it runs, then run again.") from error
        except http.TransportError as error:
            what = f"The registry {self._access.shown} cannot be reached ({type(error).__name__})."
            raise RegistryUnavailable(what, "Check registry.url and that the registry runs, then run again.") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            what = f"What answers at {self._access.shown} is not a schema registry."
            raise RegistryUnavailable(what, "Correct registry.url; it often ends in a path.") from error

    def _is_registry(self, error_code: int | None) -> bool:
        """Tell an unknown id from a wrong address: both are answered with 404, some registries with no more."""
        if error_code in _NOT_FOUND_CODES:
            return True
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            self._client().get_subjects()
        except SchemaRegistryError as error:
            return error.http_status_code in (_UNAUTHORIZED, _FORBIDDEN)
        return True

    def _refuse(self, status: int, cause: Exception) -> NoReturn:
        shown = self._access.shown
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            what = f"The registry {shown} refused access (status {status})."
            do = "Check basic_auth, headers or tls under registry."
        elif status == _NOT_FOUND:
            what = f"No schema registry answers at {shown} (status {status})."
            do = "Correct registry.url; it often ends in a path."
        else:
            what = f"The registry {shown} failed (status {status})."
            do = "Look at the registry's log, then run again."
        raise RegistryUnavailable(what, do) from cause


def _registered(schema: "Schema") -> Registered:
    if not isinstance(schema.schema_str, str):
        msg = "no schema text"
        raise TypeError(msg)
    references = tuple(
        Reference(str(entry.name), str(entry.subject), int(entry.version or 0)) for entry in schema.references or ()
    )
    return Registered(schema.schema_str, (schema.schema_type or "AVRO").upper(), references)


def _client_properties(access: RegistryAccess) -> dict[str, str | float]:
    """Name the settings as the client does."""
    properties: dict[str, str | float | None] = {
        "url": access.url,
        "timeout": access.timeout_seconds,
        "max.retries": RETRIES_MAX,
        "retries.wait.ms": 200,
        "retries.max.wait.ms": 1000,
        "basic.auth.user.info": None if access.basic_auth is None else ":".join(access.basic_auth),
        "ssl.ca.location": access.ca,
        "ssl.certificate.location": access.certificate,
        "ssl.key.location": access.key,
    }
    return {name: value for name, value in properties.items() if value is not None}


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be read)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
