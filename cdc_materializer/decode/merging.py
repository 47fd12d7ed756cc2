"""Writers of one table read as one, so that a plan does not grow with each `ALTER TABLE` that a batch has met. Pure.

Each message is still decoded by its own writer's schema; where the writers differ in which columns they have, and in
nothing that a value means, Avro's reader puts what it decoded into the union of their columns. The NULLs that it puts
where a writer has no column are no data: which columns a message tells is known by its writer (ADR 16).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_materializer.decode.columns import BESIDE, CUT, UNTOLD_SIGN, is_money, is_unsigned, meaning
from cdc_materializer.decode.units import NUMBER
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer
from cdc_materializer.names import same_name

#: Up to so many writers are read each by itself: the plan is smaller so.
APART_MAX = 4
#: How deep records are merged: an envelope and its blocks; a struct inside a row is one type, equal or not.
ENVELOPE_DEPTH = 2
KEY_DEPTH = 1

#: The parameters that say what a value means.
_MEANING = frozenset({"scale", "precision", "connect.decimal.precision", "ddl", BESIDE, UNTOLD_SIGN, NUMBER, CUT})


def merged(writers: Sequence[Writer], depth: int, *, parts: bool = True) -> tuple[Writer, ...]:
    """The writers, those put together that can be read as one.

    Args:
        writers: of envelopes, or of keys.
        depth: how deep their records are merged.
        parts: whether structs inside of a row are merged too, so that a value's type may have fields that its writer's
            has not.
    """
    rule = _Rule(parts)
    if len(writers) <= APART_MAX:
        return tuple(writers)
    groups: list[Writer] = []
    for writer in writers:
        for at, group in enumerate(groups):
            wider = rule.merge(group, writer, depth)
            if wider is not None:
                groups[at] = wider
                break
        else:
            groups.append(writer)
    return tuple(groups)


@dataclass(frozen=True)
class _Rule:
    """How two writers are merged; `parts` as in `merged`."""

    parts: bool

    def merge(self, group: Writer, writer: Writer, depth: int) -> Writer | None:
        """The reader of both; None where one cannot read both."""
        if (group.form, group.wrapped, group.bare) != (writer.form, writer.wrapped, writer.bare):
            return None
        if group.is_plain or writer.is_plain:
            return None
        wire = self._wire(group.wire, writer.wire, depth)
        if wire is None:
            return None
        members = (*(group.members or (group,)), writer)
        if group.avro is None or writer.avro is None:
            return replace(group, wire=wire, members=members)
        # One level deeper: the datum stands in a record of its own (`writers`).
        reader = self._avro(json.loads(group.avro), json.loads(writer.avro), depth + 1)
        return None if reader is None else replace(group, wire=wire, avro=json.dumps(reader), members=members)

    def _wire(self, one: WireType, other: WireType, depth: int) -> WireType | None:
        optional = one.optional or other.optional
        are_records = one.literal == other.literal == "record"
        if not (depth and are_records) and _meaning(one) == _meaning(other):
            return replace(one, optional=optional)
        if one.literal != other.literal or not (depth or self._is_plain(one, other)):
            return None
        if one.items is not None and other.items is not None:
            items = self._wire(one.items, other.items, 0)
            return replace(one, items=items, optional=optional) if items is not None else None
        return self._record(one, other, depth) if are_records else None

    def _record(self, one: WireType, other: WireType, depth: int) -> WireType | None:
        fields: dict[str, WireType] = dict(one.fields)
        for name, kind in other.fields:
            # Spark would not tell the two apart; columns of a row are refused by their names elsewhere.
            if not depth and name not in fields and any(same_name(name, known) for known in fields):
                return None
            both = self._wire(fields[name], kind, max(depth - 1, 0)) if name in fields else kind
            if both is None:
                return None
            fields[name] = both
        nulls = tuple(dict.fromkeys((*one.nulls, *other.nulls)))
        optional = one.optional or other.optional
        return replace(one, fields=tuple(fields.items()), optional=optional, nulls=nulls)

    def _is_plain(self, one: WireType, other: WireType) -> bool:
        """Whether two types inside of a row mean nothing but what their parts do."""
        return self.parts and (one.name, one.logical) == (other.name, other.logical) and not meaning(one)

    def _avro(self, one: Any, other: Any, depth: int) -> Any:  # noqa: ANN401 - JSON
        """The schema into which both are read; None where there is none."""
        first, second = _present(one), _present(other)
        if first == second:
            return one if one == other else _nullable(first)
        if not (len(first) == len(second) == 1 and isinstance(first[0], dict) and isinstance(second[0], dict)):
            return None
        found = self._avro_type(first[0], second[0], depth) if first[0]["type"] == second[0]["type"] else None
        return found if found is None or (isinstance(one, dict) and isinstance(other, dict)) else _nullable([found])

    def _avro_type(self, one: dict[str, Any], other: dict[str, Any], depth: int) -> Any:  # noqa: ANN401 - JSON
        if one["type"] == "record":
            return self._avro_record(one, other, depth) if depth or self.parts else None
        if one["type"] == "enum":
            return {**one, "symbols": list(dict.fromkeys((*one["symbols"], *other["symbols"])))}
        part = {"array": "items", "map": "values"}.get(one["type"])
        inside = self._avro(one[part], other[part], 0) if part is not None else None
        return {**one, part: _nullable(_present(inside))} if inside is not None else None

    def _avro_record(self, one: dict[str, Any], other: dict[str, Any], depth: int) -> dict[str, Any] | None:
        types: dict[str, Any] = {field["name"]: field["type"] for field in one["fields"]}
        for field in other["fields"]:
            name, kind = field["name"], field["type"]
            types[name] = self._avro(types[name], kind, max(depth - 1, 0)) if name in types else kind
            if types[name] is None:
                return None
        nullable = [{"name": name, "type": _nullable(_present(kind)), "default": None} for name, kind in types.items()]
        return {**one, "fields": nullable}


def _meaning(wire: WireType) -> WireType:
    """A type as far as it says how a value is read, whether it may be NULL aside."""
    parameters = {name: value for name, value in wire.parameters.items() if name in _MEANING}
    # What the type in the source's database says, and not its name: a longer VARCHAR is read as a shorter one is.
    parameters |= {"unsigned": ""} if is_unsigned(wire) else {}
    parameters |= {"money": ""} if is_money(wire) else {}
    parts = tuple((name, replace(_meaning(kind), optional=kind.optional)) for name, kind in wire.fields)
    items = replace(_meaning(wire.items), optional=wire.items.optional) if wire.items is not None else None
    plain = replace(wire, optional=False, doc=None, default=None, nulls=(), aliases=())
    return replace(plain, parameters=parameters, fields=parts, items=items)


def _present(schema: Any) -> list[Any]:  # noqa: ANN401 - JSON
    branches = schema if isinstance(schema, list) else [schema]
    return [branch for branch in branches if branch != "null"]


def _nullable(branches: list[Any]) -> list[Any]:
    return ["null", *branches]
