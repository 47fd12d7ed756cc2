"""JSON without a schema, read by a contract's types (`declared.yaml`): exactly, or with the code that says why not."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import Row
from pyspark.sql import functions as F

from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.reading import Reading, Special
from cdc_materializer.decode.writers import CORRUPT
from cdc_materializer.decoders import Lookup, decoders_of
from tests.unit.contracts import write

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.spark

_FILE = Path(__file__).parent.parent / "cases" / "declared.yaml"
TYPES: dict[str, list[list[Any]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
_POLICIES: tuple[Special, ...] = ("null", "clamp")


def _reading(folder: Path, declared: str, policy: Special) -> Reading:
    """How a run reads the column `v` of a contract."""
    options = Options(special_values=policy)
    contract = load_contract(write(folder, f"- {{name: v, {declared}}}"))
    named = Row(value_writer="json", key_writer="json", value_block=None, key_block=None, last=(0, 0))
    (writer,) = decoders_of([named], Lookup(None, contract, options, None)).writers.values
    row = options.row(writer)
    kind = row.get("v") if row is not None else None
    assert kind is not None
    return options.reader(writer).read(kind)


def _shown(reading: Reading, given: "Column") -> "Column":
    value = reading.apply(given)
    if reading.unavailable is not None:
        value = F.when(~F.coalesce(reading.unavailable(given), F.lit(False)), value)
    if reading.ddl == "binary":
        return F.hex(value)
    return F.to_json(value, {"ignoreNullFields": "false"}) if "<" in reading.ddl else value.cast("string")


def _codes(reading: Reading, given: "Column", corrupt: "Column") -> "Column":
    """All of a value's codes: none may have two, and none that has one may have a value but a special one."""
    known = F.coalesce(reading.unavailable(given), F.lit(False)) if reading.unavailable is not None else F.lit(False)
    tests = ((reading.special, "SPECIAL"), (reading.invalid, "OUT_OF_RANGE"), (reading.foreign, "SCHEMA_INCOMPATIBLE"))
    found = [F.when(~known & test(given), code) for test, code in tests if test is not None]
    others = [F.when(known, "UNAVAILABLE"), F.when(corrupt.isNotNull(), "UNDECODABLE")]
    return F.array_compact(F.array(*found, *others))


@pytest.mark.parametrize("declared", TYPES)
def test_a_value_is_read_exactly_or_has_its_code(spark: "SparkSession", tmp_path: Path, declared: str) -> None:
    """Under each policy for what is no day; nothing is rounded, guessed, or lost as NULL."""
    readings = {policy: _reading(tmp_path, declared, policy) for policy in _POLICIES}
    documents = [(at, f'{{"v":{document}}}') for at, (document, *_) in enumerate(TYPES[declared])]
    given = spark.createDataFrame(documents, "at int, document string").coalesce(1)
    fields, options = f"v {readings['null'].wire}, {CORRUPT} string", {"columnNameOfCorruptRecord": CORRUPT}
    read = given.select("at", F.from_json("document", fields, options).alias("read"))
    value, corrupt = F.col("read")["v"], F.col("read")[CORRUPT]
    shown = [_shown(reading, value).alias(policy) for policy, reading in readings.items()]

    rows = read.select("at", *shown, _codes(readings["null"], value, corrupt).alias("codes")).orderBy("at").collect()

    wrong = []
    for (document, text, *more), row in zip(TYPES[declared], rows, strict=True):
        code, clamp = (more[0] if more else None), (more[1] if len(more) > 1 else text)
        expected, found = (text, clamp, [code] if code else []), (row["null"], row["clamp"], row["codes"])
        wrong += [(document, found, expected)] if found != expected else []
    assert not wrong, "\n".join(map(str, wrong))
