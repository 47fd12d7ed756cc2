"""What `cdcm why` tells of a row whose messages are changes of other rows too."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import UsageError
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.explain.key import typed_key
from cdc_materializer.names import TableName
from cdc_materializer.report.row_models import WhyReport
from cdc_materializer.report.violations import schemas_of
from cdc_materializer.run.run import run_once
from cdc_materializer.schema.schema import Column, TableSchema
from tests.cases.case import cases
from tests.cases.recording import Recorder
from tests.cases.schemas import guid_of, write_schemas
from tests.spark.marks import EIGHTH_TURN, IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, EIGHTH_TURN, *IMPORTS_GREAT_EXPECTATIONS]

_SPACE = "why_rows"
#: Of the ten rows of its first message some are held, and one of those is mended by a later message.
_CASE = 264
#: Key changes in one message, with the contract's key.
_KEY_CHANGES = 267
#: Schemas that messages name by GUID and by id, in their bytes and in headers; the other names them by fingerprints.
_GUIDS, _FINGERPRINTS = 170, 174
#: An unsigned key.
_UNSIGNED = 462
#: JSON whose messages bring their schema along.
_INLINE = 1


def _brought_up(
    number: int,
    name: str,
    spark: "SparkSession",
    lake_config: Config,
    steps: int | None = None,
    more: Sequence[Mapping[str, Any]] = (),
) -> Config:
    """A pipeline with the table of a golden case, brought up to date with the messages of its first steps and more."""
    (case,) = (case for case in cases() if case.number == number)
    topic, space = f"{_SPACE}.t.{name}", f"{_SPACE}_{name}"
    recorder = Recorder(case, topic)
    for message in [*(one for step in case.steps[:steps] for one in step.get("messages", ())), *more]:
        recorder.add(message)
    folder = lake_config.root / space
    recorder.write(folder)
    write_schemas(folder / "schemas", recorder.schemas())
    contract = {"contract": str(case.contract)} if case.contract is not None else {}
    table = {"topic": topic, "mirror": f"{_SPACE}.{name}", **contract, **case.data.get("table", {})}
    file = {"name": space, "source": {"files": space}, "registry": {"files": f"{space}/schemas"}, "tables": [table]}
    path = lake_config.root / f"{space}.yaml"
    path.write_text(yaml.safe_dump(file), encoding="utf-8")
    loaded = load_config(path)
    assert run_once(loaded, spark).exit_code == 0
    return loaded


@pytest.fixture(scope="module")
def config(spark: "SparkSession", lake_config: Config) -> Config:
    """A table whose messages are several rows each."""
    return _brought_up(_CASE, "rows", spark, lake_config)


def _why(config: Config, spark: "SparkSession", key: str) -> WhyReport:
    return why(config, f"{_SPACE}.rows", Asked(key=key), spark)


def test_a_row_that_had_another_key_has_what_it_left_out_from_that_one(
    spark: "SparkSession", lake_config: Config
) -> None:
    """Both are in one message, and only the contract says what the key is."""
    moved = _brought_up(_KEY_CHANGES, "moved", spark, lake_config, steps=1)

    told = why(moved, f"{_SPACE}.moved", Asked(key="20"), spark)

    assert told.row is not None
    assert told.row.agrees, told.summary


def test_what_is_held_of_other_rows_of_its_message_is_not_told_of_a_row(config: Config, spark: "SparkSession") -> None:
    """A row that was published is what readers see, whatever its message has beside it; a held one has its own."""
    (good,) = _why(config, spark, "6").messages
    assert (good.outcome, good.violations, good.reason) == ("upserted", [], "It is what readers see.")

    (held,) = _why(config, spark, "4").messages
    assert (held.outcome, [(one.code, one.column) for one in held.violations]) == (
        "quarantined",
        [("SCHEMA_INCOMPATIBLE", "price")],
    )


def test_a_message_of_several_rows_does_not_say_which_is_meant(config: Config, spark: "SparkSession") -> None:
    """Any choice among them would tell the life of a row that nobody asked for; a message of one row says enough."""
    with pytest.raises(UsageError, match="Message 0/0 is about 7 rows"):
        why(config, f"{_SPACE}.rows", Asked(place=(0, 0)), spark)

    assert why(config, f"{_SPACE}.rows", Asked(place=(0, 2)), spark).key == '{"id":3}'


def test_each_message_is_told_with_the_schema_that_its_value_was_written_with(
    spark: "SparkSession", lake_config: Config
) -> None:
    """By the name that it has there; of a tombstone none, whatever its key was written with, and of a held one too."""
    tombstone = {"tombstone": True, "key": 3, "framing": "id"}
    named = _brought_up(_GUIDS, "guids", spark, lake_config, more=[tombstone])
    found = why(named, f"{_SPACE}.guids", Asked(key="3"), spark).messages

    assert [(one.op, one.schema_id, one.schema_name) for one in found] == [
        ("c", 17001, "id:17001"),
        ("d", None, f"guid:{guid_of(17001)}"),
        ("tombstone", None, None),
    ]
    (headed, _) = why(named, f"{_SPACE}.guids", Asked(key="1"), spark).messages
    assert headed.schema_name == f"guid:{guid_of(17001)}", "a header names it"

    printed = _brought_up(_FINGERPRINTS, "prints", spark, lake_config)
    known, held = why(printed, f"{_SPACE}.prints", Asked(key="1"), spark).messages
    assert (known.schema_id, held.outcome) == (None, "quarantined")
    names = [one.schema_name or "" for one in (known, held)]
    assert all(re.fullmatch("fingerprint:[0-9A-F]{16}", name) for name in names)
    assert names[0] != names[1]


def test_a_schema_that_a_message_brings_is_told_as_reports_tell_it(spark: "SparkSession", lake_config: Config) -> None:
    """Its name and a digest of its text, so that what `why` tells and what a report tells are known for one schema."""
    inline, mirror = _brought_up(_INLINE, "inline", spark, lake_config), TableName.parse(f"{_SPACE}.inline")
    found, *_ = why(inline, str(mirror), Asked(key="1"), spark).messages

    place = (found.partition, found.offset)
    told = schemas_of(mirror, open_tables(inline.catalog), {place})[place]
    assert re.fullmatch("inline:.+/[0-9a-f]{8}", found.schema_name or "")
    assert (found.schema_id, found.schema_name) == (told.number, told.name)


@pytest.mark.parametrize(("text", "key"), [("1.505", None), ("1.510", Decimal("1.51")), ("1.5O", None)])
def test_a_key_is_never_rounded_to_another_rows(spark: "SparkSession", text: str, key: Decimal | None) -> None:
    """It is told as no value of the key's type."""
    target = TableSchema((Column("id", "decimal(10,2)"),), ("id",))

    (found,) = spark.range(1).select(*typed_key({"id": text}, target)).collect()

    assert found["id"] == key


@pytest.mark.parametrize("asked", [Asked(key="18446744073709551615"), Asked(place=(0, 3))], ids=["key", "message"])
def test_a_row_is_found_by_a_key_that_only_its_rows_tell_to_be_unsigned(
    unsigned: Config, spark: "SparkSession", asked: Asked
) -> None:
    """The key's own schema says that it is signed, and its bytes are those of -1."""
    found = why(unsigned, f"{_SPACE}.unsigned", asked, spark)

    assert found.key == '{"id":"18446744073709551615"}'
    assert [message.offset for message in found.messages] == [0, 3]
    assert found.row is not None
    assert (found.row.present, found.row.agrees) == (True, True)


@pytest.fixture(scope="module")
def unsigned(spark: "SparkSession", lake_config: Config) -> Config:
    """The table of the case, before its tombstones."""
    return _brought_up(_UNSIGNED, "unsigned", spark, lake_config, steps=1)
