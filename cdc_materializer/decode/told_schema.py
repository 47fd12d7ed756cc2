"""How reports call the schema that a message was written with. Pure.

A number of a registry is told as one. Other names are told as `SchemaName.shown` has them, and of a schema that the
message brings itself its name and a digest of its text: producers seldom change the one when they change the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import RFC_4122, UUID

from cdc_materializer.decode.naming import LEGACY_ID_BYTES, SchemaName, named_in_bytes
from cdc_materializer.names import shown

#: Enough of a digest to tell the schemas of a topic apart.
_DIGEST_LENGTH = 8


@dataclass(frozen=True)
class ToldSchema:
    """A registry's number of a schema, and what it is called, its number with the kind if it has one."""

    number: int | None = None
    name: str | None = None

    @property
    def text(self) -> str | None:
        """The number or the name; None for neither."""
        return str(self.number) if self.number is not None else self.name


def of_selector(selector: str | None) -> ToldSchema:
    """The schema that a selector names (`framing.selector`), if it names one of a registry."""
    name = SchemaName.parse(selector or "")
    if name is None or not name.is_lookup:
        return ToldSchema()
    return ToldSchema(name.number, shown(name.shown))


def of_block(block: str | None) -> ToldSchema:
    """The schema whose text a message of Connect's JSON brings along; none for what is no such text."""
    return _of_schema(_read(block))


def of_side(row: Mapping[str, Any], side: Literal["key", "value"]) -> ToldSchema:
    """The schema of a message's key or value by what raw has told of it as it landed.

    Args:
        row: raw's columns with the number and the name of the schema; that is one of the headers.
        side: which of the two.
    """
    number, named = row[f"{side}_schema_id"], of_selector(row[f"{side}_schema_name"])
    return named if number is None or named.name is not None else of_selector(str(SchemaName.of_id(number)))


def of_bytes(octets: bytes | None) -> ToldSchema:
    """The schema of a key or value that raw has told nothing of, by its bytes."""
    if octets is None:
        return ToldSchema()
    # A number that raw has no column for has more than four bytes.
    name, _ = named_in_bytes(octets, LEGACY_ID_BYTES)
    if name is not None and name.kind == "guid" and UUID(name.text).variant != RFC_4122:
        # Bytes of a row that begin alike: none of its values is to be shown for a schema.
        return ToldSchema()
    if name is not None:
        return of_selector(str(name))
    wrapped = _read(octets) if octets[:1] == b"{" else None
    return _of_schema(wrapped.get("schema")) if isinstance(wrapped, dict) and "payload" in wrapped else ToldSchema()


def _of_schema(schema: object) -> ToldSchema:
    # A row may have columns of these names, and none of its values is to be shown for one of a schema.
    if not isinstance(schema, dict) or schema.get("type") != "struct" or not isinstance(schema.get("fields"), list):
        return ToldSchema()
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    name = schema.get("name") if isinstance(schema.get("name"), str) else None
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return ToldSchema(name=f"inline:{shown(name)}/{digest}" if name else f"inline:{digest}")


def _read(text: str | bytes | None) -> Any:  # noqa: ANN401 - whatever JSON has
    """What a text says in JSON; None for what is none."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
