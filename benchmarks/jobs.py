"""What users would do instead: the job that tutorials show, the same tuned well, and a plain append.

Each reads the same messages from Kafka that our run reads, and ends with the same rows, which is checked. None keeps
raw messages, checks a contract, quarantines, or remembers in the table how far it came.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.orders import Encoding
from benchmarks.traffic import COLUMNS, KEY_ID, SCHEMAS, TOPIC, VALUE_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Offsets a partition.
Ends = Mapping[str, int]

_ROW = ", ".join(f"{name}: {kind}" for name, (_, kind) in COLUMNS.items())
_WHOLE = (
    f"struct<before: struct<{_ROW}>, after: struct<{_ROW}>, source: struct<version: string, connector: string,"
    " name: string, ts_ms: bigint, snapshot: string, db: string, sequence: string, schema: string, table: string,"
    " txId: bigint, lsn: bigint, xmin: bigint>, op: string, ts_ms: bigint, transaction: string>"
)
_PRUNED = f"struct<after: struct<{_ROW}>, op: string>"
#: The same for Avro: fields of the schema that a value is read by; None for all of them.
_FIELDS = {_WHOLE: None, _PRUNED: ("after", "op")}


def read(spark: "SparkSession", bootstrap: str, begin: Ends, end: Ends) -> "DataFrame":
    """The messages of a span, as Spark's Kafka source gives them."""
    offsets = [("{" + ", ".join(f'"{at}": {offset}' for at, offset in ends.items()) + "}") for ends in (begin, end)]
    starting, ending = [f'{{"{TOPIC}": {told}}}' for told in offsets]
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC)
    return reader.option("startingOffsets", starting).option("endingOffsets", ending).load()


def create(spark: "SparkSession", table: str, rows: "DataFrame", *, is_tuned: bool) -> None:
    """Make the table of a job with the rows of ours, in the order of their keys, as a first load leaves them."""
    rows.createOrReplaceTempView("bench_rows")
    tuned = (
        " TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read',"
        " 'write.update.mode'='merge-on-read', 'write.distribution-mode'='range',"
        " 'write.merge.distribution-mode'='none')"
    )
    spark.sql(f"CREATE TABLE {table} USING iceberg{tuned if is_tuned else ''} AS SELECT * FROM bench_rows ORDER BY id")
    if is_tuned:
        spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY id")


def tutorial(table: str, messages: "DataFrame", encoding: Encoding) -> None:
    """What `foreachBatch` does in tutorials: parse everything, take each key's last change, merge all columns."""
    newest = Window.partitionBy("key.id").orderBy(F.col("value.ts_ms").desc(), F.col("offset").desc())
    last = _parsed(messages, _WHOLE, encoding).withColumn("place", F.row_number().over(newest)).where("place = 1")
    _merge(table, last.select("key.id", *_columns("value.after"), "value.op"), "t.id = s.id")


def tuned(table: str, messages: "DataFrame", encoding: Encoding) -> None:
    """The same by someone who has read how: a pruned parse, an aggregate for a window, the keys' range in ON."""
    rows = (
        _last(messages, encoding)
        .select("id", *_columns("last.value.after"), F.col("last.value.op").alias("op"))
        .persist()
    )
    try:
        low, high = rows.agg(F.min("id"), F.max("id")).first() or (0, 0)
        _merge(table, rows, f"t.id = s.id AND t.id BETWEEN {low} AND {high}")
    finally:
        rows.unpersist()


def append(table: str, messages: "DataFrame", encoding: Encoding) -> None:
    """The least that writes the same rows: a pruned parse, an aggregate, and an append that looks for no key."""
    _last(messages, encoding).select("id", *_columns("last.value.after")).writeTo(table).append()


def _parsed(messages: "DataFrame", ddl: str, encoding: Encoding) -> "DataFrame":
    if encoding == "avro":
        key = from_avro(_datum("key"), SCHEMAS[KEY_ID]).alias("key")
        value = from_avro(_datum("value"), SCHEMAS[VALUE_ID], {"avroSchema": _pruned(_FIELDS[ddl])})
        return messages.select(key, value.alias("value"), "offset")
    key = F.from_json(F.col("key").cast("string"), "struct<id: bigint>").alias("key")
    return messages.select(key, F.from_json(F.col("value").cast("string"), ddl).alias("value"), "offset")


def _datum(side: str) -> Column:
    return F.expr(f"substring({side}, 6)")


def _pruned(fields: tuple[str, ...] | None) -> str:
    """The envelope's schema with some of its fields; a row is declared where it comes first."""
    schema = json.loads(SCHEMAS[VALUE_ID])
    found = {field["name"]: field for field in schema["fields"]}
    row = found["before"]["type"]
    if fields is not None:
        schema["fields"] = [{**found[name], **({"type": row} if name == "after" else {})} for name in fields]
    return json.dumps(schema)


def _last(messages: "DataFrame", encoding: Encoding) -> "DataFrame":
    return _parsed(messages, _PRUNED, encoding).groupBy("key.id").agg(F.max(F.struct("offset", "value")).alias("last"))


def _columns(row: str) -> list[str]:
    return [f"{row}.{name}" for name in COLUMNS if name != "id"]


def _merge(table: str, changes: "DataFrame", condition: str) -> None:
    changes.createOrReplaceTempView("bench_changes")
    assigned = ", ".join(f"t.{name} = s.{name}" for name in COLUMNS)
    given = ", ".join(f"s.{name}" for name in COLUMNS)
    changes.sparkSession.sql(
        f"MERGE INTO {table} t USING bench_changes s ON {condition}"
        " WHEN MATCHED AND s.op = 'd' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {assigned}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(COLUMNS)}) VALUES ({given})"
    )


JOBS: Mapping[str, Callable[[str, "DataFrame", Encoding], None]] = {
    "tutorial": tutorial,
    "tuned": tuned,
    "append": append,
}
