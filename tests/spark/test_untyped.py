"""JSON without types, read by a contract's (`untyped.yaml`): exactly, or with the code that says why not."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer.decode.reading import Reading, Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.units import NUMBER
from cdc_materializer.decode.wire import BASE64, BYTES, HEX, LATIN_1, SET, UNTYPED, WireType

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

_FILE = Path(__file__).parent.parent / "cases" / "untyped.yaml"
TYPES: dict[str, list[list[Any]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
#: Types that are told by more than their name.
_PARAMETERS = {
    "set": {"ddl": "string", SET: "set"},
    **{spelling: {"ddl": "binary", BYTES: spelling} for spelling in (BASE64, LATIN_1, HEX)},
}
_POLICIES: tuple[Special, ...] = ("null", "clamp")


def _reading(name: str, policy: Special) -> Reading:
    if name == "json number":
        return Reader("json", policy).read(WireType("double", optional=True, parameters={NUMBER: ""}))
    parameters = _PARAMETERS.get(name, {"ddl": name})
    return Reader("json", policy).read(WireType(UNTYPED, optional=True, parameters=parameters))


def _shown(reading: Reading, given: "Column") -> "Column":
    value = reading.apply(given)
    if reading.ddl == "binary":
        return F.hex(value)
    return F.to_json(value) if "<" in reading.ddl else value.cast("string")


def _code(reading: Reading, given: "Column") -> "Column":
    """All of a value's codes: none may have two, and none that has one may have a value but a special one."""
    tests = ((reading.special, "SPECIAL"), (reading.invalid, "OUT_OF_RANGE"), (reading.foreign, "SCHEMA_INCOMPATIBLE"))
    return F.array_compact(F.array(*[F.when(test(given), code) for test, code in tests if test is not None]))


@pytest.mark.parametrize("name", TYPES)
def test_a_value_is_read_exactly_or_has_its_code(spark: "SparkSession", name: str) -> None:
    """Under each policy for what is no day; nothing is rounded, guessed, or lost as NULL."""
    documents = [(at, f'{{"v":{document}}}') for at, (document, *_) in enumerate(TYPES[name])]
    given = spark.createDataFrame(documents, "at int, document string").coalesce(1)
    given = given.select("at", F.from_json("document", "v variant")["v"].alias("v"))
    readings = {policy: _reading(name, policy) for policy in _POLICIES}
    shown = [_shown(reading, F.col("v")).alias(policy) for policy, reading in readings.items()]

    rows = given.select("at", *shown, _code(readings["null"], F.col("v")).alias("codes")).orderBy("at").collect()

    wrong = []
    for (document, value, *more), row in zip(TYPES[name], rows, strict=True):
        text = value if value is None else str(value)
        code, clamp = (more[0] if more else None), (more[1] if len(more) > 1 else text)
        expected, found = (text, clamp, [code] if code else []), (row["null"], row["clamp"], row["codes"])
        wrong += [(document, found, expected)] if found != expected else []
    assert not wrong, "\n".join(map(str, wrong))


def test_a_null_is_told_from_a_column_that_is_not_there(spark: "SparkSession") -> None:
    """The one is a value of every type, NULL; the other keeps the row's."""
    documents = ['{"v":null}', "{}", '{"v":"null"}']
    given = spark.createDataFrame(
        [(json.dumps(at), document) for at, document in enumerate(documents)], "at string, d string"
    )
    reading = Reader("json").read(WireType(UNTYPED, parameters={"ddl": "string", "absent": "kept"}))
    assert reading.absent is not None
    read = given.select("at", F.from_json("d", "v variant")["v"].alias("v")).orderBy("at")

    rows = read.select(reading.absent(F.col("v")).alias("absent"), reading.apply(F.col("v")).alias("value")).collect()

    assert [(row["absent"], row["value"]) for row in rows] == [(False, None), (True, None), (False, "null")]
