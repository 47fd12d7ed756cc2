"""A registry asked over HTTP in Confluent's REST form, which Apicurio, Karapace and Redpanda answer too."""

from typing import TYPE_CHECKING

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.registry.access import (
    FORBIDDEN,
    NO_SUCH_NAME,
    UNAUTHORIZED,
    AnswerTooLongError,
    RegistryAccess,
    http,
)
from cdc_materializer.registry.fingerprints import fingerprint_of
from cdc_materializer.registry.references import (
    UNREADABLE,
    Reference,
    ReferenceMissingError,
    Registered,
    standalone,
)
from cdc_materializer.registry.schemas import IdKind, RegisteredSchema, Wanted, id_bytes_of, is_numbered
from cdc_materializer.retry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    Answer = TypeVar("Answer")

#: Of how many versions of a subject one is looked for by its fingerprint, newest first: each is a question.
VERSIONS_MAX = 10_000
#: Confluent's error codes for an unknown subject, version or schema.
_NOT_FOUND_CODES = frozenset({40401, 40402, 40403})


class ConfluentRegistry:
    """A registry behind HTTP; see `Registry` for what it promises. Each schema is asked for once."""

    def __init__(self, access: RegistryAccess, ids: IdKind = "confluent", *, is_registry: bool = False) -> None:
        """Take the way in, and whether a registry is known to be there; the first question opens the connection."""
        self._access = access
        self._ids = ids
        self._is_registry = is_registry
        self.id_bytes = id_bytes_of(ids)
        self.place = f"{ids} {access.shown}"
        self.found: dict[SchemaName, RegisteredSchema] = {}
        self._fingerprints: dict[tuple[str, int], str | None] = {}
        self._opened: SchemaRegistryClient | None = None

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema by `GET /schemas/ids/<id>` or `/schemas/guids/<guid>`; see `Registry.schema`.

        One that only its fingerprint names is looked for among the versions of the name's subject.
        """
        name = SchemaName.of_id(wanted) if isinstance(wanted, int) else wanted
        if name in self.found:
            return self.found[name]
        registered = self._ask_for(name)
        if registered is None:
            return None
        try:
            text = standalone(registered, self._version)
        except ReferenceMissingError:
            return None
        return self.found.setdefault(name, RegisteredSchema(wanted, registered.kind, text))

    def _ask_for(self, name: SchemaName) -> Registered | None:
        if not name.is_possible:
            return None
        client, number = self._client(), name.number
        if number is not None:
            return self._schema(lambda: client.get_schema(number)) if is_numbered(name, self._ids) else None
        if name.kind == "guid":
            return self._schema(lambda: client.get_schema_by_guid(name.guid))
        return self._of_fingerprint(name) if name.kind == "fingerprint" else None

    def _of_fingerprint(self, name: SchemaName) -> Registered | None:
        client, subject = self._client(), name.subject
        if subject is None:
            return None
        versions = self._ask(lambda: [int(one) for one in client.get_versions(subject, deleted=True) or ()]) or []
        for version in reversed(versions[-VERSIONS_MAX:]):
            if self._fingerprints.get((subject, version), name.text) != name.text:
                continue
            registered = self._version(Reference("", subject, version))
            if registered is not None:
                found = fingerprint_of(registered, self._version)
                self._fingerprints[subject, version] = found
                if found == name.text:
                    return registered
        return None

    def _version(self, reference: Reference) -> Registered | None:
        client = self._client()
        return self._schema(lambda: client.get_version(reference.subject, int(reference.version), deleted=True).schema)

    def _schema(self, question: "Callable[[], Schema]") -> Registered | None:
        return self._ask(lambda: _registered(question()), UNREADABLE)

    def _client(self) -> "SchemaRegistryClient":
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "SchemaRegistryClient":
        http()  # its first import, which would print warnings
        from confluent_kafka.schema_registry import SchemaRegistryClient

        try:
            client = SchemaRegistryClient(_client_properties(self._access))
        except (OSError, ValueError, TypeError) as error:
            raise self._access.unusable() from error
        # The client has no setting for headers that a gateway before the registry asks for, nor for answers' ends.
        client._rest_client.session.headers.update(self._access.headers)  # noqa: SLF001
        self._access.bound(client._rest_client.session)  # noqa: SLF001
        return client

    def _ask(self, question: "Callable[[], Answer]", too_long: "Answer | None" = None) -> "Answer | None":
        """Put one question; None for the registry's own 'not found', and what is given for an answer without end."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        with self._access.asking():
            try:
                return question()
            except AnswerTooLongError:
                return too_long
            except SchemaRegistryError as error:
                if error.http_status_code in NO_SUCH_NAME and self._answers(error.error_code):
                    return None
                raise self._access.refused(error.http_status_code) from error
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise self._access.strange() from error

    def _answers(self, error_code: int | None) -> bool:
        """Tell an unknown name from a wrong address: both are answered with 404, some registries with no more."""
        if self._is_registry or error_code in _NOT_FOUND_CODES:
            return True
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            self._client().get_subjects()
        except AnswerTooLongError:
            return True
        except SchemaRegistryError as error:
            return error.http_status_code in (UNAUTHORIZED, FORBIDDEN)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
        return True


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
        "timeout": access.patience,
        "max.retries": (REGISTRY.attempts or 1) - 1,
        "retries.wait.ms": round(REGISTRY.base_seconds * 1000),
        "retries.max.wait.ms": round(REGISTRY.cap_seconds * 1000),
        "basic.auth.user.info": None if access.basic_auth is None else ":".join(access.basic_auth),
        "ssl.ca.location": access.ca,
        "ssl.certificate.location": access.certificate,
        "ssl.key.location": access.key,
    }
    return {name: value for name, value in properties.items() if value is not None}
