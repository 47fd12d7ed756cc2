"""Columns whose type their writers leave open, and types that a contract prefers: the same however the log is cut."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pyspark.sql import Row

from cdc_materializer.changes.formats import find
from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.contract.model import Contract
from cdc_materializer.decoders.decoders import Decoders, Lookup, decoders_of
from cdc_materializer.errors import ContractInvalid
from cdc_materializer.masks import Mask, Masks
from cdc_materializer.schema.schema import Column, Evolution, TableSchema
from cdc_materializer.testing import MemoryRegistry
from tests.unit.contracts import write

_VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _moment(logical: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


#: What a column may be sent as, by a short name.
_SENT: dict[str, Any] = {
    "int": "int",
    "long": "long",
    "double": "double",
    "text": "string",
    "12.2": _decimal(12, 2),
    "16.2": _decimal(16, 2),
    "10.4": _decimal(10, 4),
    "any": _VARIABLE,
    "local": _moment("local-timestamp-micros"),
    "instant": _moment("timestamp-micros"),
    "instants": {"type": "array", "items": _moment("timestamp-micros")},
    "locals": {"type": "array", "items": _moment("local-timestamp-micros")},
}
_KINDS = list(_SENT)
_KEY_WRITER = 100
_PLAIN = Options(format=find("upsert"))
_BESIDE = replace(_PLAIN, evolution=Evolution(new_columns=True))


def _record(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Avro types
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields.items()]}


_REGISTRY = MemoryRegistry(
    {at: _record("Value", id="long", v=["null", kind]) for at, kind in enumerate(_SENT.values())}
    | {_KEY_WRITER: _record("Key", id="long")}
)


def _decoders(
    kinds: list[str], options: Options = _PLAIN, current: TableSchema | None = None, contract: Contract | None = None
) -> Decoders:
    """What a batch of one message each is read by."""
    key = f"id:{_KEY_WRITER:08X}"
    writers = [f"id:{_KINDS.index(kind):08X}" for kind in kinds]
    rows = [
        Row(value_writer=one, key_writer=key, value_block=None, key_block=None, first=(at, 0), last=(at, at, 0))
        for at, one in enumerate(writers)
    ]
    return decoders_of(rows, Lookup(_REGISTRY, contract, options, current, ("t",)))


def _read(found: Decoders) -> dict[str, str]:
    """The types in which the column is read, by the writers' short names."""
    options = found.lookup.options
    told = [(one, options.row(one)) for one in found.writers.changes]
    kinds = [(one, row.get("v")) for one, row in told if row is not None]
    return {
        _KINDS[int(one.selector.removeprefix("id:"), 16)]: options.reader(one).read(kind).ddl
        for one, kind in kinds
        if kind is not None
    }


def _table(ddl: str, **more: str) -> TableSchema:
    columns = (Column("id", "bigint"), Column("v", ddl), *[Column(name, kind) for name, kind in more.items()])
    return TableSchema(columns, ("id",))


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Contract]:
    """Contracts by the type that they declare."""
    folder = tmp_path_factory.mktemp("contracts")
    types = ("numeric(12,2)", "numeric(12,4)", "numeric(20,0)", "bigint", "text", "timestamp without time zone")
    return {ddl: load_contract(write(folder, f'- {{name: v, physicalType: "{ddl}"}}')) for ddl in types}


@given(kinds=st.lists(st.sampled_from(_KINDS), min_size=1, max_size=4, unique=True), data=st.data())
def test_any_cut_of_the_log_reads_a_column_in_the_same_types(
    contracts: dict[str, Contract], kinds: list[str], data: st.DataObject
) -> None:
    """Batches of one writer each, and one batch of all; and whoever reads all of it once more, as `verify` does."""
    contract = contracts.get(data.draw(st.sampled_from(["none", *contracts]), "contract"))
    options = data.draw(st.sampled_from([_PLAIN, _BESIDE]), "options")
    try:
        whole = _decoders(kinds, options, contract=contract)
    except ContractInvalid:
        reject()  # for its first writer, which stops any batch
    table, read, beside = None, dict[str, str](), set[tuple[str, str | None]]()
    for kind in kinds:
        found = _decoders([kind], options, table, contract)
        table, read = found.plan.target, read | _read(found)
        beside |= {(one.writer_type, one.becomes) for one in found.plan.misfits}
    again = _decoders(kinds, options, table, contract)

    assert table is not None
    assert whole.plan.target.types == table.types == again.plan.target.types
    assert _read(whole) == read == _read(again)
    assert {(one.writer_type, one.becomes) for one in whole.plan.misfits} == beside


@pytest.mark.parametrize(
    ("kinds", "ddl", "read"),
    [
        (["12.2", "any"], "decimal(38,2)", "decimal(38,2)"),
        (["any", "12.2"], "string", "string"),
        (["int", "any"], "int", "string"),
        (["text", "any"], "string", "string"),
    ],
)
def test_numbers_with_a_scale_each_are_read_in_the_scale_of_the_column(kinds: list[str], ddl: str, read: str) -> None:
    """With digits enough before the point; where the column has no decimals they are texts."""
    found = _decoders(kinds)

    assert (found.plan.target.types["v"], _read(found)["any"]) == (ddl, read)


def test_a_number_that_its_column_does_not_hold_has_a_place_beside_it(contracts: dict[str, Contract]) -> None:
    """As a text, if the table is told so; not what a contract says that it has to be."""
    found = _decoders(["12.2", "any"], _BESIDE)
    declared = _decoders(["any"], _BESIDE, contract=contracts["numeric(12,4)"])

    assert found.plan.target.types == {"id": "bigint", "v": "decimal(38,2)", "v__string": "string"}
    assert [(one.writer_type, one.becomes) for one in found.plan.misfits] == [("string", "v__string")]
    assert (declared.plan.target.types, declared.plan.misfits) == ({"id": "bigint", "v": "decimal(12,4)"}, ())


def test_a_column_of_decimals_is_outgrown_by_numbers_with_a_scale_each(contracts: dict[str, Contract]) -> None:
    """What it cannot hold it holds when it is rebuilt, as text, or in the type that the contract declares."""
    decimals, text = _table("decimal(38,2)"), _table("string")

    assert _decoders(["12.2", "any"], current=decimals).outgrown == {"v": "string"}
    assert _decoders(["any", "12.2"], current=decimals).outgrown == {}
    assert _decoders(["any"], current=text).outgrown == {}
    for kinds, table, wanted in ((["any"], text, "decimal(12,4)"), (["12.2", "any"], decimals, "decimal(14,4)")):
        found = _decoders(kinds, current=table, contract=contracts["numeric(12,4)"])
        assert (found.outgrown, found.kept) == ({"v": wanted}, {"v": "decimal(12,4)"})
    same = _decoders(["any"], current=_table("decimal(16,2)"), contract=contracts["numeric(12,2)"])
    assert (_read(same), same.outgrown, same.kept) == ({"any": "decimal(12,2)"}, {}, {})


@pytest.mark.parametrize("current", [None, _table("string")])
def test_what_a_mask_makes_of_a_column_says_nothing_of_its_numbers(current: TableSchema | None) -> None:
    """Nor do the writers before: the text of a number, and its hash, are the same in any batch."""
    options = replace(_PLAIN, masks=Masks({"v": Mask.HASH}, declared=frozenset({"v"}), key=b"k"))

    assert _read(_decoders(["12.2", "any"], options, current))["any"] == "string"


def test_moments_keep_the_zone_that_their_column_has(contracts: dict[str, Contract]) -> None:
    """By the table, the contract, or the first writer of a column; those that tell it themselves change nothing."""
    assert _read(_decoders(["local", "instant"])) == {"local": "timestamp_ntz", "instant": "timestamp_ntz"}
    assert _read(_decoders(["instant", "local"])) == {"local": "timestamp_ntz", "instant": "timestamp"}
    assert _read(_decoders(["locals", "instants"]))["instants"] == "array<timestamp_ntz>"
    declared = contracts["timestamp without time zone"]
    assert _read(_decoders(["instant"], contract=declared)) == {"instant": "timestamp_ntz"}
    kept = _decoders(["instant"], current=_table("timestamp"), contract=declared)
    assert (_read(kept), kept.outgrown, kept.kept) == ({"instant": "timestamp"}, {}, {})
