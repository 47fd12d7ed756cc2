"""Topics that a real connector wrote, against the database's own answer.

The recordings are those of `tests/data/recorded`, whose README says how they were made. Both hold the history of one
PostgreSQL database, once in Avro and once in JSON; what was sent again after a crash differs between them.
"""

import gzip
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from tests.spark.marks import SIXTH_TURN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, SIXTH_TURN]

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
TABLES = ("audit_log", "customers", "order_lines", "orders", "payments")
TOPIC_PREFIX = {"avro": "pga", "json": "pgj"}
#: Those that also go in small batches, with the most messages of one; smaller ones with CDCM_TESTS=all.
CUT = (
    {"avro": {"orders": 11, "customers": 10}, "json": {"orders": 23}}
    if os.environ.get("CDCM_TESTS") == "all"
    else {"avro": {"orders": 31, "customers": 29}, "json": {"orders": 41}}
)
OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")
_numbers = itertools.count()

#: What a mirror cannot know until it is rebuilt, by table and key: the columns that differ from the truth, with what
#: the mirror has; None for a row that is not there.
DIFFERENCES: dict[str, dict[tuple[str, ...], dict[str, str | None] | None]] = {
    # `extra` was added with a default; no event says that these rows, which nothing touched since, got it.
    "audit_log": {(number,): {"extra": None} for number in ("1", "2", "3")},
    # `tier` was a number when this row got a text there: held, so the row is the one before, without its later e-mail.
    "customers": {("1",): {"e_mail": None, "tier": None}},
    # `price` was a number when these rows got texts: one stays at its last number, ten never had a row.
    "order_lines": {("2", "1"): {"price": "4.00"}, **{(str(number), "1"): None for number in range(7001, 7011)}},
    # `amount` had two decimals when this row got four that do not fit in two.
    "orders": {("1",): {"amount": "10.25"}},
}


@dataclass(frozen=True)
class Truth:
    """One table as the database showed it at the end."""

    key: tuple[str, ...]
    types: dict[str, str]
    rows: dict[tuple[str, ...], dict[str, str | None]]


@dataclass(frozen=True)
class Mirrored:
    """Everything after one run over both recordings."""

    config: Config
    report: RunReport
    namespace: str


def truth_of(table: str) -> Truth:
    """Read what the database said."""
    described = json.loads((RECORDED / "truth" / f"{table}.schema.json").read_text(encoding="utf-8"))
    key = tuple(described["primary_key"]) or ("id",)
    lines = gzip.decompress((RECORDED / "truth" / f"{table}.jsonl.gz").read_bytes()).decode().splitlines()
    types = {column["name"]: column["type"] for column in described["columns"]}
    rows = [{name: _canonical(value, types[name]) for name, value in json.loads(line).items()} for line in lines]
    return Truth(key, types, {tuple(str(row[name]) for name in key): row for row in rows})


def _canonical(value: Any, kind: str) -> str | None:  # noqa: ANN401 - any value that a reader gives
    """A value as text in one form, whichever reader gave it; the database's own text stays as it is."""
    if value is None:
        return None
    if kind.startswith("numeric"):
        return format(Decimal(str(value)).normalize(), "f")
    if isinstance(value, datetime):
        # Spark hands out instants in the machine's own time zone, Arrow with their zone.
        plain = value.astimezone(UTC).replace(tzinfo=None) if kind.endswith("with time zone") else value
        text = plain.isoformat(sep=" ")
        text = text.rstrip("0") if "." in text else text
        return text + "+00" if kind.endswith("with time zone") else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return "{" + ",".join("NULL" if item is None else _array_item(item) for item in value) + "}"
    return str(value)


def _array_item(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != text or "," in text or not text else text


def _rows(found: Iterable[Mapping[str, Any]], truth: Truth) -> dict[tuple[str, ...], dict[str, str | None]]:
    rows = [
        {name: _canonical(value, truth.types.get(name, "text")) for name, value in row.items() if name != "__cdc"}
        for row in found
    ]
    keyed = {tuple(str(row[name]) for name in truth.key): row for row in rows}
    assert len(keyed) == len(rows), "a key has two rows"
    return keyed


def _entries(namespace: str) -> Iterator[dict[str, Any]]:
    for encoding, prefix in TOPIC_PREFIX.items():
        for table in TABLES:
            topic = f"{prefix}.shop.{table}"
            yield {"topic": topic, "mirror": f"{namespace}.{encoding}_{table}"}


@pytest.fixture(scope="module")
def mirrored(spark: "SparkSession", lake_config: Config) -> Mirrored:
    """Both recordings run into mirrors, whole; and some tables in small batches, under another name."""
    namespace = f"truth_{next(_numbers)}"
    folder = lake_config.root / namespace
    folder.mkdir()
    for path in RECORDED.glob("*/*.jsonl.gz"):
        (folder / path.name).write_bytes(path.read_bytes())
    tables = list(_entries(namespace))
    for encoding, limits in CUT.items():
        for table, limit in limits.items():
            source = folder / f"{TOPIC_PREFIX[encoding]}.shop.{table}.jsonl.gz"
            _rename_topic(source, folder / f"cut.{source.name}")
            topic = f"cut.{TOPIC_PREFIX[encoding]}.shop.{table}"
            tables.append({"topic": topic, "mirror": f"{namespace}.{encoding}_{table}_cut", "records_max": limit})
    path = lake_config.root / f"{namespace}.yaml"
    whole = {"name": "truth", "source": {"files": namespace}, "registry": {"files": str(RECORDED / "pg-avro/schemas")}}
    path.write_text(yaml.safe_dump({**whole, "tables": tables}), encoding="utf-8")
    config = load_config(path)
    return Mirrored(config, run_once(config, spark), namespace)


def _rename_topic(source: Path, target: Path) -> None:
    topic = target.name.removesuffix(".jsonl.gz")
    lines = gzip.decompress(source.read_bytes()).decode().splitlines()
    renamed = [json.dumps({**json.loads(line), "topic": topic}) for line in lines]
    target.write_bytes(gzip.compress("\n".join(renamed).encode() + b"\n"))


NAMES = [
    *(f"{encoding}_{table}" for encoding in TOPIC_PREFIX for table in TABLES),
    *(f"{encoding}_{table}_cut" for encoding, limits in CUT.items() for table in limits),
]


def _table_of(name: str) -> str:
    return name.partition("_")[2].removesuffix("_cut")


def _from_spark(spark: "SparkSession", mirrored: Mirrored, name: str) -> dict[tuple[str, ...], dict[str, str | None]]:
    frame = spark.table(f"lake.{mirrored.namespace}.{name}")
    return _rows((row.asDict() for row in frame.collect()), truth_of(_table_of(name)))


@pytest.mark.parametrize("name", NAMES)
def test_a_mirror_equals_the_database(spark: "SparkSession", mirrored: Mirrored, name: str) -> None:
    """Value by value, except exactly what no log tells, which is listed with its reason."""
    truth = truth_of(_table_of(name))
    found = _from_spark(spark, mirrored, name)
    different: dict[tuple[str, ...], dict[str, str | None] | None] = {}
    for key in truth.rows.keys() | found.keys():
        expected, row = truth.rows.get(key), found.get(key)
        if row is None:
            different[key] = None
            continue
        unequal = {column: row.get(column) for column in truth.types if (expected or {}).get(column) != row.get(column)}
        if unequal or expected is None:
            different[key] = unequal

    assert different == DIFFERENCES.get(_table_of(name), {})


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_accounted_for(mirrored: Mirrored, name: str) -> None:
    """Read is the number of lines of the topic, and the sum of the outcomes."""
    run = next(run for run in mirrored.report.tables if run.table == f"{mirrored.namespace}.{name}")
    folder = mirrored.config.root / mirrored.namespace
    lines = gzip.decompress((folder / f"{run.topic}.jsonl.gz").read_bytes()).count(b"\n")

    assert run.error is None
    assert run.read == lines == sum(getattr(run, outcome) for outcome in OUTCOMES)


def test_verify_finds_every_mirror_equal(spark: "SparkSession", mirrored: Mirrored) -> None:
    """The fold of raw from its first message gives the same rows, whole and cut."""
    report = verify_tables(mirrored.config, spark)

    assert [table.table for table in report.tables if not table.equal] == []
    assert len(report.tables) == len(NAMES)


def test_a_second_run_does_nothing(spark: "SparkSession", mirrored: Mirrored) -> None:
    """Nothing is read and nothing is committed: each table's snapshot is the one that it was."""
    before = _heads(mirrored)
    report = run_once(mirrored.config, spark)

    assert [(run.batches, run.read, run.error) for run in report.tables] == [(0, 0, None)] * len(NAMES)
    assert _heads(mirrored) == before


def _heads(mirrored: Mirrored) -> dict[str, int | None]:
    heads: dict[str, int | None] = {}
    lake = open_tables(mirrored.config.catalog)
    for name in NAMES:
        mirror = TableName.parse(f"{mirrored.namespace}.{name}")
        for table in (mirror, mirror.raw, mirror.quarantine):
            loaded = lake.load(table)
            snapshot = loaded.current_snapshot() if loaded is not None else None
            heads[str(table)] = snapshot.snapshot_id if snapshot is not None else None
    return heads


@pytest.mark.parametrize("table", TABLES)
def test_json_and_avro_give_the_same_mirror(spark: "SparkSession", mirrored: Mirrored, table: str) -> None:
    """Rows and column types do not depend on how the connector encoded them."""
    assert _from_spark(spark, mirrored, f"json_{table}") == _from_spark(spark, mirrored, f"avro_{table}")
    types = [spark.table(f"lake.{mirrored.namespace}.{encoding}_{table}").dtypes for encoding in TOPIC_PREFIX]
    assert types[0] == types[1]


@pytest.mark.parametrize("table", TABLES)
def test_a_cut_gives_the_same_mirror(spark: "SparkSession", mirrored: Mirrored, table: str) -> None:
    """However the log is cut into batches, the rows and the messages that they come from are the same."""
    for encoding, limits in CUT.items():
        if table not in limits:
            continue
        path = f"lake.{mirrored.namespace}.{encoding}_{table}"
        columns = [column for column in spark.table(path).columns if column != "__cdc"]
        query = [*columns, "__cdc.partition", "__cdc.offset", "__cdc.op", "__cdc.position"]
        whole, cut = (spark.table(name).selectExpr(*query) for name in (path, f"{path}_cut"))
        assert whole.dtypes == cut.dtypes
        assert sorted(map(str, whole.collect())) == sorted(map(str, cut.collect()))


@pytest.mark.parametrize("table", TABLES)
def test_pyiceberg_reads_the_same_rows(spark: "SparkSession", mirrored: Mirrored, table: str) -> None:
    """A reader without Spark sees the rows of the mirror and none of those that were deleted."""
    name = TableName.parse(f"{mirrored.namespace}.avro_{table}")
    loaded = open_tables(mirrored.config.catalog).load(name)
    assert loaded is not None

    found = _rows(loaded.scan().to_arrow().to_pylist(), truth_of(table))

    assert found == _from_spark(spark, mirrored, f"avro_{table}")


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that reads Iceberg, with the extensions that are installed as packages."""
    import duckdb_ext

    folder = Path(next(iter(duckdb_ext.__path__))) / "extensions"
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in ("avro", "iceberg"):
        path = next(folder.glob(f"v{duckdb.__version__}/*/{extension}.duckdb_extension"))
        connection.execute(f"LOAD '{path}'")
    yield connection
    connection.close()


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_the_same_rows(
    spark: "SparkSession", mirrored: Mirrored, duck: duckdb.DuckDBPyConnection, table: str
) -> None:
    """DuckDB, given the table's metadata file, finds the rows of the mirror."""
    name = TableName.parse(f"{mirrored.namespace}.avro_{table}")
    loaded = open_tables(mirrored.config.catalog).load(name)
    assert loaded is not None

    duck.execute("SET TimeZone = 'UTC'")
    rows = duck.execute(f"SELECT * FROM iceberg_scan('{loaded.metadata_location}')").fetch_arrow_table().to_pylist()

    assert _rows(rows, truth_of(table)) == _from_spark(spark, mirrored, f"avro_{table}")
