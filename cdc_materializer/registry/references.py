"""Schemas that refer to others, made to stand alone.

In an Avro schema each named type is written out where it is first used; of JSON Schemas: `json_references`; texts in
Protobuf's language come with those that they import (`proto_files`). Names follow the Avro specification: a name
without a dot belongs to the nearest enclosing namespace. A name that is not known there is looked up without a
namespace too, as the Java parser does, because writers depend on it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cdc_materializer.decode.proto_files import bundle
from cdc_materializer.registry.json_references import inlined

#: A parsed Avro schema: a name, a union, or an object.
AvroNode: TypeAlias = "str | list[AvroNode] | dict[str, AvroNode]"

#: How many references a schema may have, directly or not, and how long all their texts may be together, in characters:
#: a registry of whose versions each refers to the next would be asked for ever.
REFERENCES_MAX = 1_000
REFERENCED_LENGTH_MAX = 4_000_000
_TOO_MANY = "the schema refers to more than any table's does"

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True)
class Reference:
    """One entry of a registered schema's `references`: the schema that another one builds on.

    In Apicurio's own form the subject is group and artifact as they stand in an address, and the version is a text.
    """

    name: str
    subject: str
    version: int | str


@dataclass(frozen=True, slots=True)
class Registered:
    """One schema as the registry holds it: its text, its kind, and the schemas that it builds on."""

    text: str
    kind: str
    references: tuple[Reference, ...]


#: Stands for a schema that is longer than any: nobody can read it, and the messages that name it are held.
UNREADABLE = Registered("", "AVRO", ())

#: Asks the registry for one version of a subject; None where it does not hold it.
Fetch: TypeAlias = Callable[[Reference], Registered | None]


class ReferenceMissingError(LookupError):
    """Raised when a schema refers to one that the registry does not hold."""


class TooManyReferencesError(ValueError):
    """Raised when a schema refers to more than any table's does."""


def standalone(registered: Registered, fetch: Fetch) -> str:
    """Write everything that a schema refers to into it.

    Args:
        registered: the schema; its text is touched only where it has references.
        fetch: asks for a referenced schema; called once for each subject and version.

    Returns:
        The text as it is where it, or one that it refers to, is no such schema, or it refers to too much: who reads it
        finds that out.

    Raises:
        ReferenceMissingError: a referenced schema is not there.
    """
    try:
        return _written_out(registered, fetch)
    except TooManyReferencesError:
        return registered.text


def _written_out(registered: Registered, fetch: Fetch) -> str:
    if registered.kind == "JSON":
        return _json_standalone(registered, fetch)
    if registered.kind == "PROTOBUF":
        return bundle(
            registered.text,
            {place.name: text for place, text in _referenced_texts(registered.references, fetch).items()},
        )
    if registered.kind != "AVRO" or not registered.references:
        return registered.text
    known: dict[str, AvroNode] = {}
    texts = _referenced_texts(registered.references, fetch)
    try:
        for text in texts.values():
            _collect(json.loads(text), "", known)
        return json.dumps(_Inliner(known).write(json.loads(registered.text), ""), ensure_ascii=False)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return registered.text


def _json_standalone(registered: Registered, fetch: Fetch) -> str:
    others = {place.name: text for place, text in _referenced_texts(registered.references, fetch).items()}
    try:
        return inlined(registered.text, others)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return registered.text


def _referenced_texts(references: Sequence[Reference], fetch: Fetch) -> dict[Reference, str]:
    """Fetch everything that is referred to, directly or not, each once; a circle of references ends by itself.

    Raises:
        ReferenceMissingError: one is not there.
        TooManyReferencesError: they are too many, or too long.
    """
    found: dict[tuple[str, int | str], Registered] = {}
    texts: dict[Reference, str] = {}
    waiting, length = _counted(references), 0
    while waiting:
        reference = waiting.pop()
        if reference in texts:
            continue
        place = (reference.subject, reference.version)
        known = found.get(place)
        if known is None:
            known = fetch(reference)
            if known is None:
                raise ReferenceMissingError(reference.name)
            waiting.extend(_counted(known.references))
        found[place], texts[reference] = known, known.text
        length += len(known.text)
        if len(texts) > REFERENCES_MAX or length > REFERENCED_LENGTH_MAX:
            raise TooManyReferencesError(_TOO_MANY)
    return texts


def _counted(references: Sequence[Reference]) -> list[Reference]:
    if len(references) > REFERENCES_MAX:
        raise TooManyReferencesError(_TOO_MANY)
    return list(references)


def _space_and_name(node: Mapping[str, AvroNode], space: str) -> tuple[str, str]:
    """Split a definition's full name into its namespace and its last part."""
    name = str(node.get("name", ""))
    if "." in name:
        before, _, last = name.rpartition(".")
        return before, last
    declared = node.get("namespace")
    return (space if declared is None else str(declared)), name


def _full(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


def _is_named(node: Mapping[str, AvroNode]) -> bool:
    kind = node.get("type")
    return isinstance(kind, str) and kind in _NAMED


def _inside(node: Mapping[str, AvroNode]) -> list[AvroNode]:
    """List the schemas directly inside an object: a record's field types, items, values, or a wrapped type."""
    kind = node.get("type")
    if kind in ("record", "error"):
        fields = node.get("fields", [])
        return [field["type"] for field in fields if isinstance(field, dict) and "type" in field]
    if kind in ("array", "map"):
        return [node[part] for part in ("items", "values") if part in node]
    return [] if kind is None or isinstance(kind, str) else [kind]


def full_names(node: Any, space: str = "") -> Any:  # noqa: ANN401 - JSON, which may be no schema
    """An Avro schema with the full name at each definition and use, and no type wrapped that has nothing beside it.

    Raises:
        AttributeError, KeyError, TypeError, RecursionError: it is no Avro schema.
    """
    if isinstance(node, str):
        return node if node in _PRIMITIVE or "." in node else _full(space, node)
    if isinstance(node, list):
        return [full_names(member, space) for member in node]
    if _is_named(node):
        space, name = _space_and_name(node, space)
        node = {key: part for key, part in node.items() if key != "namespace"} | {"name": _full(space, name)}
        if node["type"] in ("record", "error"):
            fields = node.get("fields", [])
            node["fields"] = [{**field, "type": full_names(field["type"], space)} for field in fields]
        return node
    part = {"array": "items", "map": "values"}.get(str(node.get("type")), "type")
    inner = full_names(node[part], space)
    return inner if node.keys() == {"type"} else {**node, part: inner}


def _collect(node: AvroNode, space: str, known: dict[str, AvroNode]) -> None:
    """Note every named type that a schema defines, by full name, with the namespace written into it."""
    if isinstance(node, list):
        for member in node:
            _collect(member, space, known)
    elif isinstance(node, dict):
        if _is_named(node):
            space, name = _space_and_name(node, space)
            # The definition moves to another schema, where the namespace around it is a different one.
            known.setdefault(_full(space, name), {**node, "name": name, "namespace": space})
        for inner in _inside(node):
            _collect(inner, space, known)


class _Inliner:
    """Writes a schema out; remembers which types are defined already, as Avro allows each definition once."""

    def __init__(self, known: Mapping[str, AvroNode]) -> None:
        self._known = known
        self._defined: set[str] = set()

    def write(self, node: AvroNode, space: str) -> AvroNode:
        """Return the node with referenced names replaced by their definitions where they first occur."""
        if isinstance(node, str):
            return self._name(node, space)
        if isinstance(node, list):
            return [self.write(member, space) for member in node]
        if _is_named(node):
            return self._definition(node, space)
        kind = node.get("type")
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return {**node, part: self.write(node[part], space)} if part in node else node
        return node if kind is None else {**node, "type": self.write(kind, space)}

    def _name(self, name: str, space: str) -> AvroNode:
        if name in _PRIMITIVE:
            return name
        full = name if "." in name else _full(space, name)
        for candidate in (full, name):
            if candidate in self._defined:
                return candidate
            if candidate in self._known:
                return self.write(self._known[candidate], "")
        return name

    def _definition(self, node: Mapping[str, AvroNode], space: str) -> AvroNode:
        space, name = _space_and_name(node, space)
        full = _full(space, name)
        if full in self._defined:
            return full
        self._defined.add(full)
        fields = node.get("fields")
        if not isinstance(fields, list):
            return dict(node)
        return {**node, "fields": [self._field(field, space) for field in fields]}

    def _field(self, field: AvroNode, space: str) -> AvroNode:
        if not isinstance(field, dict) or "type" not in field:
            return field
        return {**field, "type": self.write(field["type"], space)}
