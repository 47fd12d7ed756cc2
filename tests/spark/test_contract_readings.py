"""Values in the type that a contract declares for what a source sends in another one (`contract_types.yaml`)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer.contract import load_contract
from cdc_materializer.decode.contract_types import as_declared
from cdc_materializer.decode.reading import Reading, Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from tests.unit.contracts import write

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

_FILE = Path(__file__).parent.parent / "cases" / "contract_types.yaml"
TYPES: dict[str, list[list[Any]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
_LITERALS = {"string": "string", "int32": "int", "int64": "long"}
_POLICIES: tuple[Special, ...] = ("null", "clamp")


def _reading(folder: Path, pair: str, policy: Special) -> Reading:
    """How a run reads the column `v` of a contract."""
    sent, _, said = pair.partition("; ")
    contract = load_contract(write(folder, f"- {{name: v, {said}}}"))
    column = next(column for column in contract.columns if column.name == "v")
    assert column.declared is not None
    wire = as_declared(WireType(_LITERALS[sent], optional=True), column.declared, "avro")
    assert wire is not None
    return Reader("avro", policy).read(wire)


def _value(reading: Reading, given: "Column") -> "Column":
    value = reading.apply(given)
    if reading.unavailable is not None:
        value = F.when(~F.coalesce(reading.unavailable(given), F.lit(False)), value)
    return value.cast("string")


def _codes(reading: Reading, given: "Column") -> "Column":
    """All of a value's codes: none may have two."""
    known = F.coalesce(reading.unavailable(given), F.lit(False)) if reading.unavailable is not None else F.lit(False)
    tests = ((reading.special, "SPECIAL"), (reading.invalid, "OUT_OF_RANGE"), (reading.foreign, "SCHEMA_INCOMPATIBLE"))
    found = [F.when(~known & test(given), code) for test, code in tests if test is not None]
    return F.array_compact(F.array(*found, F.when(known, "UNAVAILABLE")))


@pytest.mark.parametrize("pair", TYPES)
def test_a_value_is_read_exactly_or_has_its_code(spark: "SparkSession", tmp_path: Path, pair: str) -> None:
    """Under each policy for what is no day; nothing is rounded, trimmed, guessed, or lost as NULL."""
    readings = {policy: _reading(tmp_path, pair, policy) for policy in _POLICIES}
    values = [(at, value) for at, (value, *_) in enumerate(TYPES[pair])]
    given = spark.createDataFrame(values, f"at int, v {readings['null'].wire}").coalesce(1)
    shown = [_value(reading, F.col("v")).alias(policy) for policy, reading in readings.items()]

    rows = given.select("at", *shown, _codes(readings["null"], F.col("v")).alias("codes")).orderBy("at").collect()

    wrong = []
    for (value, text, *more), row in zip(TYPES[pair], rows, strict=True):
        code, clamp = (more[0] if more else None), (more[1] if len(more) > 1 else text)
        expected, found = (text, clamp, [code] if code else []), (row["null"], row["clamp"], row["codes"])
        wrong += [(value, found, expected)] if found != expected else []
    assert not wrong, "\n".join(map(str, wrong))


def test_one_reading_is_one_under_any_zone_of_the_session(spark: "SparkSession", tmp_path: Path) -> None:
    """A moment's text has its zone, or none: the session's is never taken."""
    instant = _reading(tmp_path, "string; physicalType: timestamptz", "null")
    plain = _reading(tmp_path, "string; physicalType: timestamp without time zone", "null")
    text = F.lit("2024-03-31T02:30")
    parts = [F.unix_micros(instant.apply(F.concat(text, F.lit("Z")))), plain.apply(text).cast("string")]
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    try:
        found = []
        for name in ("UTC", "Europe/Berlin", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", name)
            found.append(tuple(spark.range(1).select(*parts).collect()[0]))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert set(found) == {(1711852200000000, "2024-03-31 02:30:00")}
