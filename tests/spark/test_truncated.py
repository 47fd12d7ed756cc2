"""Which rows a truncate ends: the statement that ends them and the column that tells them agree on every row."""

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.fold.truncated import is_ended
from cdc_materializer.merge import CDC, Origin, branch_path, end_truncated
from cdc_materializer.names import TableName
from cdc_materializer.order.truncates import Truncate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_MIRROR = TableName.parse("shop.orders")
_LOG = "{:020d}/{:020d}"
#: A name that would end a literal, and with it a condition.
_HOSTILE = "it's \\' OR 1=1 --"
_POSITIONS = (None, "", "0100", _HOSTILE, _LOG.format(3, 5), _LOG.format(4, 4), _LOG.format(4, 9), _LOG.format(7, 5))
_SCHEMA = f"{CDC} struct<op:string,position:string,partition:int,offset:bigint,source_table:string>"


def _truncates() -> list[tuple[Truncate, Origin | None]]:
    places = [(position, 0, 5) for position in _POSITIONS] + [(None, 1, 2**40)]
    origins = (Origin(None), Origin("shop.first"), Origin(_HOSTILE))
    routed = list(itertools.product(("shop.first", _HOSTILE, None), origins))
    alone = [(Truncate(*place), None) for place in places]
    return [*alone, *[(Truncate(*place, table=table), of) for place, (table, of) in zip(places, routed, strict=True)]]


def test_the_statement_and_the_column_end_the_same_rows(spark: "SparkSession") -> None:
    """Of every place, of rows of snapshots and others, with and without a source table; and some, not all or none."""
    places: Any = itertools.product(("c", "r"), _POSITIONS, (0, 1), (4, 5, 2**40), (None, "shop.first", _HOSTILE))
    rows = spark.createDataFrame([(place,) for place in places], _SCHEMA).coalesce(1).alias("t").cache()
    every, target = rows.collect(), branch_path("lake", _MIRROR, "b")
    counts = set()
    for truncate, origin in _truncates():
        statement, arguments = end_truncated("lake", _MIRROR, "b", truncate, origin, soft=False)
        condition = statement.removeprefix(f"DELETE FROM {target} t WHERE ")
        asked: Any = spark.sql(f"SELECT * FROM {{rows}} t WHERE {condition}", args=arguments, rows=rows)
        told = rows.where(is_ended(truncate, origin)).collect()
        assert asked.collect() == told, (truncate, origin)
        counts.add(len(told))

    assert any(0 < count < len(every) for count in counts)
