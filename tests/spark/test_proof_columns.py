"""A database's texts and a mirror's values in one form: the same where they are the same, and only there."""

import hashlib
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.masking import masked
from cdc_materializer.dialects import PostgreSQL, SourceColumn
from cdc_materializer.digests import value_digest
from cdc_materializer.masks import Mask, Masks
from cdc_materializer.proof.columns import choose
from cdc_materializer.schema.schema import Column, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: By the mirror's column: its type, the database's, the text that the database gives, the mirror's value.
VALUES: dict[str, tuple[str, str, str | None, Any]] = {
    "id": ("int", "integer", "7", 7),
    "big": ("bigint", "bigint", "-9223372036854775808", -(2**63)),
    "exact": ("decimal(38,10)", "numeric(38,10)", "-9999999999999999999999999999.9999999999", "same"),
    "padded": ("decimal(12,4)", "numeric(12,2)", "10.25", Decimal("10.2500")),
    "tiny": ("decimal(20,10)", "numeric(20,10)", "0.0000000001", Decimal("1E-10")),
    "free": ("string", "numeric", "100.500", "100.5"),
    "no_number": ("string", "numeric", None, "NAN"),
    "four": ("float", "real", "1.1", 1.1),
    "eight": ("double", "double precision", "1.7976931348623157e+308", 1.7976931348623157e308),
    "not_a_number": ("double", "double precision", "NaN", float("nan")),
    "octets": ("binary", "bytea", "00ff10", b"\x00\xff\x10"),
    "day": ("date", "date", "0001-01-01", "same"),
    "moment": ("timestamp_ntz", "timestamp without time zone", "2026-03-29 02:30:00.000001", "same"),
    "truth": ("boolean", "boolean", "true", True),
    "blank": ("string", "character(5)", "ab   ", "ab   "),
    "nothing": ("string", "text", None, None),
}


def _frame(spark: "SparkSession", values: dict[str, tuple[str, Any]]) -> Any:  # noqa: ANN401 - one row
    rows = spark.range(1)
    for name, (ddl, value) in values.items():
        rows = rows.withColumn(name, F.lit(value).cast(ddl))
    return rows.select(*values)


def test_texts_and_values_are_equal_in_every_form(spark: "SparkSession") -> None:
    """No digit, no microsecond and no byte is lost, and a change of any of them shows."""
    mirror = {name: (ddl, text if value == "same" else value) for name, (ddl, _, text, value) in VALUES.items()}
    target = TableSchema(tuple(Column(name, ddl) for name, (ddl, *_) in VALUES.items()), ("id",))
    source = [SourceColumn(name, kind) for name, (_, kind, _, _) in VALUES.items()]
    table = choose(target, source, PostgreSQL(), Masks())
    texts = {f"c{at}": ("string", text) for at, (_, _, text, _) in enumerate(VALUES.values())}
    theirs, ours = table.theirs(_frame(spark, texts)), table.ours(_frame(spark, mirror))

    assert table.left_out == {}
    same = [F.col(f"l.{one.name}").eqNullSafe(F.col(f"r.{one.name}")).alias(one.name) for one in table.columns]
    joined = theirs.alias("l").crossJoin(ours.alias("r")).select(*same).collect()[0]
    assert {name for name, is_same in joined.asDict().items() if not is_same} == set()
    first, second = (value_digest(rows, table.schema, table.bucket()) for rows in (theirs, ours))
    assert first.differing(second) == ()
    changed = table.ours(_frame(spark, mirror | {"tiny": ("decimal(20,10)", Decimal("2E-10"))}))
    assert first.differing(value_digest(changed, table.schema, table.bucket())) != ()


def test_a_database_computes_the_same_bucket(spark: "SparkSession") -> None:
    """Two hexadecimal digits of the MD5 of the key's values with a sign between them."""
    target = TableSchema((Column("a", "bigint"), Column("b", "string")), ("a", "b"))
    source = [SourceColumn("a", "bigint"), SourceColumn("b", "text")]
    table = choose(target, source, PostgreSQL(), Masks())
    rows = spark.range(1).select(F.lit(42).cast("bigint").alias("a"), F.lit("ü€").alias("b"))

    found = rows.select(table.bucket().alias("at")).collect()[0]["at"]
    assert found == int(hashlib.md5("42\x1fü€".encode()).hexdigest()[:2], 16) % 64  # noqa: S324 - no secret


@pytest.mark.parametrize("mask", [Mask.HASH, Mask.LAST4, Mask.REDACT])
def test_a_mask_of_the_databases_value_is_the_mirrors(spark: "SparkSession", mask: Mask) -> None:
    """Of text, whole numbers and decimals with needless zeros; the value itself is in neither side."""
    key = b"0123456789abcdef"
    kinds = {"name": ("string", "text", "Ada Lovelace"), "number": ("bigint", "bigint", "123456789012")}
    kinds |= {"amount": ("decimal(20,4)", "numeric(20,4)", "1234567.5000")}
    target = TableSchema((Column("id", "int"), *[Column(name, "string") for name in kinds]), ("id",))
    source = [SourceColumn("id", "integer"), *[SourceColumn(name, kind) for name, (_, kind, _) in kinds.items()]]
    table = choose(target, source, PostgreSQL(), Masks(dict.fromkeys(kinds, mask), key=key))
    texts = {f"c{at}": ("string", text) for at, text in enumerate(["1", *[text for *_, text in kinds.values()]])}
    stored = _frame(spark, {"id": ("int", 1), **{name: (ddl, text) for name, (ddl, _, text) in kinds.items()}})
    hidden = [masked(m.column(name), ddl, mask, key).alias(name) for name, (ddl, *_) in kinds.items()]

    theirs = table.theirs(_frame(spark, texts)).collect()[0].asDict()
    ours = table.ours(stored.select("id", *hidden)).collect()[0].asDict()
    assert theirs == ours
    assert not {text for *_, text in kinds.values()} & set(map(str, theirs.values()))


def test_a_moment_is_the_same_in_both(spark: "SparkSession") -> None:
    """An instant with an offset, as the database writes it, is the mirror's instant."""
    target = TableSchema((Column("id", "int"), Column("at", "timestamp")), ("id",))
    source = [SourceColumn("id", "integer"), SourceColumn("at", "timestamp with time zone")]
    table = choose(target, source, PostgreSQL(), Masks())
    theirs = table.theirs(_frame(spark, {"c0": ("string", "1"), "c1": ("string", "2026-03-29 00:30:00.500000+00:00")}))

    told = theirs.select(F.date_format("at", "yyyy-MM-dd HH:mm:ss.SSSSSS").alias("at")).collect()[0]["at"]
    assert datetime.fromisoformat(told) == datetime(2026, 3, 29, 0, 30, 0, 500000)  # noqa: DTZ001 - as it is shown
