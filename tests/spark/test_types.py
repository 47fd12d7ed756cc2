"""Every row of the specification's type table: what the wire carries becomes the column that `types.yaml` says."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.reading import Special
from cdc_materializer.decoders.decoders import Lookup, find_decoders
from cdc_materializer.names import quote
from cdc_materializer.session import session
from cdc_materializer.testing import (
    MemoryRegistry,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.types import ColumnCase, Value, columns
from tests.spark.marks import SEVENTH_TURN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cdc_materializer.config import Config

pytestmark = [pytest.mark.spark, SEVENTH_TURN]

TOPIC = "shop.public.types"
FORMS, POLICIES = ("avro", "json"), ("null", "clamp")
_RAW = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
_COUNT = max(len(column.values) for column in columns())


def _columns(form: str) -> list[ColumnCase]:
    return [column for column in columns() if column.is_in(form)]


def _value(column: ColumnCase, at: int) -> Value | None:
    return column.values[at] if at < len(column.values) else None


def _message(form: str, at: int) -> tuple[bytes, bytes]:
    """The key and the envelope of the row that has the at-th value of each type, and NULL where there are fewer."""
    told = {column.name: _value(column, at) for column in _columns(form)}
    row: dict[str, Any] = {name: getattr(value, form) if value is not None else None for name, value in told.items()}
    envelope = debezium_envelope("c", None, {"id": at, **row}, lsn=100 + at)
    if form == "avro":
        return confluent_avro(1, _avro_key(), {"id": at}), confluent_avro(2, _avro_value(), envelope)
    kinds = {"id": {"type": "int64", "optional": False}}
    key = debezium_json({"id": at}, connect_key_schema(TOPIC, kinds))
    kinds |= {column.name: column.connect for column in _columns(form)}
    return key, debezium_json(envelope, connect_envelope_schema(TOPIC, kinds))


def _avro_key() -> dict[str, Any]:
    return avro_key_schema(TOPIC, {"id": "long"})


def _avro_value() -> dict[str, Any]:
    return avro_envelope_schema(TOPIC, {"id": "long", **{column.name: column.avro() for column in columns()}})


@pytest.fixture(scope="module")
def decoded(spark: "SparkSession") -> dict[tuple[str, str], "DataFrame"]:
    """The changes of all messages, in each encoding and under each policy."""
    found = {}
    for form in FORMS:
        rows = [(TOPIC, 0, at, None, *_message(form, at)) for at in range(_COUNT)]
        raw = spark.createDataFrame(rows, _RAW)
        for policy in POLICIES:
            found[form, policy] = _changes(raw, "null" if policy == "null" else "clamp")
    return found


def _changes(raw: "DataFrame", policy: Special) -> "DataFrame":
    options = Options(special_values=policy)
    registry = MemoryRegistry({1: _avro_key(), 2: _avro_value()})
    messages = batch.messages(raw, None, registry.id_bytes)
    found = find_decoders(messages, Lookup(registry, None, options, None))
    return to_changes(messages, found.writers, found.plan.target, options).persist()


def _text(name: str, ddl: str) -> "Column":
    column = F.col(quote(name))
    if ddl == "binary":
        return F.hex(column)
    return F.to_json(column) if "<" in ddl else column.cast("string")


@pytest.mark.parametrize("form", FORMS)
def test_a_type_becomes_its_column(decoded: dict[tuple[str, str], "DataFrame"], form: str) -> None:
    """Whatever carries it."""
    types = dict(decoded[form, "null"].dtypes)

    assert {column.name: types[column.name] for column in _columns(form)} == {c.name: c.column for c in _columns(form)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_what_the_database_was_given(
    decoded: dict[tuple[str, str], "DataFrame"], form: str, policy: str
) -> None:
    """Exactly; what no column can hold is NULL, or the nearest end, and what cannot be understood has its code."""
    texts = [_text(column.name, column.column).alias(column.name) for column in _columns(form)]
    rows = decoded[form, policy].select(m.OFFSET, m.PROBLEMS, m.CODE, *texts).orderBy(m.OFFSET).collect()
    assert [row[m.CODE] for row in rows] == [None] * _COUNT

    wrong = []
    for at, row in enumerate(rows):
        problems = {problem["column"]: problem["code"] for problem in row[m.PROBLEMS]}
        for column in _columns(form):
            value = _value(column, at)
            if value is not None:
                found = (row[column.name], problems.get(column.name))
                expected = (value.text if policy == "null" else value.clamp, value.code)
                wrong += [(column.name, at, found, expected)] if found != expected else []
    assert not wrong


#: One with a time that was never (2024-03-10 02:30) and one that was twice, and the farthest from UTC that has both.
ZONES = ("America/New_York", "Pacific/Chatham", "Asia/Kolkata")


@pytest.fixture(params=ZONES)
def elsewhere(
    request: pytest.FixtureRequest, spark: "SparkSession", lake_config: "Config", monkeypatch: pytest.MonkeyPatch
) -> Iterator["SparkSession"]:
    """A session as it is beside that of a caller whose session, JVM and Python are in another time zone."""
    zone: str = request.param
    java: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]  # a session of our own has one
    usual = java.getDefault()
    java.setDefault(java.getTimeZone(zone))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    caller = spark.newSession()
    caller.conf.set("spark.sql.session.timeZone", zone)
    yield session.adopt_session(caller, lake_config)
    java.setDefault(usual)
    monkeypatch.delenv("TZ")
    time.tzset()


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_the_same_in_every_time_zone(
    decoded: dict[tuple[str, str], "DataFrame"], elsewhere: "SparkSession", form: str
) -> None:
    """Whichever the caller's session, the JVM and Python are in."""
    texts = [_text(column.name, column.column).alias(column.name) for column in _columns(form)]
    rows = [(TOPIC, 0, at, None, *_message(form, at)) for at in range(_COUNT)]
    there = _changes(elsewhere.createDataFrame(rows, _RAW), "null").select(m.OFFSET, *texts).orderBy(m.OFFSET)
    here = decoded[form, "null"].select(m.OFFSET, *texts).orderBy(m.OFFSET)

    assert there.collect() == here.collect()
