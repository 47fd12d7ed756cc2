"""Apicurio Registry by its own REST interface, in which an id says of which kind it is.

Its Confluent-compatible interface has one kind of numbers only: content ids, or, as it is set up, global ids.
"""

import ssl
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.registry.access import (
    NO_SUCH_NAME,
    NOT_FOUND,
    AnswerTooLongError,
    RegistryAccess,
    http,
)
from cdc_materializer.registry.confluent import ConfluentRegistry
from cdc_materializer.registry.references import (
    UNREADABLE,
    Reference,
    ReferenceMissingError,
    Registered,
    standalone,
)
from cdc_materializer.registry.schemas import (
    IdKind,
    RegisteredSchema,
    Wanted,
    apicurio_kind,
    id_bytes_of,
    kind_of,
)
from cdc_materializer.retry import REGISTRY

_OK = 200
#: Where the interface is, and what follows a version's address to get its text: since Apicurio 3, and in 2.
_INTERFACES = (("/apis/registry/v3", "/content"), ("/apis/registry/v2", ""))
_BY_NUMBER = {"content": "/ids/contentIds", "global": "/ids/globalIds"}
_DEFAULT_GROUP = "default"
#: Where it answers in Confluent's form.
_CONFLUENTS = "/apis/ccompat/v7"
#: A question that any of Apicurio's own interfaces answers, be it that there is no such schema.
_ANY = "/ids/contentIds/1"
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


class _BusyError(Exception):
    """An answer that says to ask again."""

    def __init__(self, answer: Any) -> None:  # noqa: ANN401 - of one of two modules
        super().__init__()
        self.answer = answer


class ApicurioRegistry:
    """A registry behind HTTP; see `Registry` for what it promises. Each schema is asked for once.

    The address may be that of any of its interfaces, or of the server; of several the first is taken. One that has none
    of Apicurio's own is asked in Confluent's form.
    """

    def __init__(self, access: RegistryAccess, ids: IdKind) -> None:
        """Take the way in and what ids are; the first question opens the connection."""
        self._access = access
        self._ids = ids
        self.id_bytes = id_bytes_of(ids)
        self.place = f"{ids} {access.shown}"
        self.found: dict[SchemaName, RegisteredSchema] = {}
        root = _root(access.url)
        #: A copy of the schemas in a registry of another kind, at the address as it is given.
        self._copy = ConfluentRegistry(access, ids)
        self._compatible = ConfluentRegistry(replace(access, url=root + _CONFLUENTS), ids, is_registry=True)
        self._interfaces = [(root + path, content) for path, content in _INTERFACES]
        self._opened: Any = None

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema by `GET /ids/contentIds/<id>`, `/ids/globalIds/<id>` and the like; see `Registry.schema`."""
        name = SchemaName.of_id(wanted) if isinstance(wanted, int) else wanted
        if name in self.found:
            return self.found[name]
        if not name.is_possible:
            return None
        if name.kind in ("guid", "fingerprint"):
            return self._in_confluents_form().schema(name)
        path = self._path(name)
        registered = self._registered(path) if path is not None else None
        if registered is None:
            # Apicurio's numbers in Confluent's form may be of the other kind.
            return None if self._is_apicurio else self._copy.schema(name)
        try:
            text = standalone(registered, self._referenced)
        except ReferenceMissingError:
            return None
        return self.found.setdefault(name, RegisteredSchema(wanted, registered.kind, text))

    def _in_confluents_form(self) -> ConfluentRegistry:
        """Whom to ask for names that Apicurio's own interface does not have."""
        if not self._is_apicurio:
            with suppress(AnswerTooLongError):
                self._ask(_ANY)
        return self._compatible if self._is_apicurio else self._copy

    @property
    def _is_apicurio(self) -> bool:
        """Whether one of the interfaces has answered."""
        return len(self._interfaces) == 1

    def _path(self, name: SchemaName) -> str | None:
        """Where a schema is below an interface; None for a name that does not say it."""
        if name.number is not None:
            kind = apicurio_kind(self._ids) if name.kind == "id" else name.kind
            return f"{_BY_NUMBER[kind]}/{name.number}"
        if name.kind == "hash":
            return f"/ids/contentHashes/{quote(name.parts[0], safe='')}"
        if name.kind == "artifact":
            return _version_path(_artifact_path(name.parts[0], name.parts[1]), name.parts[2])
        return None

    def _referenced(self, reference: Reference) -> Registered | None:
        return self._registered(_version_path(reference.subject, reference.version))

    def _registered(self, path: str) -> Registered | None:
        try:
            answer = self._ask(path, is_version=path.startswith("/groups/"))
            if answer is None:
                return None
            listed = self._ask(f"{path}/references")
        except AnswerTooLongError:
            return UNREADABLE
        try:
            entries = listed.json() if listed is not None else []
            references = tuple(
                Reference(
                    str(entry["name"]),
                    _artifact_path(entry.get("groupId") or _DEFAULT_GROUP, entry["artifactId"]),
                    str(entry["version"]),
                )
                for entry in entries
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._access.strange() from error
        return Registered(answer.text, kind_of(answer.text), references)

    def _ask(self, path: str, *, is_version: bool = False) -> Any:  # noqa: ANN401 - of one of two modules
        """Put one question to the interface that answers; None where there is no such thing, or no such interface."""
        for base, content in tuple(self._interfaces):
            try:
                answer = self._get(base + path + (content if is_version else ""))
            except AnswerTooLongError:
                self._interfaces = [(base, content)]
                raise
            if answer.status_code == _OK or _is_not_found(answer):
                self._interfaces = [(base, content)]
                return answer if answer.status_code == _OK else None
            if answer.status_code not in NO_SUCH_NAME:
                raise self._access.refused(answer.status_code)
        return None

    def _get(self, url: str) -> Any:  # noqa: ANN401 - of one of two modules
        """Get an address, again where it may pass the next time."""
        with self._access.asking():
            library = http()
            if self._opened is None:
                self._opened = self._open()

            def ask() -> Any:  # noqa: ANN401 - of one of two modules
                answer = self._opened.get(url)
                if answer.status_code == _TOO_MANY_REQUESTS or answer.status_code >= _SERVER_ERROR:
                    raise _BusyError(answer)
                return answer

            def may_pass(error: Exception) -> bool:
                return isinstance(error, (library.TransportError, _BusyError))

            try:
                return REGISTRY.call(ask, deadline=self._access.deadline, may_pass=may_pass)
            except _BusyError as busy:
                return busy.answer

    def _open(self) -> Any:  # noqa: ANN401 - of one of two modules
        library, access = http(), self._access
        try:
            tls = ssl.create_default_context(cafile=access.ca)
            if access.certificate is not None:
                tls.load_cert_chain(access.certificate, access.key)
            client = library.Client(
                auth=access.basic_auth,
                headers=dict(access.headers),
                timeout=access.patience,
                transport=library.HTTPTransport(verify=tls),
            )
        except (OSError, ValueError, TypeError) as error:
            raise access.unusable() from error
        access.bound(client)
        return client


def _root(url: str) -> str:
    """The server's address, from that of one of its interfaces."""
    parts = urlsplit(url.split(",", maxsplit=1)[0].strip())
    return urlunsplit((parts.scheme, parts.netloc, parts.path.partition("/apis/")[0].rstrip("/"), "", ""))


def _artifact_path(group: str, artifact: str) -> str:
    return f"/groups/{quote(group or _DEFAULT_GROUP, safe='')}/artifacts/{quote(artifact, safe='')}"


def _version_path(artifact_path: str, version: int | str) -> str:
    return f"{artifact_path}/versions/{quote(str(version), safe='')}"


def _is_not_found(answer: Any) -> bool:  # noqa: ANN401 - of one of two modules
    """Tell Apicurio's own 'not found' from that of a server which has no such interface: it names what is missing."""
    if answer.status_code != NOT_FOUND:
        return False
    try:
        name = answer.json()["name"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(name, str) and name.endswith("NotFoundException") and name != "NotFoundException"
