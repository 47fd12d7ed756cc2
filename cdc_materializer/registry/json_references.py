"""JSON Schemas that refer to others, made to stand alone: each `$ref` gives way to what it refers to. Pure.

Which document and which part of it a `$ref` means (JSON Schema core, section 8.2: `$id`, `$defs`, anchors, pointers) is
told by `referencing`. Nothing is fetched for it: a document is there when the registry names it, or else missing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from referencing import Registry, Resource
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT7

#: A part of a JSON document; `referencing` has no narrower type for one.
Part: TypeAlias = Any

#: How many parts a schema may have once it stands alone: as many as `decode.wire.TYPES_MAX` types would need. A few
#: lines that refer to one another twice each could otherwise ask for all memory.
PARTS_MAX = 200_000
#: How long its names and values may be together, in characters: what is referred to is written each time.
LENGTH_MAX = 4_000_000


class SchemaTooLargeError(ValueError):
    """Raised when a schema is larger than any table's with all that it refers to, or refers to itself."""


def inlined(text: str, others: Mapping[str, str]) -> str:
    """Write what a JSON Schema refers to into it.

    Args:
        text: the schema.
        others: the texts of the schemas that it builds on, by the name under which it refers to them.

    Raises:
        LookupError: a reference leads nowhere.
        SchemaTooLargeError: it goes in a circle, or the whole would be too large.
        ValueError, TypeError, RecursionError: a text is no JSON Schema.
    """
    if '"$ref"' not in text:
        return text
    resources = [(name, _resource(json.loads(other))) for name, other in others.items()]
    root = _resource(json.loads(text))
    address = root.id() or ""
    resolver = _known([*resources, (address, root)]).resolver(address)
    return json.dumps(_Writer().write(root.contents, resolver, ()), ensure_ascii=False)


def _known(documents: Sequence[tuple[str, Resource[Part]]]) -> Registry[Part]:
    """The documents, with what their parts are called."""
    registry = Registry[Part]().with_resources(documents)
    try:
        # By itself it looks through all documents again at each name.
        return registry.crawl()
    except (AttributeError, TypeError):
        return registry  # a part is nonsense, and one of another may be all that is referred to


def _resource(document: Part) -> Resource[Part]:
    # Confluent's converter writes draft 7, and says so; a document that names no draft is taken for one.
    return Resource.from_contents(document, default_specification=DRAFT7)


def _is_reference(part: Part) -> TypeGuard[dict[str, Part]]:
    # A column may be called `$ref`; what it holds then is a schema and no text.
    return isinstance(part, dict) and isinstance(part.get("$ref"), str)


class _Writer:
    """Writes a schema out; counts what it has written."""

    def __init__(self) -> None:
        self._parts = 0
        self._length = 0

    def write(self, part: Part, resolver: Any, above: tuple[int, ...]) -> Part:  # noqa: ANN401 - a private type of the library
        """Return the part with every reference in it resolved.

        Args:
            part: any part of a document.
            resolver: tells what references mean in that document.
            above: what the references mean inside which the part stands, as the identities of those objects.
        """
        self._count(part)
        if isinstance(part, list):
            return [self.write(one, resolver, above) for one in part]
        if not isinstance(part, dict):
            return part
        if not _is_reference(part):
            return {name: self.write(one, resolver, above) for name, one in part.items()}
        try:
            found = resolver.lookup(part["$ref"])
        except (Unresolvable, NoSuchAnchor, PointerToNowhere) as error:
            message = "a reference leads to no schema that the registry names"
            raise LookupError(message) from error
        if id(found.contents) in above:
            message = "the schema refers to itself"
            raise SchemaTooLargeError(message)
        meant = self.write(found.contents, found.resolver, (*above, id(found.contents)))
        beside = {name: one for name, one in part.items() if name != "$ref"}
        self._count(json.dumps(beside))
        return {**meant, **beside} if isinstance(meant, dict) else meant

    def _count(self, part: Part) -> None:
        texts = part if isinstance(part, dict) else () if isinstance(part, list) else (str(part),)
        self._parts += 1
        self._length += sum(map(len, texts))
        if self._parts > PARTS_MAX or self._length > LENGTH_MAX:
            message = "the schema is too large once its references are written out"
            raise SchemaTooLargeError(message)
