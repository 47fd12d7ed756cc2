"""Writers of one table read as one, so that a plan does not grow with each `ALTER TABLE` that a batch has met. Pure.

Each message is still decoded by its own writer's schema; where the writers differ in which columns they have, and in
nothing that a value means, Avro's reader puts what it decoded into the union of their columns. The NULLs that it puts
where a writer has no column are no data: which columns a message tells is known by its writer (ADR 16).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer

#: Up to so many writers are read each by itself: the plan is smaller so.
APART_MAX = 4
#: How deep records are merged: an envelope and its blocks; a struct inside a row is one type, equal or not.
ENVELOPE_DEPTH = 2
KEY_DEPTH = 1

#: The parameters that say what a value means.
_MEANING = frozenset({"scale", "precision", "connect.decimal.precision", "ddl"})


def merged(writers: Sequence[Writer], depth: int) -> tuple[Writer, ...]:
    """The writers, those put together that can be read as one.

    Args:
        writers: of envelopes, or of keys.
        depth: how deep their records are merged.
    """
    if len(writers) <= APART_MAX:
        return tuple(writers)
    groups: list[Writer] = []
    for writer in writers:
        for at, group in enumerate(groups):
            wider = _merge(group, writer, depth)
            if wider is not None:
                groups[at] = wider
                break
        else:
            groups.append(writer)
    return tuple(groups)


def _merge(group: Writer, writer: Writer, depth: int) -> Writer | None:
    if (group.form, group.wrapped) != (writer.form, writer.wrapped) or group.is_plain or writer.is_plain:
        return None
    wire = _merge_wire(group.wire, writer.wire, depth)
    if wire is None:
        return None
    members = (*(group.members or (group,)), writer)
    if group.avro is None or writer.avro is None:
        return replace(group, wire=wire, members=members)
    # One level deeper: the datum stands in a record of its own (`writers`).
    reader = _merge_avro(json.loads(group.avro), json.loads(writer.avro), depth + 1)
    return None if reader is None else replace(group, wire=wire, avro=json.dumps(reader), members=members)


def _merge_wire(one: WireType, other: WireType, depth: int) -> WireType | None:
    optional = one.optional or other.optional
    if not (one.literal == other.literal == "record" and depth):
        return replace(one, optional=optional) if _meaning(one) == _meaning(other) else None
    fields: dict[str, WireType] = dict(one.fields)
    for name, kind in other.fields:
        if name not in fields:
            fields[name] = kind
            continue
        both = _merge_wire(fields[name], kind, depth - 1)
        if both is None:
            return None
        fields[name] = both
    return replace(one, fields=tuple(fields.items()), optional=optional)


def _meaning(wire: WireType) -> WireType:
    """A type as far as it says how a value is read, whether it may be NULL aside."""
    parameters = {name: value for name, value in wire.parameters.items() if name in _MEANING}
    parts = tuple((name, replace(_meaning(kind), optional=kind.optional)) for name, kind in wire.fields)
    items = replace(_meaning(wire.items), optional=wire.items.optional) if wire.items is not None else None
    return replace(wire, optional=False, parameters=parameters, fields=parts, items=items, doc=None, default=None)


def _merge_avro(one: Any, other: Any, depth: int) -> Any:  # noqa: ANN401 - JSON
    """The schema into which both are read; None where there is none."""
    first, second = _present(one), _present(other)
    if not (depth and len(first) == len(second) == 1 and _is_record(first[0]) and _is_record(second[0])):
        return _nullable(first) if first == second else None
    fields: dict[str, Mapping[str, Any]] = {field["name"]: field for field in first[0]["fields"]}
    for field in second[0]["fields"]:
        name = field["name"]
        found = _merge_avro(fields[name]["type"], field["type"], depth - 1) if name in fields else field["type"]
        if found is None:
            return None
        fields[name] = {"name": name, "type": _nullable(_present(found)), "default": None}
    nullable = [{**field, "type": _nullable(_present(field["type"])), "default": None} for field in fields.values()]
    record = {**first[0], "fields": nullable}
    return record if isinstance(one, dict) and isinstance(other, dict) else _nullable([record])


def _present(schema: Any) -> list[Any]:  # noqa: ANN401 - JSON
    branches = schema if isinstance(schema, list) else [schema]
    return [branch for branch in branches if branch != "null"]


def _nullable(branches: list[Any]) -> list[Any]:
    return ["null", *branches]


def _is_record(schema: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(schema, dict) and schema["type"] == "record"
