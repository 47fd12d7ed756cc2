"""How large the readings of single values are as expressions, which Spark plans and compiles for every column.

A reading that says what it is given some dozen times, in steps that stand on each other, grows by powers: decimals of
JSON without a schema of 20,000 nodes each take half a minute a batch.
"""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode import contract_readings, decimals, declared_parts, declared_times, untyped
from cdc_materializer.decode.reading import Reading, Settings
from cdc_materializer.decode.units import UNIT, DeclaredType, TimeUnit
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: The most nodes of a reading: of its value and all of its tests.
_NODES_MAX = 2_000
_PARTS = ("value", "special", "invalid", "unavailable", "foreign", "absent")
_ROW = "SELECT parse_json('1') AS variant, 'a' AS text, 1L AS count, named_struct('scale', 1, 'value', X'01') AS scaled"


def _declared(ddl: str, **parameters: str) -> WireType:
    return WireType("declared", parameters={"ddl": ddl, **parameters})


def _readings(settings: Settings) -> dict[str, tuple[Reading, str]]:
    """Readings, each with the column of _ROW that it is of."""
    found = {
        "declared text": (declared_parts.declared_text(settings, _declared("string")), "variant"),
        "declared decimal": (declared_parts.declared_number(settings, _declared("decimal(12,2)")), "variant"),
        "declared unsigned": (
            declared_parts.declared_number(settings, _declared("decimal(20,0)", unsigned="")),
            "variant",
        ),
        "declared date": (declared_times.declared_date(settings, _declared("date")), "text"),
        "scaled text": (decimals.variable_scale(settings, WireType("record")), "scaled"),
    }
    for unit in TimeUnit:
        wire = _declared("timestamp", **{UNIT: str(unit)})
        found[f"declared moment, {unit}"] = (declared_times.declared_moment(settings, wire), "text")
    for ddl in ("int", "bigint", "decimal(12,2)", "double", "string", "date", "timestamp_ntz", "boolean", "array<int>"):
        found[f"untyped {ddl}"] = (untyped.untyped(settings, WireType("untyped", parameters={"ddl": ddl})), "variant")
    for ddl in ("int", "decimal(12,2)", "double", "date", "timestamp", "boolean"):
        reading = contract_readings.contract_reading(settings, WireType("string"), DeclaredType(ddl))
        found[f"text as {ddl}"] = (reading, "text")
    counted = DeclaredType("timestamp", TimeUnit.NANOSECONDS)
    found["count as timestamp"] = (contract_readings.contract_reading(settings, WireType("long"), counted), "count")
    return found


def test_no_reading_grows_beyond_measure(spark: "SparkSession") -> None:
    """Each, under both ways to take values that a column does not have."""
    row = spark.sql(_ROW)

    def nodes(column: Column) -> int:
        analyzed = row.select(column)._jdf.queryExecution().analyzed()
        return int(analyzed.expressions().apply(0).treeString().count("\n"))

    def size(reading: Reading, column: str) -> int:
        parts = [getattr(reading, name) for name in _PARTS]
        return sum(nodes(part(F.col(column))) for part in parts if part is not None)

    readings = [_readings(Settings("json")), _readings(Settings("json", special_values="clamp"))]
    sizes = [{name: size(*found) for name, found in one.items()} for one in readings]
    large = [{name: nodes for name, nodes in one.items() if nodes > _NODES_MAX} for one in sizes]

    assert large == [{}, {}]
