"""Hudi beside us: a batch of Debezium's changes into a Hudi table, with the payload that Hudi has for PostgreSQL's.

A program of its own, for the Python that has the PySpark which Hudi's bundle is built for; see `bench_hudi.py`. Its
columns are those that Hudi's own streamer makes of an envelope. The streamer itself is not run: the classes that read a
Confluent registry, which its Debezium sources need, are in no repository of Maven's centre.
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

#: The table's columns: the type in an envelope as JSON, and what is made of it.
COLUMNS = {
    "id": ("bigint", "{}"),
    "customer_id": ("int", "{}"),
    "state": ("string", "{}"),
    "amount": ("string", "CAST({} AS decimal(12,2))"),
    "fee": ("string", "CAST({} AS decimal(12,2))"),
    "qty": ("int", "{}"),
    "country": ("string", "{}"),
    "email": ("string", "{}"),
    "note": ("string", "{}"),
    "placed_at": ("bigint", "timestamp_micros({})"),
    "due": ("int", "date_add(DATE '1970-01-01', {})"),
    "is_gift": ("boolean", "{}"),
}
_ROW = ", ".join(f"{name}: {kind}" for name, (kind, _) in COLUMNS.items())
_ENVELOPE = (
    f"struct<after: struct<{_ROW}>, op: string, ts_ms: bigint,"
    " source: struct<name: string, ts_ms: bigint, txId: bigint, lsn: bigint, xmin: bigint>>"
)
#: What Hudi's payload reads beside the row: its column, and where Debezium has it.
_OF_HUDI = {
    "_change_operation_type": "value.op",
    "_upstream_event_processed_ts_ms": "value.ts_ms",
    "db_shard_source_partition": "value.source.name",
    "_event_origin_ts_ms": "value.source.ts_ms",
    "_event_tx_id": "value.source.txId",
    "_event_lsn": "value.source.lsn",
    "_event_xmin": "value.source.xmin",
}
_SETTINGS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "_event_lsn",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload",
}


def session(jar: str) -> SparkSession:
    """A session as Hudi's quick start has it, with as much memory as ours."""
    properties = {
        "spark.jars": jar,
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    builder = SparkSession.builder.master("local[*]")
    for name, value in properties.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def changes(spark: SparkSession, topic: str, begin: int, end: int) -> DataFrame:
    """The messages of a span of offsets of a recorded topic, as the columns that Hudi's payload needs."""
    lines = spark.read.schema("key string, value string, offset bigint").json(topic)
    span = lines.where((F.col("offset") >= begin) & (F.col("offset") < end))
    key = F.from_json(F.unbase64("key").cast("string"), "struct<id: bigint>")
    parsed = span.select(key.alias("key"), F.from_json(F.unbase64("value").cast("string"), _ENVELOPE).alias("value"))
    own = [F.expr(made.format("key.id" if name == "id" else f"value.after.{name}")).alias(name)
           for name, (_, made) in COLUMNS.items()]  # fmt: skip
    return parsed.select(*[F.col(place).alias(name) for name, place in _OF_HUDI.items()], *own)


def main() -> None:
    """Apply a span, or write the table's rows as Parquet and tell what a query of all of them takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jar", required=True, help="hudi-spark3.5-bundle_2.12")
    parser.add_argument("--table", required=True, help="the table's folder")
    parser.add_argument("--kind", choices=["MERGE_ON_READ", "COPY_ON_WRITE"], default="MERGE_ON_READ")
    parser.add_argument("--topic", help="the file of a recorded topic")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int, default=0)
    parser.add_argument("--export", help="a folder for the rows")
    parser.add_argument("--seconds", type=Path, help="a file for what the query took, each time")
    asked = parser.parse_args()
    spark = session(asked.jar)
    if asked.topic:
        writer = changes(spark, asked.topic, asked.begin, asked.end).write.format("hudi").options(**_SETTINGS)
        writer.option("hoodie.datasource.write.table.type", asked.kind).mode("append").save(asked.table)
    if asked.export:
        seconds = []
        for _ in range(5):
            began = time.monotonic()
            rows = spark.read.format("hudi").load(asked.table)
            rows.agg(F.count("*"), F.sum("amount"), F.max("placed_at"), F.max("note")).collect()
            seconds.append(round(time.monotonic() - began, 3))
        asked.seconds.write_text(json.dumps(seconds), encoding="utf-8")
        named = rows.withColumn("placed_at", F.col("placed_at").cast("timestamp_ntz")).select(*COLUMNS)
        named.coalesce(1).write.parquet(asked.export)
    spark.stop()


if __name__ == "__main__":
    main()
