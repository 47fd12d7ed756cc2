"""Formats are files that are found by name, and told by what the first messages look like."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_materializer.changes import formats
from cdc_materializer.changes.formats import all_formats, find, known
from cdc_materializer.changes.formats.debezium_flat import DebeziumFlat
from cdc_materializer.config.formats import known_formats
from cdc_materializer.decode.wire import WireType
from cdc_materializer.recognise import recognise, told_format
from cdc_materializer.source import Message
from cdc_materializer.testing import connect_envelope_schema, connect_key_schema, debezium_envelope, debezium_json

_ID = {"id": {"type": "int64", "optional": False}}
_NAMES = (
    "id",
    "op",
    "x_op",
    "x_table",
    "x_source_ts_ms",
    "x_transaction_id",
    "x_what",
    "x_ts_ms",
    "x_lsn",
    "__op",
    "__deleted",
)
_TEXT = {"type": "string", "optional": True}


def _messages(*values: bytes | None) -> list[Message]:
    return [Message(0, at, b"{}", value) for at, value in enumerate(values)]


def _row(name: str, **fields: object) -> bytes:
    columns = {field: _ID["id"] if isinstance(value, int) else _TEXT for field, value in fields.items()}
    return debezium_json(fields, {**connect_key_schema("t", columns), "name": name})


def _envelope() -> bytes:
    return debezium_json(debezium_envelope("c", None, {"id": 1}), connect_envelope_schema("t", _ID))


def _plain(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def _block(**fields: object) -> bytes:
    """A record with its schema beside it; what is an object is one of texts."""
    return debezium_json(fields, {**_kind(fields), "name": "t"})


def _kind(value: object) -> dict[str, object]:
    if isinstance(value, dict):
        return {"type": "struct", "optional": True, "fields": [{**_kind(v), "field": k} for k, v in value.items()]}
    return {"type": {bool: "boolean", int: "int64"}.get(type(value), "string"), "optional": True}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("debezium", [_envelope()]),
        ("debezium", [None, _envelope()]),
        ("debezium", [_plain(op="c", before=None, after={"id": 1})]),
        ("debezium", [_plain(op="c", after='{"_id": 1}')]),
        ("debezium", [_plain(schema=None, payload={"op": "c", "before": None, "after": {"id": 1}})]),
        ("debezium-flat", [_row("shop.public.orders.Value", id=1)]),
        ("debezium-flat", [_row("orders", id=1, __deleted="false")]),
        ("debezium-flat", [_plain(id=1, __op="c")]),
        # Rows of a table that has columns called so.
        ("debezium-flat", [_row("t", id=1, op="buy", after="noon", __source_ts_ms=5)]),
        ("upsert", [_row("com.acme.Order", id=1)]),
        ("upsert", [_row("com.acme.Notification", id=1), None]),
        ("upsert", [_plain(id=1, op="buy")]),
        ("upsert", [_plain(schema=None, payload={"id": 1, "op": "buy"})]),
        ("upsert", [_plain(schema=None, payload={"op": "c", "before": None}, id=1)]),
        ("iceberg-cdc", [_plain(id=1, _cdc={"op": "I"})]),
        ("maxwell", [_plain(database="d", table="t", type="insert", ts=1, data={"id": 1})]),
        ("maxwell", [_plain(database="d", table="t", type="table-create", ts=1000, sql="create")]),
        ("maxwell", [_plain(database="d", type="database-create", ts=1000, sql="create")]),
        ("upsert", [_plain(database="d", table="t", type="click", ts=1)]),
        ("canal", [_plain(data=None, database="d", table="t", type="CREATE", es=1, ts=2, isDdl=True)]),
        ("canal", [_plain(data=[{"id": "1"}], database="d", table="t", type="INSERT", es=1, ts=2, isDdl=False)]),
        ("dms", [_plain(data={"id": 1}, metadata={"record-type": "data", "operation": "load"})]),
        ("dms", [_plain(metadata={"record-type": "control", "operation": "create-table"})]),
        ("goldengate", [_plain(table="S.T", op_type="I", op_ts="2026-01-01 00:00:00", pos="1", after={"ID": 1})]),
        ("goldengate", [_plain(table="S.T", op_type="I", pos="1", after={"ID": 1})]),
        ("goldengate", [_plain(op_type="D", before={"ID": 1})]),
        ("opencdc", [_plain(position="cA==", operation="create", key={"id": 1}, payload={"after": {"id": 1}})]),
    ],
)
def test_a_format_is_told_by_its_messages(name: str, values: list[bytes | None]) -> None:
    """By schema or by fields, with the reason in words."""
    told = told_format(_messages(*values), None)

    assert told.name == name, told.reason
    assert told.why


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([_plain(id=1, _cdc={"op": "I"}, __deleted="false")], "fit `debezium-flat`"),
        ([_plain(op="c", after={"id": 1}, __deleted="false")], "fit `debezium` "),
        ([_envelope(), _row("orders", id=1, __deleted="false")], "of several formats"),
        ([None], "only tombstones"),
        ([b"\x07"], "begin like nothing that is known"),
        ([_row("io.debezium.connector.common.Heartbeat", ts_ms=1)], "change no row"),
        # Other tools' messages, whose parts would be columns, and whose deletes rows.
        ([_block(table="S.T", op_type="D", op_ts="t", pos="1", before={"ID": 1})], "`op_type` and `op_ts`"),
        ([_block(table="S.T", op_type="D", op_ts="t", current_ts="t", pos="1", ID=1)], "GoldenGate"),
        ([_block(operation="delete", position="cA==", payload={"before": None}, key={"id": 1})], "OpenCDC"),
        ([_block(database="d", table="t", type="delete", ts=1, data={"id": 1})], "Maxwell"),
        ([_block(type="DELETE", isDdl=False, es=1, database="d", table="t", ts=1)], "Canal"),
        ([_block(data={"id": 1}, metadata={"operation": "delete", "record_type": "data"})], "`data` and `metadata`"),
        ([_plain(_id={"_data": "82"}, operationType="delete", documentKey={"_id": 1}, ns={"db": "d"})], "MongoDB"),
        ([_block(_id="82", operationType="insert", fullDocument='{"_id": 1}', ns={"db": "d"})], "MongoDB"),
        ([_plain(after={"id": 1}, updated="1.0")], "`after`"),
        ([_plain(after=None, key=[1], updated="1.0"), _plain(after={"id": 1}, updated="1.0")], "`after`"),
        ([_plain(op="+", before=None, id=1)], "`op` and `before`"),
        ([_plain(op="+", before=None, after={"id": 1})], "`op` and `before`"),
        ([_plain(message={"data": {"id": 1}, "headers": {"operation": "DELETE"}})], "Qlik"),
        ([_plain(eventName="REMOVE", dynamodb={"Keys": {}})], "DynamoDB"),
        ([_plain(schemaId=5, payload={"op": "c", "before": None, "after": {"id": 1}})], "`schemaId`"),
        ([_plain(op="c", after={"id": 1}), _plain(operationType="insert", fullDocument={"id": 1})], "MongoDB"),
    ],
)
def test_no_format_is_guessed(values: list[bytes | None], why: str) -> None:
    """Where two fit, where messages are of two, or where none is seen."""
    told = told_format(_messages(*values), None)

    assert told.name is None
    assert why in told.reason


_ROW = WireType("record", fields=(("id", WireType("long")),))
_CHANGE = WireType("record", fields=(("op", WireType("string")), ("after", _ROW)))
_NO_CHANGE = WireType("record", fields=(("ts_ms", WireType("long")),))


@pytest.mark.parametrize(
    ("format_", "wire", "name", "is_row"),
    [
        ("debezium", _CHANGE, "shop.public.Notification", True),
        ("debezium", _CHANGE, "shop.Envelope", True),
        ("debezium", _NO_CHANGE, "io.debezium.connector.common.Heartbeat", False),
        ("debezium", _NO_CHANGE, "adjusted.Heartbeat", False),
        ("debezium-flat", _ROW, "shop.public.Notification", True),
        ("debezium-flat", _ROW, "io.debezium.connector.common.Notification", False),
    ],
)
def test_a_table_may_be_called_as_what_changes_no_row(format_: str, wire: WireType, name: str, is_row: bool) -> None:  # noqa: FBT001
    """Its rows were ignored, all of them, where a transform had named their schema so."""
    named = replace(wire, name=name)

    assert (formats.row_of(find(format_), named) is not None, find(format_).is_other(named)) == (is_row, not is_row)


def test_more_messages_decide_between_two_formats() -> None:
    """One that fits both stands beside one that fits one of them alone."""
    both, one = _plain(id=1, _cdc={"op": "I"}, __deleted="false"), _plain(id=1, __deleted="false")

    assert told_format(_messages(both, one), None).name == "debezium-flat"


def test_a_format_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up one is known to the configuration, found and recognised with nothing else touched."""
    text = (Path(__file__).parents[1] / "data" / "made_up_format.py").read_text(encoding="utf-8")
    (tmp_path / "made_up.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    find.cache_clear()

    assert "made-up" in known()
    assert known() == known_formats()
    found = find("made-up")
    assert found.row(WireType("record", fields=(("cells", WireType("record")),))) == WireType("record")
    assert told_format(_messages(_plain(verb="put", cells={"id": 1})), None).name == "made-up"


def test_the_transforms_own_settings_say_what_was_added() -> None:
    """As ExtractNewRecordState makes names of `add.fields` and `add.fields.prefix`."""
    fields = ("op", "table", "source.ts_ms", "transaction.id", "op:what", "ts_ms")
    wire = WireType("record", fields=tuple((name, WireType("string")) for name in _NAMES))

    found = DebeziumFlat(fields, "x_").row(wire)

    assert found is not None
    assert [name for name, _ in found.fields] == ["id", "op", "x_lsn", "__op"]


def test_without_them_it_is_what_debezium_has_with_its_prefix() -> None:
    """And nothing else that begins so."""
    names = (
        "id",
        "__id",
        "__op",
        "__lsn",
        "__source_ts_ms",
        "__transaction_id",
        "__ts_ms",
        "__mine",
        "__deleted",
        "op",
    )
    wire = WireType("record", fields=tuple((name, WireType("string")) for name in names))

    found = find("debezium-flat").row(wire)

    assert found is not None
    assert [name for name, _ in found.fields] == ["id", "__id", "__mine", "op"]


def test_every_format_says_what_it_is() -> None:
    """Its name is its file's, and what it recognises it has words for."""
    for name, found in all_formats():
        assert type(found).__doc__, name
        assert found.recognise(WireType("record"), None) is None, name
    assert {"debezium", "debezium-flat", "iceberg-cdc", "upsert"} <= set(known())


@pytest.mark.parametrize(
    ("name", "ddl"),
    [("orders", "timestamp"), ("shop.public.orders.Value", "timestamp_ntz")],
)
def test_a_table_is_drafted_with_the_moments_of_its_format(name: str, ddl: str) -> None:
    """Keys too: what `cdcm init` drafts is what a run makes."""
    moment = {"type": "int64", "optional": False, "name": "org.apache.kafka.connect.data.Timestamp"}
    key, value = connect_key_schema("t", {"at": moment}), connect_key_schema("t", {"at": moment, "id": _ID["id"]})
    octets = debezium_json({"at": 7}, key), debezium_json({"at": 7, "id": 1}, {**value, "name": name})

    found = recognise("t", [Message(0, 0, *octets)], None)

    assert (found.schema.types, found.misfits) == ({"at": ddl, "id": "bigint"}, ())
