"""What reads the tables of both ways: when a row is there, what a query costs, and what rows it finds."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import in_session
from benchmarks.peers.shop import line
from benchmarks.peers.ways import Way
from cdc_materializer.catalog.catalog import open_tables, spark_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

_AGGREGATE = "count(*), sum(amount), sum(fee), count(DISTINCT customer_id), max(email), max(placed_at)"
#: DuckDB 1.4 applies equality deletes to queries that ask for the columns that they are of.
_WITH_KEY = f"{_AGGREGATE}, max(id)"
_CHARACTERS_MAX = 300


class Arrival:
    """Whether a row can be read, by the bounds of a table's data files: it costs the same for every table."""

    def __init__(self, way: Way) -> None:
        """Take the way; its table need not be there."""
        self._way, self._seen, self._highest = way, set[str](), -1

    def has(self, number: int) -> bool:
        """Whether the row of a number is in the table; a file must have it as its highest or a higher one."""
        table = open_tables(self._way.catalog).load(self._way.table)
        snapshot = None if table is None else table.current_snapshot()
        if table is None or snapshot is None:
            return False
        column = table.schema().find_field("id").field_id
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in self._seen:
                continue
            self._seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io):
                bounds = entry.data_file.upper_bounds or {}
                if entry.data_file.content == 0 and column in bounds:
                    self._highest = max(self._highest, int.from_bytes(bounds[column], "little", signed=True))
        return self._highest >= number


def loaded(way: Way) -> "Table":
    """The table of a way as it is now."""
    table = open_tables(way.catalog).load(way.table)
    if table is None:
        raise RuntimeError(f"There is no table {way.table}.")
    return table


def name_of(way: Way) -> str:
    """The name of a way's table in Spark."""
    return f"{way.catalog.name}.{way.table}"


def known_to(spark: "SparkSession", way: Way) -> None:
    """Make the catalog of a way one of the session's."""
    for name, value in spark_properties(way.catalog).items():
        spark.conf.set(name, value)


def aggregated(spark: "SparkSession", ways: Sequence[Way], rounds: int) -> dict[str, dict[str, list[float]]]:
    """What a full aggregate costs in Spark, by catalog: in turns in a warm session, after one that does not count."""
    told: dict[str, dict[str, list[float]]] = {way.catalog.name: {"wall": [], "cpu": []} for way in ways}
    for at in range(1 + rounds):
        for way in ways[:: 1 if at % 2 else -1]:
            cost = in_session(spark, partial(_aggregate, spark, name_of(way)))
            if at:
                told[way.catalog.name]["wall"].append(round(cost.wall, 2))
                told[way.catalog.name]["cpu"].append(round(cost.cpu, 2))
    return told


def _aggregate(spark: "SparkSession", table: str) -> None:
    spark.sql(f"SELECT {_AGGREGATE} FROM {table}").collect()


def without_spark(way: Way, expected: int) -> dict[str, Any]:
    """What PyIceberg and DuckDB say of a way's table: seconds and whether the number of rows is right, or why not."""
    table = loaded(way)

    def pyiceberg() -> int:
        return int(table.scan().to_arrow().num_rows)

    duckdb, with_key = (partial(_duckdb, table.metadata_location, query) for query in (_AGGREGATE, _WITH_KEY))
    tried: dict[str, Callable[[], int]] = {
        "pyiceberg": pyiceberg,
        "duckdb": duckdb,
        "duckdb, the key asked for too": with_key,
    }
    return {name: _tried(read, expected) for name, read in tried.items()}


def _tried(read: Callable[[], int], expected: int) -> dict[str, Any]:
    wall, cpu = time.monotonic(), time.process_time()
    try:
        rows = read()
    except Exception as error:  # noqa: BLE001 - whatever a reader says is what is told
        return {"cannot": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:_CHARACTERS_MAX]}
    spent = {"wall": round(time.monotonic() - wall, 2), "cpu": round(time.process_time() - cpu, 2)}
    return {**spent, "rows": rows, "right": rows == expected}


def _duckdb(metadata: str, aggregate: str) -> int:
    import duckdb
    import duckdb_ext

    folder = Path(next(iter(duckdb_ext.__path__))) / "extensions"
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for extension in ("avro", "iceberg"):
            path = next(folder.glob(f"v{duckdb.__version__}/*/{extension}.duckdb_extension"))
            connection.execute(f"LOAD '{path}'")
        query = f"SELECT {aggregate} FROM iceberg_scan(?)"
        found = connection.execute(query, [metadata.removeprefix("file:")]).fetchone()
        return int(found[0]) if found else 0


def state(spark: "SparkSession", way: Way) -> dict[str, Any]:
    """What a table is made of: snapshots, data files, and files of deletes of both kinds, with their rows."""
    name = name_of(way)
    content = {0: "data", 1: "position deletes or vectors", 2: "equality deletes"}
    files = spark.sql(f"SELECT content, count(*), sum(record_count) FROM {name}.files GROUP BY content")
    return {
        "format": loaded(way).format_version,
        "snapshots": spark.sql(f"SELECT count(*) FROM {name}.snapshots").collect()[0][0],
        **{content[kind]: {"files": count, "rows": rows} for kind, count, rows in files.collect()},
    }


def rows_of(spark: "SparkSession", way: Way) -> list[str]:
    """The rows as `shop.line` writes them."""
    text = line("date_format(placed_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')").format(text="string")
    return [row[0] for row in spark.sql(f"SELECT {text} FROM {name_of(way)}").collect()]


def rewritten(spark: "SparkSession", way: Way) -> dict[str, Any]:
    """Make the table one without equality deletes, as Iceberg's documentation shows, and what that costs."""
    options = "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
    call = f"CALL {way.catalog.name}.system.rewrite_data_files(table => '{name_of(way)}', options => {options})"
    told: list[Any] = []
    cost = in_session(spark, lambda: told.extend(spark.sql(call).collect()))
    return {"wall": round(cost.wall, 1), "cpu": round(cost.cpu, 1), **told[0].asDict()}
