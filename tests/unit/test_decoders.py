"""The writers of a batch, from what its messages name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import Row

from cdc_materializer.changes.formats import find
from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.columns import UNTOLD_SIGN, is_unsigned
from cdc_materializer.decode.proto_files import bundle
from cdc_materializer.decode.wire import BASE64, BASE64_URL, BYTES, DIGITS_OF_HEX, HEX, SET
from cdc_materializer.decoders.decoders import Lookup, decoders_of
from cdc_materializer.decoders.selectors import in_order
from cdc_materializer.errors import ConfigError, ContractInvalid, SchemaRefused
from cdc_materializer.registry import RegisteredSchema, Wanted
from cdc_materializer.schema.schema import Column, Evolution, TableSchema
from cdc_materializer.testing import (
    MemoryRegistry,
    avro_envelope_schema,
    avro_key_schema,
    connect_envelope_schema,
    connect_key_schema,
)
from tests.unit.contracts import write

TABLE = TableSchema((Column("id", "bigint"), Column("name", "string")), ("id",))
STRANGE = ["id:7B226964", "guid:" + "00" * 16, "fingerprint:" + "00" * 8, "content:" + "00" * 8, "artifact:/61/31"]


def row(value: str | None, key: str | None = "json") -> Row:
    """One pair of writers, without schema blocks."""
    return Row(value_writer=value, key_writer=key, value_block=None, key_block=None, last=(0, 0, 0))


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("side", ["value", "key"])
def test_without_a_registry_bytes_that_look_like_a_schemas_name_are_held_alone(name: str, side: str) -> None:
    """Anyone can write a zero byte into a topic of JSON; its other messages are read all the same."""
    strange = row(name) if side == "value" else row("json", name)

    found = decoders_of([strange, row("json")], Lookup(None, None, Options(), TABLE, ("orders",)))

    assert found.writers.unknown == (name,)
    assert [writer.selector for writer in found.writers.values] == ["json"]


class _Counted(MemoryRegistry):
    """A registry that notes the numbers it is asked for."""

    def __init__(self, schemas: dict[int, Any]) -> None:
        super().__init__(schemas)
        self.asked: list[int | None] = []

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """By its id."""
        self.asked.append(wanted if isinstance(wanted, int) else wanted.number)
        return super().schema(wanted)


def test_what_the_registry_does_not_know_is_asked_for_once_in_a_batch() -> None:
    """By whatever is made of its lookup; the next batch asks again."""
    registry = _Counted({1: avro_key_schema("t", {"id": "long"})})
    rows = [row("json", "id:00000001"), row("json", "id:00000007"), row("id:00000007", "id:00000007")]

    found = decoders_of(rows, Lookup(registry, None, Options(), TABLE))
    decoders_of(rows, replace(found.lookup, current=found.plan.target))
    again = decoders_of(rows, Lookup(registry, None, Options(), TABLE))

    assert set(found.writers.unknown) == set(again.writers.unknown) == {"id:00000007"}
    assert registry.asked.count(7) == 2


def test_what_is_known_is_told_of_each_side() -> None:
    """A schema may be one of keys and nonsense as one of values, and what was not looked up is not known."""
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"}), 3: "no schema"})
    rows = [row("json", "id:00000001"), row("id:00000003", "id:00000009"), row("id:00000009", "unasked")]
    rows += [row("encoding:", None), row("unasked", "unknown")]

    found = decoders_of(rows, Lookup(registry, None, Options(), TABLE)).writers

    assert found.known_values == ("json", "id:00000003", "encoding:")
    assert found.known_keys == ("id:00000001", "unknown")
    assert set(found.unknown) == {"id:00000009", "unasked"}


@pytest.mark.parametrize(
    "rows",
    [
        [row("id:00000001", "id:00000002")],
        [row("id:00000001"), row("id:00000003")],
        # Values in JSON alone are not enough: no message would be read.
        [row("json", "id:00000002"), row(None, "id:00000002")],
        [row("id:00000001", "id:00000002"), row("unknown", None), row(None, None)],
    ],
)
def test_a_batch_that_cannot_be_read_without_a_registry_stops(rows: list[Row]) -> None:
    """A registry that is missing in the configuration is said, and not taken for messages to be held."""
    with pytest.raises(ConfigError, match="no registry is configured"):
        decoders_of(rows, Lookup(None, None, Options(), TABLE))


@pytest.mark.parametrize(
    ("encoding", "read"), [(None, ["json", "id:00000002"]), ("avro", ["id:00000002"]), ("json", ["json"])]
)
def test_values_in_another_encoding_than_the_configured_one_are_not_read(
    encoding: Literal["avro", "json"] | None, read: list[str]
) -> None:
    """They are held one by one; keys may be written otherwise than values."""
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"}), 2: avro_envelope_schema("t", {"id": "long"})})
    rows = [row("json"), row("id:00000002", "id:00000001")]

    found = decoders_of(rows, Lookup(registry, None, Options(encoding=encoding), TABLE))

    assert [writer.selector for writer in found.writers.values] == read
    assert len(found.writers.keys) == 2


@pytest.mark.parametrize(
    ("columns", "key", "why"),
    [
        (None, (), "has no contract"),
        ("- {name: v}", ("id",), "nor does orders.yaml of v"),
        ("- {name: v, physicalType: int}", (), "said nowhere"),
        ("- {name: v, physicalType: int}", ("no",), "does not declare no"),
    ],
)
def test_a_format_without_types_is_refused_where_no_contract_has_them(
    tmp_path: Path, columns: str | None, key: tuple[str, ...], why: str
) -> None:
    """Before anything is made of its messages, and with what to do."""
    contract = load_contract(write(tmp_path, columns)) if columns is not None else None
    options = Options(key=key, format=find("maxwell"))

    with pytest.raises(ConfigError, match=why):
        decoders_of([row("json", None)], Lookup(None, contract, options, None, ("maxwell.shop.orders",)))


def test_a_contract_is_the_table_of_a_format_without_types(tmp_path: Path) -> None:
    """Whatever the messages have; updates may leave out all of its columns, and those of a set are known as such."""
    contract = load_contract(write(tmp_path, "- {name: s, physicalType: 'set(''a'')'}"))
    options = Options(key=("id",), format=find("maxwell"))

    found = decoders_of([row("json", None)], Lookup(None, contract, options, None, ("maxwell.shop.orders",)))

    assert found.plan.target.types == {"id": "bigint", "s": "string"}
    assert found.plan.target.key == ("id",)
    assert (found.partial.absent, found.partial.unavailable) == ((), ("id", "s"))
    (wire,) = [dict(writer.wire.fields) for writer in found.writers.values]
    assert SET in wire["s"].parameters
    assert SET not in wire["id"].parameters


@pytest.mark.parametrize(
    ("name", "stated", "spelling"),
    [
        ("maxwell", "", BASE64),
        ("dms", "", HEX),
        ("dms", ", customProperties: [{property: written_as, value: hex}]", DIGITS_OF_HEX),
        ("canal", ", customProperties: [{property: written_as, value: base64}]", BASE64),
        ("opencdc", ", customProperties: [{property: written_as, value: base64url}]", BASE64_URL),
    ],
)
def test_a_contract_tells_how_bytes_are_written(tmp_path: Path, name: str, stated: str, spelling: str) -> None:
    """Or else the format does."""
    contract = load_contract(write(tmp_path, f"- {{name: b, physicalType: bytea{stated}}}"))
    options = Options(key=("id",), format=find(name))

    found = decoders_of([row("json", None)], Lookup(None, contract, options, None, ("orders",)))

    (wire,) = [dict(writer.wire.fields) for writer in found.writers.values]
    assert wire["b"].parameters[BYTES] == spelling


def test_decimals_are_in_digits_where_nothing_has_types(tmp_path: Path) -> None:
    """None of these formats writes the bytes of an unscaled value."""
    stated = "customProperties: [{property: written_as, value: bytes}]"
    contract = load_contract(write(tmp_path, f"- {{name: d, physicalType: 'decimal(9,2)', {stated}}}"))
    options = Options(key=("id",), format=find("maxwell"))

    with pytest.raises(ConfigError, match=r"orders\.yaml says that d is written in bytes; the format of t writes"):
        decoders_of([row("json", None)], Lookup(None, contract, options, None, ("t",)))


NUMERIC = {
    "type": "record",
    "name": "Numeric",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}


@pytest.mark.parametrize(
    ("declared", "column", "now", "table"),
    [
        ("bigint", "int", None, "bigint"),
        ("bigint", "int", "int", "bigint"),
        ("decimal(20,0)", "long", None, "decimal(20,0)"),
        ("decimal(18,0)", "long", None, "bigint"),
        ("int", "long", None, "bigint"),
        ("text", "long", None, "bigint"),
        ("double", "float", None, "double"),
        # Iceberg cannot change it in place.
        ("decimal(20,0)", "long", "bigint", "bigint"),
        ("decimal(12,4)", NUMERIC, None, "decimal(12,4)"),
        ("bigint", NUMERIC, None, "string"),
        ("decimal(12,4)", NUMERIC, "string", "string"),
        ("text", NUMERIC, "decimal(12,4)", "decimal(38,4)"),
        ("decimal(14,4)", NUMERIC, "decimal(12,4)", "decimal(14,4)"),
        ("decimal(14,2)", NUMERIC, "decimal(12,4)", "decimal(38,4)"),
        ("decimal(10,4)", NUMERIC, "decimal(12,4)", "decimal(12,4)"),
    ],
)
def test_a_contracts_type_wins_where_it_holds_all_of_the_sources(
    tmp_path: Path, declared: str, column: object, now: str | None, table: str
) -> None:
    """And where the table can have it; another type is no reason to hold or to change a value."""
    contract = load_contract(write(tmp_path, f"- {{name: v, physicalType: '{declared}'}}"))
    envelope = avro_envelope_schema("t", {"id": "long", "v": column})
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"}), 2: envelope})
    current = TableSchema((Column("id", "bigint"), Column("v", now)), ("id",)) if now is not None else None

    found = decoders_of([row("id:00000002", "id:00000001")], Lookup(registry, contract, Options(), current))

    assert found.plan.target.types["v"] == table
    assert found.plan.misfits == ()


def test_a_key_may_have_a_column_that_is_called_op() -> None:
    """It is no envelope for that: a column of it that no table can have holds its messages, as any other's does."""
    deep: dict[str, object] = {"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}
    items = {"type": "struct", "fields": []}
    fields = [{"field": "op", "type": "string"}, {"field": "c", "type": "array", "items": items}]
    block = json.dumps({"type": "struct", "fields": fields})
    registry = MemoryRegistry({1: avro_envelope_schema("t", {"id": "long"}), 2: avro_key_schema("t", {"c": deep})})
    strange = Row(value_writer="id:00000001", key_writer="block:1", value_block=None, key_block=block, last=(1, 0))

    found = decoders_of(
        [strange, row("id:00000001", "id:00000002")], Lookup(registry, None, Options(key=("id",)), None)
    )

    assert found.writers.keys == ()


@pytest.mark.parametrize(
    ("format_name", "key", "read"),
    [
        ("upsert", ("id",), [["id"]]),
        ("debezium-flat", ("id",), [["id"]]),
        ("upsert", (), []),
        ("upsert", ("id", "name"), []),
        # Its messages without a value repeat a delete.
        ("debezium", ("id",), []),
    ],
)
@pytest.mark.parametrize("schema", ['"long"', '{"type": "string"}', '["null", "int"]'])
def test_a_key_that_is_one_value_is_the_only_key_column(
    format_name: str, key: tuple[str, ...], read: list[list[str]], schema: str
) -> None:
    """Where nothing says which column it is, or nothing needs it, its schema is none of a key."""
    options = Options(key=key, format=find(format_name))
    table = replace(TABLE, key=key or ("id",))

    found = decoders_of([row("json", "id:00000002")], Lookup(MemoryRegistry({2: schema}), None, options, table))

    assert [[name for name, _ in one.wire.fields] for one in found.writers.keys] == read


@pytest.mark.parametrize(
    ("key", "renames", "kinds"),
    [((), {}, "TE"), (("at",), {}, "EE"), (("id",), {}, "TE"), (("since",), {"at": "since"}, "EE")],
)
def test_of_the_moments_of_a_key_in_protobuf_nothing_is_cut(
    key: tuple[str, ...], renames: dict[str, str], kinds: str
) -> None:
    """Neither in Kafka's key nor in the columns of a configured one."""
    at = 'import "google/protobuf/timestamp.proto"; message Row { google.protobuf.Timestamp at = 1; int64 id = 2; }'
    registry = MemoryRegistry()
    registry.add(bundle(f'syntax = "proto3"; {at}', {}), schema_id=1, kind="PROTOBUF")
    options = Options(key=key, format=find("upsert"), evolution=Evolution(renames=renames))

    found = decoders_of([row("id:00000001", "id:00000001")], Lookup(registry, None, options, None))

    writers = (*found.writers.values, *found.writers.keys)
    assert "".join((one.protobuf or "").splitlines()[1].split()[1].split(",")[1] for one in writers) == kinds


@pytest.mark.parametrize("schema", ['"double"', '"null"', '{"type": "array", "items": "long"}', '["long", "string"]'])
def test_what_identifies_no_row_is_no_key(schema: str) -> None:
    """A floating-point number, a list, or a value of several types."""
    options = Options(key=("id",), format=find("upsert"))

    found = decoders_of([row("json", "id:00000002")], Lookup(MemoryRegistry({2: schema}), None, options, TABLE))

    assert found.writers.keys == ()


@pytest.mark.parametrize("name", ["maxwell", "canal", "dms", "goldengate", "opencdc"])
def test_a_schema_is_not_read_where_a_contract_says_the_types(name: str, tmp_path: Path) -> None:
    """Its messages are held, and say why."""
    contract = load_contract(write(tmp_path, "- {name: v, physicalType: int}"))
    registry = MemoryRegistry({2: avro_envelope_schema("s", {"id": "long"})})

    found = decoders_of(
        [row("id:00000002")], Lookup(registry, contract, Options(key=("id",), format=find(name)), None, ("orders",))
    )

    assert found.writers.refused == (("id:00000002", "with-schema"),)


@pytest.mark.parametrize("key", [("no",), ("id", "no")])
def test_a_configured_key_has_no_column_that_no_message_has(key: tuple[str, ...]) -> None:
    """It would be the key of a table that does not have it, and the others alone would take several rows for one."""
    options = Options(key=key, format=find("upsert"))
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"})})

    with pytest.raises(SchemaRefused, match=r"`key:` names what no message of orders has.*: no"):
        decoders_of([row("id:00000001", None)], Lookup(registry, None, options, None, ("orders",)))


def test_nothing_is_asked_of_a_configured_key_before_there_are_rows() -> None:
    """Heartbeats and what cannot be read tell no columns."""
    found = decoders_of([row("unknown", None)], Lookup(None, None, Options(key=("id",)), None, ("orders",)))

    assert not found.make_a_table


def _envelope(kind: str) -> str:
    text = {"type": kind, "optional": True}
    return json.dumps(connect_envelope_schema("t", {"id": {"type": "int64", "optional": False}, "code": text}))


def _sent(value: str, block: str | None, first: int, last: tuple[int, int, int]) -> Row:
    key = json.dumps(connect_key_schema("t", {"id": {"type": "int64", "optional": False}}))
    writers = {"value_writer": value, "key_writer": "block:k", "value_block": block, "key_block": key}
    return Row(**writers, first=(first, 0), last=last)


@pytest.mark.parametrize("column", [Column("code", "int"), Column("code", "string", retyped=True)])
def test_a_column_is_outgrown_by_what_was_sent_last_whatever_else_lies_behind(column: Column) -> None:
    """Messages that begin as JSON would be read in the mirror's own types: they ask for none. Offsets are no times."""
    number, text = _envelope("int32"), _envelope("string")
    rows = [_sent("block:i", number, 0, (10, 999_999, 0)), _sent("block:t", text, 2, (20, 500, 1))]
    anything = _sent("json", None, 3, (30, 501, 1))
    current = TableSchema((Column("id", "bigint"), column), ("id",))

    for sent in (rows, [*rows, anything]):
        found = decoders_of(sent, Lookup(None, None, Options(), current, ("t",))).outgrown
        assert found == ({"code": "string"} if column.type == "int" else {})


def test_plain_messages_ask_for_the_types_that_the_contract_declares(tmp_path: Path) -> None:
    """These are what somebody has said of them, as a schema is."""
    contract = load_contract(write(tmp_path, "- {name: code, physicalType: text}"))
    rows = [_sent("block:i", _envelope("int32"), 0, (10, 0, 0)), _sent("json", None, 1, (20, 1, 0))]
    current = TableSchema((Column("id", "bigint"), Column("code", "int")), ("id",))

    assert decoders_of(rows, Lookup(None, contract, Options(), current, ("t",))).outgrown == {"code": "string"}


@pytest.mark.parametrize(("kind", "wanted"), [("int32", {"code": "boolean"}), ("boolean", {})])
def test_integers_that_a_contract_calls_booleans_are_outgrown(
    tmp_path: Path, kind: str, wanted: dict[str, str]
) -> None:
    """Their column holds booleans as they are sent, and is none of them: a plan names it, and a replay rebuilds it."""
    contract = load_contract(write(tmp_path, "- {name: code, physicalType: boolean}"))
    current = TableSchema((Column("id", "bigint"), Column("code", "int")), ("id",))

    found = decoders_of(
        [_sent("block:i", _envelope(kind), 0, (10, 0, 0))], Lookup(None, contract, Options(), current, ("t",))
    )

    assert (found.outgrown, found.kept) == (wanted, wanted)


def test_a_unit_that_a_clock_would_not_be_read_in_is_told_with_its_line(tmp_path: Path) -> None:
    """It was passed over, and milliseconds stood where the contract says that a time of day is."""
    unit = "customProperties: [{property: time_unit, value: milliseconds}]"
    contract = load_contract(write(tmp_path, f"- {{name: code, physicalType: time, {unit}}}"))
    rows = [_sent("block:i", _envelope("int32"), 0, (10, 0, 0))]

    with pytest.raises(ContractInvalid, match=r"orders\.yaml:10: `code` is declared as a time of day in milliseconds"):
        decoders_of(rows, Lookup(None, contract, Options(), None, ("t",)))


@pytest.mark.parametrize(
    ("mask", "known", "is_refused"),
    [
        ("{property: drop, value: true}", None, False),
        ("{property: mask, value: redact}", None, False),
        ("{property: mask, value: hash}", "string", False),
        ("{property: mask, value: hash}", None, True),
        ("{property: team, value: x}", None, True),
    ],
)
def test_what_nobody_sees_of_a_column_needs_no_type(
    tmp_path: Path, mask: str, known: str | None, *, is_refused: bool
) -> None:
    """And what a mirror has already is no news: such a contract was followed before masked columns were read by it."""
    contract = load_contract(write(tmp_path, f"- {{name: code, physicalType: timestamp, customProperties: [{mask}]}}"))
    rows = [_sent("block:i", _envelope("int64"), 0, (10, 0, 0))]
    current = TableSchema((Column("id", "bigint"), Column("code", known)), ("id",)) if known else None
    lookup = Lookup(None, contract, Options(masks=contract.masks), current, ("t",))

    if is_refused:
        with pytest.raises(ContractInvalid, match="is declared as timestamp"):
            decoders_of(rows, lookup)
    else:
        assert decoders_of(rows, lookup).plan.target.types.get("code") in {None, "string"}


@pytest.mark.parametrize(
    ("sources", "known", "ddl", "is_open"),
    [
        (["BIGINT UNSIGNED"], "bigint", "decimal(20,0)", False),
        (["BIGINT UNSIGNED", "BIGINT UNSIGNED ZEROFILL"], "decimal(20,0)", "decimal(20,0)", False),
        (["BIGINT UNSIGNED", "BIGINT"], "decimal(20,0)", "bigint", False),
        (["BIGINT"], "decimal(20,0)", "bigint", False),
        ([], "decimal(20,0)", "decimal(20,0)", True),
        ([], "bigint", "bigint", False),
    ],
)
def test_a_key_is_unsigned_as_its_rows_are(sources: list[str], known: str, ddl: str, is_open: bool) -> None:  # noqa: FBT001
    """Debezium tells a column's type in its source in schemas of values alone; a batch of tombstones has none."""
    key = json.dumps(connect_key_schema("t", {"id": {"type": "int64", "optional": False}}))
    ids = [{"type": "int64", "parameters": {"__debezium.source.column.type": source}} for source in sources]
    blocks = [json.dumps(connect_envelope_schema("t", {"id": {**one, "optional": False}})) for one in ids]
    rows = [
        Row(value_writer=name, key_writer="block:k", value_block=block, key_block=key, last=(at, 0, 0))
        for at, (name, block) in enumerate(
            [(f"block:{at}", block) for at, block in enumerate(blocks)] or [(None, None)]
        )
    ]
    current = TableSchema((Column("id", known),), ("id",))

    (found,) = decoders_of(rows, Lookup(None, None, Options(), current, ("t",))).writers.keys

    reading = Options().reader(found).read_key(found.wire.fields[0][1])
    assert (reading.ddl, reading.invalid is not None) == (ddl, is_open)


def _unsigned(folder: Path, column: str) -> Lookup:
    """Where a contract calls a column `bigint unsigned`."""
    path = write(folder, "" if column == "id" else f"- {{name: {column}, physicalType: bigint unsigned}}")
    path.write_text(path.read_text("utf-8").replace("primaryKey: true, physicalType: bigint", _OF_KEY[column == "id"]))
    return Lookup(None, load_contract(path), Options(), None, ("t",))


_OF_KEY = ("primaryKey: true, physicalType: bigint", "primaryKey: true, physicalType: bigint unsigned")


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        ({"type": "int64"}, "decimal(20,0)"),
        ({"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT"}}, "bigint"),
        ({"type": "int64", "name": "io.debezium.time.MicroTime"}, "bigint"),
        ({"type": "int32"}, "int"),
        ({"type": "string"}, "decimal(20,0)"),
    ],
)
def test_a_contract_tells_that_integers_have_no_sign(tmp_path: Path, kind: dict[str, object], ddl: str) -> None:
    """Where their schema does not: the connector sends those from 2^63 on as negative ones."""
    block = json.dumps(connect_envelope_schema("t", {"id": {"type": "int64", "optional": False}, "n": kind}))

    found = decoders_of([_sent("block:v", block, 0, (0, 0, 0))], _unsigned(tmp_path, "n")).writers

    image = found.values[0].wire.get("after")
    column = image.get("n") if image is not None else None
    assert column is not None
    reading = Options().reader(found.values[0]).read(column)
    assert (reading.ddl, is_unsigned(column)) == (ddl, kind == {"type": "int64"})


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_contract_tells_that_keys_have_no_sign(tmp_path: Path, has_rows: bool) -> None:  # noqa: FBT001
    """In a batch of tombstones too, where no row stands beside one."""
    block = json.dumps(connect_envelope_schema("t", {"id": {"type": "int64", "optional": False}}))
    rows = [_sent("block:v", block, 0, (0, 0, 0))] if has_rows else [_sent("tombstone", None, 0, (0, 0, 0))]

    writers = decoders_of(rows, _unsigned(tmp_path, "id")).writers

    images = [image for writer in writers.values if (image := writer.wire.get("after")) is not None]
    kinds = [record.get("id") for record in (writers.keys[0].wire, *images)]
    assert [kind is not None and is_unsigned(kind) for kind in kinds] == [True] * (1 + has_rows)
    assert UNTOLD_SIGN not in writers.keys[0].wire.fields[0][1].parameters


def _met(name: str, *first: tuple[int, int, int]) -> Row:
    return Row(value_writer=name, first=list(first))


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        # Offsets 6 and 1 of two partitions, the second written later: (partition, offset, time).
        ([_met("late", (1, 1, 30)), _met("early", (0, 6, 20))], "early late"),
        # A clock that went back between two messages of one partition.
        ([_met("second", (0, 2, 10)), _met("first", (0, 1, 20))], "first second"),
        ([_met("second", (0, 2, 10)), _met("first", (0, 1, 20)), _met("third", (1, 0, 25))], "first second third"),
        # One that is in two partitions is as early as the earlier of them.
        ([_met("first", (0, 9, 90), (1, 0, 10)), _met("second", (0, 8, 80))], "first second"),
        # Of one time by offset, and by partition.
        ([_met("c", (0, 2, 0)), _met("b", (1, 1, 0)), _met("a", (0, 1, 0))], "a b c"),
    ],
)
def test_schemas_come_in_the_order_in_which_they_were_first_written(pairs: list[Row], names: str) -> None:
    """By time between partitions, and by offset inside of one."""
    assert [row["value_writer"] for row in in_order(pairs)] == names.split()
