"""JSON without a schema, read by a contract's types (`declared.yaml`): exactly, or with the code that says why not."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import Row
from pyspark.sql import functions as F

from cdc_materializer.changes.formats import all_formats, find
from cdc_materializer.changes.image import Image, image
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.reading import Reading, Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import CORRUPT
from cdc_materializer.decoders.decoders import Lookup, decoders_of
from cdc_materializer.schema.schema import Column as TableColumn
from cdc_materializer.schema.schema import TableSchema
from tests.unit.contracts import write

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark

_FILE = Path(__file__).parent.parent / "cases" / "declared.yaml"
TYPES: dict[str, list[list[Any]]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
_POLICIES: tuple[Special, ...] = ("null", "clamp")


def _kind(folder: Path, declared: str, options: Options) -> tuple[Reader, WireType]:
    """How a run reads the column `v` of a contract."""
    contract = load_contract(write(folder, f"- {{name: v, {declared}}}"))
    named = Row(value_writer="json", key_writer="json", value_block=None, key_block=None, last=(0, 0))
    (writer,) = decoders_of([named], Lookup(None, contract, options, None)).writers.values
    row = options.row(writer)
    kind = row.get("v") if row is not None else None
    assert kind is not None
    return options.reader(writer), kind


def _reading(folder: Path, declared: str, policy: Special) -> Reading:
    reader, kind = _kind(folder, declared, Options(special_values=policy))
    return reader.read(kind)


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


def _read(spark: "SparkSession", declared: str, reading: Reading) -> "DataFrame":
    """The documents of a type by their number, as Spark's JSON reader gives them."""
    documents = [(at, f'{{"v":{document}}}') for at, (document, *_) in enumerate(TYPES[declared])]
    given = spark.createDataFrame(documents, "at int, document string").coalesce(1)
    fields, options = f"v {reading.wire}, {CORRUPT} string", {"columnNameOfCorruptRecord": CORRUPT}
    return given.select("at", F.from_json("document", fields, options).alias("read"))


@pytest.mark.parametrize("declared", TYPES)
def test_a_value_is_read_exactly_or_has_its_code(spark: "SparkSession", tmp_path: Path, declared: str) -> None:
    """Under each policy for what is no day; nothing is rounded, guessed, or lost as NULL."""
    readings = {policy: _reading(tmp_path, declared, policy) for policy in _POLICIES}
    read = _read(spark, declared, readings["null"])
    value, corrupt = F.col("read")["v"], F.col("read")[CORRUPT]
    shown = [_shown(reading, value).alias(policy) for policy, reading in readings.items()]

    rows = read.select("at", *shown, _codes(readings["null"], value, corrupt).alias("codes")).orderBy("at").collect()

    wrong = []
    for (document, text, *more), row in zip(TYPES[declared], rows, strict=True):
        code, clamp = (more[0] if more else None), (more[1] if len(more) > 1 else text)
        expected, found = (text, clamp, [code] if code else []), (row["null"], row["clamp"], row["codes"])
        wrong += [(document, found, expected)] if found != expected else []
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("declared", TYPES)
def test_a_row_shows_what_its_readings_say(spark: "SparkSession", tmp_path: Path, declared: str) -> None:
    """What values and tests have in common Spark evaluates once a row, before either of them asks for it."""
    options = Options()
    reader, kind = _kind(tmp_path, declared, options)
    reading = reader.read(kind)
    target = TableSchema((TableColumn("v", reading.ddl),), ())
    read = _read(spark, declared, reading).coalesce(1)
    shown = image(Image(F.col("read"), WireType("record", fields=(("v", kind),))), reader, target, options)
    value = Reading(reading.ddl, reading.ddl)

    found = read.select("at", F.col("read")[CORRUPT].alias("corrupt"), shown.alias("image"))
    columns = (_shown(value, F.col("image.row.v")).alias("value"), "corrupt", "image.problems", "image.unavailable")
    rows = found.select("at", *columns).orderBy("at").collect()

    wrong = []
    for (document, text, *more), row in zip(TYPES[declared], rows, strict=True):
        codes = [problem["code"] for problem in row["problems"]]
        codes += ["UNAVAILABLE"] * len(row["unavailable"]) + ["UNDECODABLE"] * (row["corrupt"] is not None)
        expected = [code for code in more[:1] if code not in {None, "SPECIAL"}]
        wrong += [(document, row["value"], codes)] if (row["value"], codes) != (text, expected) else []
    assert not wrong, "\n".join(map(str, wrong))


def _changes(spark: "SparkSession", folder: Path, options: Options) -> "DataFrame":
    """The changes of two messages in JSON without a schema, one of which has no value."""
    contract = load_contract(write(folder, "- {name: v, logicalType: string}"))
    named = Row(value_writer="json", key_writer="json", value_block=None, key_block=None, last=(0, 0))
    found = decoders_of([named], Lookup(None, contract, options, None))
    columns = {"topic": "'t'", "partition": "0", "offset": "id", "timestamp": "current_timestamp()"}
    columns |= dict.fromkeys(("key", "value"), "CAST(CAST(id AS STRING) AS BINARY)")
    columns |= dict.fromkeys(("key_writer", "value_writer"), "CASE WHEN id > 0 THEN 'json' END")
    messages = spark.range(2).select(*[F.expr(sql).alias(name) for name, sql in columns.items()])
    return to_changes(messages, found.writers, found.plan.target, options)


def test_what_a_value_and_its_tests_have_in_common_is_evaluated_once(spark: "SparkSession", tmp_path: Path) -> None:
    """A text is taken out of a variant for its value, and for what may be wrong with it: most of what JSON costs."""
    shared = _evaluated_once(_changes(spark, tmp_path, Options()))

    assert any("variant_get" in one for one in shared), shared


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param(name, key, id=f"{name}, {'a key' if key else 'no key'}")
        for name, format_ in all_formats()
        for key in (("id",), ())
        if key or not format_.rows_name_themselves
    ],
)
def test_what_a_format_does_not_tell_has_its_type(
    spark: "SparkSession", tmp_path: Path, name: str, key: tuple[str, ...]
) -> None:
    """NULL of no type has no fields, which the next step asks for."""
    changes = _changes(spark, tmp_path, Options(key=key, format=find(name)))

    assert "void" not in changes.schema.simpleString()


def _evaluated_once(frame: "DataFrame") -> list[str]:
    """What Spark finds more than once in a projection of a plan, and so evaluates once a row."""
    jvm: Any = frame.sparkSession._jvm
    java: Any = frame._jdf
    found, plans = [], [java.queryExecution().optimizedPlan()]
    while plans:
        plan = plans.pop()
        plans += [plan.children().apply(at) for at in range(plan.children().size())]
        if plan.nodeName() != "Project":
            continue
        equal = jvm.org.apache.spark.sql.catalyst.expressions.EquivalentExpressions(False)  # noqa: FBT003
        for at in range(plan.projectList().size()):
            equal.addExprTree(plan.projectList().apply(at), getattr(equal, "addExprTree$default$2")())
        common = equal.getCommonSubexpressions()
        found += [common.apply(at).toString() for at in range(common.size())]
    return found
