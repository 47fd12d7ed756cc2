"""JSON Schemas that refer to others, made to stand alone: each `$ref` gives way to what it refers to. Pure.

Which document and which part of it a `$ref` means (JSON Schema core, section 8.2: `$id`, `$defs`, anchors, pointers) is
told by `referencing`. Nothing is fetched for it: a document is there when the registry names it, or else missing.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

from referencing import Registry, Resource
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT7

#: A part of a JSON document; `referencing` has no narrower type for one.
Part: TypeAlias = Any

#: How many parts a schema may have once it stands alone: as many as `decode.wire.TYPES_MAX` types would need. A few
#: lines that refer to one another twice each could otherwise ask for all memory.
PARTS_MAX = 200_000


class SchemaTooLargeError(ValueError):
    """Raised when a schema has more parts than any table's, or refers to itself."""


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
    resolver = Registry().with_resources(resources).resolver_with_root(root)
    return json.dumps(_Writer().write(root.contents, resolver, ()), ensure_ascii=False)


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

    def write(self, part: Part, resolver: Any, above: tuple[str, ...]) -> Part:  # noqa: ANN401 - a private type of the library
        """Return the part with every reference in it resolved.

        Args:
            part: any part of a document.
            resolver: tells what references mean in that document.
            above: the references inside which the part stands, whole.
        """
        self._parts += 1
        if self._parts > PARTS_MAX:
            message = "the schema has too many parts once its references are written out"
            raise SchemaTooLargeError(message)
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
        whole = json.dumps(found.contents, sort_keys=True)
        if whole in above:
            message = "the schema refers to itself"
            raise SchemaTooLargeError(message)
        meant = self.write(found.contents, found.resolver, (*above, whole))
        beside = {name: one for name, one in part.items() if name != "$ref"}
        return {**meant, **beside} if isinstance(meant, dict) else meant
