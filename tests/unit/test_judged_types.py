"""How masked columns are read, and the types in which rules see them: the same whatever else a batch has."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decoders.decoders import Decoders, Lookup, decoders_of
from cdc_materializer.masks import PLAIN
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.schema.types import judged_as
from cdc_materializer.testing import MemoryRegistry, avro_envelope_schema, avro_key_schema
from tests.unit.contracts import write
from tests.unit.test_decoders import row

_TABLE = TableSchema((Column("id", "bigint"), Column("pay", "string")), ("id",))


@pytest.mark.parametrize(
    ("one", "other", "both", "is_one"),
    [
        ("int", "bigint", "bigint", True),
        ("decimal(10,2)", "decimal(14,4)", "decimal(14,4)", True),
        ("decimal(12,2)", "int", "decimal(12,2)", True),
        ("decimal(38,0)", "decimal(38,10)", "double", True),
        ("decimal(12,2)", "double", "double", True),
        ("bigint", "float", "double", True),
        ("float", "double", "double", True),
        ("boolean", "int", "int", True),
        ("date", "timestamp_ntz", "timestamp_ntz", True),
        ("timestamp", "timestamp_ntz", "timestamp", True),
        ("array<decimal(10,2)>", "array<double>", "array<double>", True),
        ("struct<`a`:decimal(4,2)>", "struct<`a`:int,`b`:date>", "struct<`a`:decimal(12,2),`b`:date>", True),
        ("string", "decimal(12,2)", "string", True),
        ("decimal(12,2)", "string", "decimal(12,2)", False),
        ("boolean", "decimal(1,0)", "boolean", False),
        ("array<int>", "map<string,int>", "array<int>", False),
    ],
)
def test_two_types_are_judged_in_one_that_has_both(one: str, other: str, both: str, *, is_one: bool) -> None:
    """No scale is kept, because nothing is stored in it; numbers are no texts, but a text has anything."""
    assert judged_as(one, other) == (both, is_one)


_NUMBERS = st.sampled_from(
    ["int", "bigint", "float", "double", "decimal(6,0)", "decimal(12,2)", "decimal(30,8)", "decimal(38,0)"]
)


@given(st.lists(_NUMBERS, min_size=1, max_size=4))
def test_every_number_is_judged_whatever_the_order_of_its_writers(kinds: list[str]) -> None:
    """So no value is held in one cut of the log and published in another."""
    found = set()
    for order in permutations(kinds):
        both = order[0]
        for kind in order[1:]:
            both, fits = judged_as(both, kind)
            assert fits
        assert all(judged_as(both, kind) == (both, True) for kind in kinds)
        found.add(both)

    assert len({both in {"float", "double"} for both in found}) == 1


def _decoders(tmp_path: Path, declared: str, mask: str, *columns: object) -> Decoders:
    """What decodes the messages of some writers of a mirror that has the masked column `pay` already."""
    hides = f"customProperties: [{mask}], required: true"
    contract = load_contract(write(tmp_path, f"- {{name: pay, physicalType: '{declared}', {hides}}}"))
    fields: list[dict[str, Any]] = [{"id": "long"} | ({"pay": one} if one is not None else {}) for one in columns]
    schemas = {at: avro_envelope_schema("t", one) for at, one in enumerate(fields, 2)}
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"}), **schemas})
    sent = [row(f"id:{at:08X}", "id:00000001") for at in schemas]
    return decoders_of(sent, Lookup(registry, contract, Options(masks=contract.masks), _TABLE, ("t",)))


def _decimal(digits: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale}


_REDACT, _HASH = "{property: mask, value: redact}", "{property: mask, value: hash}"


@pytest.mark.parametrize(
    ("declared", "sent", "seen"),
    [
        ("numeric(12,2)", ["double"], "double"),
        ("numeric(14,4)", [_decimal(10, 2), _decimal(14, 4)], "decimal(14,4)"),
        ("numeric(12,2)", [_decimal(14, 4), _decimal(10, 2)], "decimal(14,4)"),
        ("text", ["int", "string"], "string"),
        ("text", ["int"], "string"),
        ("numeric(12,2)", [None], "decimal(12,2)"),
    ],
)
def test_rules_see_a_type_that_has_what_all_writers_send(
    tmp_path: Path, declared: str, sent: list[object], seen: str
) -> None:
    """And texts where the contract says so, for its rules speak of texts."""
    assert _decoders(tmp_path, declared, _REDACT, *sent).folded.types[f"{PLAIN}pay"] == seen


def test_the_type_that_rules_see_does_not_depend_on_who_wrote_first(tmp_path: Path) -> None:
    """A boolean takes no fraction, and becomes a number that does beside another one."""
    hides = f"customProperties: [{_REDACT}], required: true"
    masks = load_contract(write(tmp_path, f"- {{name: pay, physicalType: 'numeric(12,2)', {hides}}}")).masks

    found = set()
    for kinds in permutations(("int", "decimal(10,2)", "boolean")):
        writers = [TableSchema((Column("id", "bigint"), Column("pay", kind)), ("id",)) for kind in kinds]
        found.add(masks.with_plain(_TABLE, writers).types[f"{PLAIN}pay"])

    assert found == {"decimal(12,2)"}


def test_what_a_batch_leaves_out_is_judged_in_the_types_of_the_past(tmp_path: Path) -> None:
    """Once its source drops a column no writer says what its values were; the contract may call them another."""
    past, own = (_decoders(tmp_path, "numeric(12,2)", _REDACT, kind) for kind in ("double", None))

    assert own.folded_with(past).types == {**own.plan.target.types, f"{PLAIN}pay": "double"}
    assert past.folded_with(own).types == past.folded.types


@pytest.mark.parametrize("mask", [_HASH, _REDACT, "{property: mask, value: null}", "{property: drop, value: true}"])
def test_a_masked_text_is_read_as_declared_whatever_came_before_it(tmp_path: Path, mask: str) -> None:
    """The mirror has no number for which it would have to stay a text."""
    found = []
    for sent in (["double", "string"], ["string"]):
        writer = _decoders(tmp_path, "numeric(12,2)", mask, *sent).writers.changes[-1]
        kinds = dict((Options().row(writer) or writer.wire).fields)
        found.append(column_type(kinds["pay"]))

    assert found == ["decimal(12,2)", "decimal(12,2)"]
