"""Digests of rows: equal for equal tables whatever their order and layout, and for no others."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer.differences import compare_rows
from cdc_materializer.digests import Digest, digests
from cdc_materializer.merge import CDC, CDC_STRUCT
from cdc_materializer.schema.schema import Column, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_TYPES = {
    "id": "int",
    "a": "string",
    "b": "string",
    "n": "int",
    "amount": "decimal(10,2)",
    "at": "timestamp",
    "tags": "array<string>",
    "pairs": "map<string,int>",
    "inner": "struct<x:int,y:int>",
    "maps": "array<map<string,int>>",
    "deep": "struct<m:map<string,map<string,int>>>",
}
_ROW = {
    "id": "id",
    "a": "concat('a', id)",
    "b": "NULL",
    "n": "id * 2",
    "amount": "id / 4",
    "at": "timestamp_micros(id)",
    "tags": "array('t', NULL)",
    "pairs": "map('x', 1, 'y', id)",
    "inner": "struct(id, NULL)",
    "maps": "array(map('x', 1, 'y', id), NULL)",
    "deep": "struct(map('m', map('x', 1, 'y', id), 'n', NULL))",
}
_CDC = "struct('c', NULL, concat('p', id), 0, 't', 0, id)"


def _schema(types: Mapping[str, str] | None = None) -> TableSchema:
    return TableSchema(tuple(Column(name, ddl) for name, ddl in {**_TYPES, **(types or {})}.items()), ("id",))


def _table(
    spark: "SparkSession", values: Mapping[str, str] | None = None, types: Mapping[str, str] | None = None
) -> "DataFrame":
    """Rows of which some values are other ones than usual, by SQL expressions over `id`."""
    every, known = {**_TYPES, **(types or {})}, {**_ROW, **(values or {})}
    columns = [F.expr(f"CAST({known[name]} AS {ddl})").alias(name) for name, ddl in every.items()]
    return spark.range(200).select(*columns, F.expr(f"CAST({_CDC} AS {CDC_STRUCT})").alias(CDC))


def _digest(rows: "DataFrame", types: Mapping[str, str] | None = None) -> Digest:
    return digests((rows, rows.limit(0)), _schema(types))[0]


def test_order_and_wider_types_change_nothing(spark: "SparkSession") -> None:
    """Nor does the order in which a map's entries lie, wherever the map is."""
    one = _digest(_table(spark))
    turned = {
        "pairs": "map('y', id, 'x', 1)",
        "maps": "array(map('y', id, 'x', 1), NULL)",
        "deep": "struct(map('n', NULL, 'm', map('y', id, 'x', 1)))",
    }
    other = _table(spark, turned).repartition(7, "a").sort(F.desc("id"))
    wide = {"n": "bigint", "amount": "decimal(30,2)"}

    assert one.rows == 200
    assert one.differing(_digest(other)) == ()
    assert compare_rows(_table(spark), other, _schema()).is_none
    assert one.differing(_digest(_table(spark, types=wide), wide)) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", "if(id = 7, 'other', concat('a', id))"),
        ("n", "if(id = 7, NULL, id * 2)"),
        ("amount", "if(id = 7, 0.01, id / 4)"),
        ("at", "timestamp_micros(if(id = 7, 8, id))"),
        ("tags", "if(id = 7, array(NULL, 't'), array('t', NULL))"),
        ("pairs", "if(id = 7, map('x', 1, 'z', id), map('x', 1, 'y', id))"),
        ("inner", "named_struct('x', if(id = 7, NULL, id), 'y', if(id = 7, id, NULL))"),
        ("maps", "array(map('x', if(id = 7, 2, 1), 'y', id), NULL)"),
        ("deep", "struct(map('m', map('x', 1, if(id = 7, 'z', 'y'), id), 'n', NULL))"),
    ],
)
def test_one_value_of_one_row_shows_in_one_bucket(spark: "SparkSession", name: str, value: str) -> None:
    """Whatever its type, and where a value has only moved inside of another; only that row is told."""
    changed = _table(spark, {name: value})

    assert len(_digest(_table(spark)).differing(_digest(changed))) == 1
    found = compare_rows(_table(spark), changed, _schema())
    assert (found.missing, found.unexpected, found.different, found.columns) == (0, 0, 1, {name: 1})
    assert found.keys == ('{"id":7}',)


def test_values_that_change_columns_or_rows_show(spark: "SparkSession") -> None:
    """A NULL that has changed places with its neighbour; two rows that have changed values."""
    swapped = _table(spark, {"a": "if(id = 7, NULL, concat('a', id))", "b": "if(id = 7, concat('a', id), NULL)"})
    crossed = _table(spark, {"n": "CASE id WHEN 7 THEN 16 WHEN 8 THEN 14 ELSE id * 2 END"})

    assert compare_rows(_table(spark), swapped, _schema()).columns == {"a": 1, "b": 1}
    assert compare_rows(_table(spark), crossed, _schema()).columns == {"n": 2}


@pytest.mark.parametrize("copies", [2, 3])
def test_a_row_that_is_there_several_times_shows(spark: "SparkSession", copies: int) -> None:
    """Also three times, where sums by exclusive or would be those of one."""
    table = _table(spark)
    doubled = table
    for _ in range(copies - 1):
        doubled = doubled.unionByName(table.where("id = 7"))

    found = compare_rows(table, doubled, _schema())

    assert (found.expected, found.found, found.unexpected) == (200, 199 + copies, copies - 1)
    assert found.keys == ('{"id":7}',)


def test_rows_of_another_program_that_name_no_message_are_told_by_their_keys(spark: "SparkSession") -> None:
    """One that was added, one that was written over, and a second one of a key; only the second tells a place."""
    bare = F.when(~F.col("id").isin(7, 300), F.col(CDC))
    expected = _table(spark)
    added = expected.where("id IN (5, 8)").withColumn("id", F.expr("if(id = 5, 300, 8)"))
    copied = added.withColumn(CDC, F.lit(None).cast(CDC_STRUCT))
    found = expected.withColumn(CDC, bare).unionByName(copied)

    difference = compare_rows(expected, found, _schema())

    assert (difference.missing, difference.unexpected, difference.different) == (0, 2, 1)
    assert sorted(difference.keys) == ['{"id":300}', '{"id":7}', '{"id":8}']
    assert [place.offset for place in difference.places] == [7]
