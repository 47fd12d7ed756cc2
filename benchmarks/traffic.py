"""Changes of the orders table as Debezium sends them, in JSON without a schema or in Avro, written to Kafka by Spark.

Everything follows from the number of a change and the seed, so that equal arguments give equal messages. One Spark task
writes them, so that each partition has them in the order of their numbers.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from benchmarks.orders import Encoding
from cdc_materializer.testing import MemoryRegistry, avro_envelope_schema, avro_key_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Keys = Literal["uniform", "recent", "zipf"]

TOPIC = "shop.public.orders"
#: Of a hundred changes: new rows, and deletes; the others update.
INSERTED, DELETED = 20, 10
#: Changes of `recent` keys are of this share of the rows, those with the highest numbers.
RECENT = 0.02
#: A million messages are made faster than a broker beside them takes them: wait, and send larger batches.
_PRODUCER = {"kafka.delivery.timeout.ms": "1200000", "kafka.linger.ms": "50", "kafka.batch.size": str(256 << 10)}
_BEGIN_SECONDS = 1_767_225_600  # 2026-01-01
_BEGIN_LSN = 1_000

#: The columns of a row, in the types that a contract gives them: ODCS physical type, and what Spark reads.
COLUMNS = {
    "id": ("bigint", "bigint"),
    "customer_id": ("integer", "int"),
    "state": ("text", "string"),
    "amount": ("numeric(12,2)", "decimal(12,2)"),
    "fee": ("numeric(12,2)", "decimal(12,2)"),
    "qty": ("integer", "int"),
    "country": ("text", "string"),
    "email": ("text", "string"),
    "note": ("text", "string"),
    "weight": ("double precision", "double"),
    "rank": ("bigint", "bigint"),
    "is_gift": ("boolean", "boolean"),
}

_AVRO = {
    "bigint": "long",
    "decimal(12,2)": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
}
#: What Avro's messages are written with, by the ids that they name: the key's and the value's.
KEY_ID, VALUE_ID = 1, 2
SCHEMAS = {
    KEY_ID: json.dumps(avro_key_schema(TOPIC, {"id": "long"})),
    VALUE_ID: json.dumps(
        avro_envelope_schema(
            TOPIC,
            {name: "long" if name == "id" else ["null", _AVRO.get(kind, kind)] for name, (_, kind) in COLUMNS.items()},
        )
    ),
}


def write_schemas(folder: Path) -> None:
    """Write them as a folder of recorded schemas."""
    MemoryRegistry(SCHEMAS).write(folder)


@dataclass(frozen=True)
class Batch:
    """Some changes of one kind of keys.

    Attributes:
        begin: the number of the first change; no two batches of a topic share one.
        changes: how many there are.
        rows: how many rows there were when the topic began; its first `rows` changes make them.
        keys: which rows are changed: all alike, the newest fiftieth, or few of them far more often than others.
        seed: of everything that is chosen.
        encoding: how the messages are written.
    """

    begin: int
    changes: int
    rows: int
    keys: Keys
    seed: int
    encoding: Encoding = "json"

    def messages(self, spark: "SparkSession") -> "DataFrame":
        """The messages, in order: `key` and `value`."""
        number = F.col("number")
        first = number < self.rows
        which = F.when(first, "c").when(self._chosen("op", 100) < INSERTED, "c")
        which = which.when(self._chosen("op", 100) < INSERTED + DELETED, "d").otherwise("u")
        told = spark.range(self.begin, self.begin + self.changes, numPartitions=1).withColumnRenamed("id", "number")
        told = told.select(number, which.alias("op"))
        told = told.select(number, "op", F.when(F.col("op") == "c", number).otherwise(self._changed()).alias("row_id"))
        row = F.struct(*[column.alias(name) for name, column in self._row(F.col("row_id")).items()])
        nothing = {name: F.lit(None).cast(kind) for name, (_, kind) in COLUMNS.items()}
        key_alone = F.struct(*[column.alias(name) for name, column in (nothing | {"id": F.col("row_id")}).items()])
        # The schema of Avro has fields that must not be missing.
        named = [F.lit("3.7.0.Final").alias("version"), F.lit("shop").alias("name")] if self.encoding == "avro" else []
        source = F.struct(
            *named,
            F.lit("postgresql").alias("connector"),
            F.lit("shop").alias("db"),
            F.lit("public").alias("schema"),
            F.lit("orders").alias("table"),
            F.lit("false").alias("snapshot"),
            self._at().alias("ts_ms"),
            (number + _BEGIN_LSN).alias("lsn"),
            (number + 1).alias("txId"),
        )
        envelope = F.struct(
            F.when(F.col("op") == "d", key_alone).alias("before"),
            F.when(F.col("op") != "d", row).alias("after"),
            source.alias("source"),
            F.col("op"),
            self._at().alias("ts_ms"),
        )
        if self.encoding == "avro":
            key = F.struct(F.col("row_id").alias("id"))
            return told.select(_framed(key, KEY_ID).alias("key"), _framed(envelope, VALUE_ID).alias("value"))
        whole = {"ignoreNullFields": "false"}
        return told.select(
            F.to_json(F.struct(F.col("row_id").alias("id"))).alias("key"), F.to_json(envelope, whole).alias("value")
        )

    def rows_of(self, spark: "SparkSession") -> "DataFrame":
        """The rows that the changes make, where all of them do (`rows`), in the columns of COLUMNS, and the lsn."""
        numbers = spark.range(self.begin, self.begin + self.changes, numPartitions=1).withColumnRenamed("id", "number")
        row = self._row(F.col("number"))
        typed = [row[name].cast(kind).alias(name) for name, (_, kind) in COLUMNS.items()]
        return numbers.select(*typed, (F.col("number") + _BEGIN_LSN).alias("lsn"))

    def write(self, spark: "SparkSession", bootstrap: str) -> None:
        """Append the messages to the topic."""
        messages = self.messages(spark).write.format("kafka").options(**_PRODUCER)
        messages.option("kafka.bootstrap.servers", bootstrap).option("topic", TOPIC).save()

    def _changed(self) -> Column:
        if self.keys == "recent":
            recent = max(1, int(self.rows * RECENT))
            return F.lit(self.rows - recent) + self._chosen("id", recent)
        if self.keys == "zipf":
            # Of the ranks 1 to n, each as often as 1 ÷ rank: n to a power that is uniform between 0 and 1.
            share = (self._chosen("id", 1 << 30) / (1 << 30)).cast("double")
            rank = F.pow(F.lit(float(self.rows)), share).cast("bigint")
            # Which row has which rank must not be the order in which rows were made.
            return F.pmod(rank * F.lit(2_654_435_761), F.lit(self.rows))
        return self._chosen("id", self.rows)

    def _row(self, row_id: Column) -> dict[str, Column]:
        cents = self._chosen("amount", 10_000_000)
        return {
            "id": row_id,
            "customer_id": self._chosen("customer", 50_000).cast("int"),
            "state": F.element_at(
                F.array(*map(F.lit, ("new", "paid", "shipped", "returned"))), self._chosen("state", 4).cast("int") + 1
            ),
            "amount": self._decimal(cents, 100),
            "fee": F.when(cents % 3 != 0, self._decimal(cents, 5000)),
            "qty": (self._chosen("qty", 20) + 1).cast("int"),
            "country": F.element_at(
                F.array(*map(F.lit, ("AT", "DE", "ES", "FR", "IT", "NL", "PL", "PT"))),
                self._chosen("country", 8).cast("int") + 1,
            ),
            "email": F.concat(F.lit("customer"), self._chosen("customer", 50_000), F.lit("@example.com")),
            "note": F.when(cents % 4 == 0, F.concat(F.lit("Leave at door "), cents % 1_000)),
            "weight": (self._chosen("weight", 100_000) / 64).cast("double"),
            "rank": self._chosen("rank", 1 << 40),
            "is_gift": cents % 10 == 0,
        }

    def _decimal(self, cents: Column, parts: int) -> Column:
        amount = (cents.cast("decimal(12,0)") / parts).cast("decimal(12,2)")
        # As `decimal.handling.mode: string` writes it, the one that loses nothing in JSON without a schema.
        return amount if self.encoding == "avro" else amount.cast("string")

    def _at(self) -> Column:
        return F.lit(_BEGIN_SECONDS * 1_000) + F.col("number")

    def _chosen(self, what: str, below: int) -> Column:
        return F.pmod(F.xxhash64(F.col("number"), F.lit(what), F.lit(self.seed)), F.lit(below))


def _framed(value: Column, schema_id: int) -> Column:
    """A value in Avro behind what names its schema, as a Confluent serializer writes it."""
    return F.concat(F.lit(b"\0" + schema_id.to_bytes(4, "big")), to_avro(value, SCHEMAS[schema_id]))
