"""`cdcm init --raw`: contracts from what raw tables hold, beside a pipeline that is somebody's already."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from cdc_materializer.catalog.catalog import Tables
from cdc_materializer.cli import main
from cdc_materializer.config import load_config
from cdc_materializer.contract import lint, load_contract
from cdc_materializer.errors import EXIT_DONE, EXIT_USAGE, LakeUnavailable, UsageError
from cdc_materializer.init.raw import draft_from_raw, raw_messages
from cdc_materializer.names import TableName
from cdc_materializer.testing import connect_envelope_schema, connect_key_schema, debezium_envelope, debezium_json
from tests.unit.lakes import Lake, open_writer

_TOPIC = "s.shop.orders"
_RAW = TableName.parse("shop.orders").raw
_KEY = connect_key_schema(_TOPIC, {"id": {"type": "int64", "optional": False}})
_ROW = connect_envelope_schema(
    _TOPIC,
    {
        "id": {"type": "int64", "optional": False},
        "qty": {"type": "int32", "optional": True},
        "code": {"type": "string", "optional": True},
    },
)
_STORED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A pipeline whose table `shop.orders` has no contract, and its lake, without tables."""
    tables = [{"topic": _TOPIC}, {"topic": "s.shop.lines", "contract": "contracts/lines.yaml"}]
    file = {"name": "shop", "source": {"files": "recorded"}, "tables": tables}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
    return Lake(tmp_path, open_writer(tmp_path / "lake"))


def _store(lake: Lake, *places: tuple[int, int]) -> None:
    """Put a row's insert into raw at each partition and offset: `id` the offset, `qty` a hundred times it."""
    lake.writer.create_namespace_if_not_exists("shop")
    table = lake.writer.create_table_if_not_exists(str(_RAW), schema=_STORED)
    rows = []
    for partition, offset in places:
        row = {"id": offset, "qty": 100 * offset, "code": f"c{partition}-{offset}"}
        value = debezium_json(debezium_envelope("c", None, after=row), _ROW)
        key = debezium_json({"id": offset}, _KEY)
        rows.append({"topic": _TOPIC, "partition": partition, "offset": offset, "key": key, "value": value})
    table.append(pa.Table.from_pylist(rows, _STORED))


def _mirror(lake: Lake, *fields: NestedField) -> None:
    lake.writer.create_table("shop.orders", schema=Schema(*fields, identifier_field_ids=[1]))


def _sampled(tables: Tables, count: int) -> list[tuple[int, int]]:
    stored = tables.load(_RAW)
    assert stored is not None
    return [(message.partition, message.offset) for message in raw_messages(tables, stored, count)]


def test_a_contract_is_drafted_from_what_raw_holds(lake: Lake) -> None:
    """The topic is not asked, and is not even there; what all rows of raw keep stands as rules to switch on."""
    _store(lake, *[(0, offset) for offset in range(3, 33)], *[(1, offset) for offset in range(40, 60)])
    before = (lake.root / "pipeline.yaml").read_bytes()

    found = draft_from_raw(load_config(lake.root / "pipeline.yaml"))

    path = lake.root / "contracts" / "orders.yaml"
    assert (found.read_from, found.written) == ("raw", [str(path)])
    assert (lake.root / "pipeline.yaml").read_bytes() == before
    assert lint(path, table="shop.orders").valid
    assert {column.name: column.type for column in load_contract(path).columns} == {
        "id": "bigint",
        "qty": "int",
        "code": "string",
    }
    drafted = path.read_text(encoding="utf-8")
    assert "from 50 messages of shop.orders__raw" in " ".join(drafted.replace("#", " ").split())
    assert "# Seen in 50 rows: never NULL, between 300 and 6000.\n" in drafted
    assert f"# Check it with:  cdcm contract lint -c {lake.root / 'pipeline.yaml'}\n" in drafted
    assert "c0-3" not in drafted


def test_the_columns_are_the_mirrors_own(lake: Lake) -> None:
    """What was widened, or is there from messages that were not looked at, is as readers have it."""
    _store(lake, (0, 3))
    _mirror(
        lake,
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "qty", LongType(), required=False),
        NestedField(3, "since", StringType(), required=False),
        NestedField(4, "__cdc_of_ours", StringType(), required=False),
    )

    draft_from_raw(load_config(lake.root / "pipeline.yaml"))

    columns = load_contract(lake.root / "contracts" / "orders.yaml").columns
    assert {column.name: column.type for column in columns} == {"id": "bigint", "qty": "bigint", "since": "string"}
    assert [column.name for column in columns if column.primary_key] == ["id"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [(0, 3), (1, 8), (0, 9), (1, 9)]), (2, [(0, 3), (1, 8), (0, 9), (1, 9)]), (7, None)],
)
def test_both_ends_of_each_partition_are_looked_at(
    lake: Lake, count: int, expected: list[tuple[int, int]] | None
) -> None:
    """By offset and partition, each once, wherever raw begins; holes count as messages."""
    stored = [(0, 3), (0, 5), (0, 6), (0, 9), (1, 8), (1, 9)]
    _store(lake, *stored[3:])
    _store(lake, *stored[:3])

    assert _sampled(lake.tables, count) == (expected or sorted(stored, key=lambda place: place[::-1]))


def test_an_empty_raw_table_shows_nothing(lake: Lake) -> None:
    """As one does of which all has been cleaned away."""
    lake.writer.create_namespace_if_not_exists("shop")
    lake.writer.create_table(str(_RAW), schema=_STORED)

    found = draft_from_raw(load_config(lake.root / "pipeline.yaml"))

    assert found.written == []
    assert [topic.reason for topic in found.topics] == ["it has no messages yet, so nothing tells its columns"]


def test_where_there_is_no_raw_yet_nothing_is_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says what makes it, and ends as one that did nothing."""
    monkeypatch.chdir(lake.root)

    assert main(["init", "--raw", "--json"]) == EXIT_USAGE

    found = json.loads(capsys.readouterr().out)
    assert found["topics"][0]["reason"] == "there is no shop.orders__raw yet: `cdcm run` makes it"
    assert not (lake.root / "contracts").exists()


def test_a_contract_that_is_there_is_not_drafted_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither that of a table which has one, nor a file that nobody names; the latter with --force."""
    _store(lake, (0, 3))
    monkeypatch.chdir(lake.root)

    assert main(["init", "--raw", "--table", "shop.lines"]) == EXIT_USAGE
    assert "There is a contract already of shop.lines" in capsys.readouterr().err
    (lake.root / "contracts").mkdir()
    (lake.root / "contracts" / "orders.yaml").write_text("mine", encoding="utf-8")
    assert main(["init", "--raw"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "orders.yaml is there already" in said
    assert (
        "Give the table its contract under `tables` (shop.orders: contract: contracts/orders.yaml), or draft it" in said
    )
    assert (lake.root / "contracts" / "orders.yaml").read_text(encoding="utf-8") == "mine"
    assert main(["init", "--raw", "--force"]) == EXIT_DONE
    assert "cdcm contract test contracts/orders.yaml --table shop.orders" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("options", [["--raw", "--files", "recorded"], ["--table", "shop.orders"]])
def test_options_that_do_not_go_together_are_refused(
    lake: Lake, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw tables have no topics to choose, and topics no tables."""
    monkeypatch.chdir(lake.root)

    assert main(["init", *options]) == EXIT_USAGE


def test_a_table_that_is_not_named_in_the_file_is_refused(lake: Lake) -> None:
    """With the nearest name that is."""
    with pytest.raises(UsageError, match=r"no table shop\.order "):
        draft_from_raw(load_config(lake.root / "pipeline.yaml"), ["shop.order"])


def test_hundreds_of_partitions_are_looked_at(lake: Lake) -> None:
    """The condition that finds their ends is no deeper than Python can go."""
    _store(lake, *[(partition, 5) for partition in range(1_500)])

    assert len(_sampled(lake.tables, 1)) == 1_500


def test_of_large_messages_fewer_are_taken_and_from_both_ends(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of them would be too many bytes."""
    for first in range(0, 200, 20):
        _store(lake, *[(0, offset) for offset in range(first, first + 20)])
    monkeypatch.setattr("cdc_materializer.init.raw._BYTES_MAX", 100_000)

    places = _sampled(lake.tables, 100)

    assert [offset for _, offset in places] == [*range(10), *range(190, 200)]


def test_the_name_of_a_contract_in_use_is_left_alone(lake: Lake) -> None:
    """Also where two tables of different namespaces have one name."""
    tables = [{"topic": _TOPIC}, {"topic": "s.crm.orders", "contract": "contracts/orders.yaml"}]
    file = {"name": "shop", "source": {"files": "recorded"}, "tables": tables}
    (lake.root / "pipeline.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
    _store(lake, (0, 3))

    found = draft_from_raw(load_config(lake.root / "pipeline.yaml"))

    assert found.written == [str(lake.root / "contracts" / "shop.orders.yaml")]


def test_a_key_that_only_the_mirror_tells_is_the_contracts(lake: Lake) -> None:
    """As where `key:` names it because the messages have none."""
    lake.writer.create_namespace_if_not_exists("shop")
    table = lake.writer.create_table(str(_RAW), schema=_STORED)
    value = debezium_json(debezium_envelope("c", None, after={"id": 1, "qty": 2, "code": "c"}), _ROW)
    row = {"topic": _TOPIC, "partition": 0, "offset": 0, "key": None, "value": value}
    table.append(pa.Table.from_pylist([row], _STORED))
    assert draft_from_raw(load_config(lake.root / "pipeline.yaml")).written == []
    _mirror(lake, NestedField(1, "id", LongType(), required=True), NestedField(2, "qty", LongType(), required=False))

    draft_from_raw(load_config(lake.root / "pipeline.yaml"))

    columns = load_contract(lake.root / "contracts" / "orders.yaml").columns
    assert [column.name for column in columns if column.primary_key] == ["id"]


def test_a_table_that_is_no_raw_table_is_told(lake: Lake) -> None:
    """It has the name and not the columns: somebody else made it."""
    lake.writer.create_namespace_if_not_exists("shop")
    made = lake.writer.create_table(str(_RAW), schema=pa.schema([("partition", pa.int32()), ("offset", pa.int64())]))
    made.append(pa.table({"partition": pa.array([0], pa.int32()), "offset": pa.array([1], pa.int64())}))

    with pytest.raises(LakeUnavailable, match="orders__raw"):
        draft_from_raw(load_config(lake.root / "pipeline.yaml"))
