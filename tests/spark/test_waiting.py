"""Messages whose schema nobody knows, or of which there are more than are looked up: they wait, and nothing is lost."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer import crash_points
from cdc_materializer.batch.steps import Batch
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.options import Options
from cdc_materializer.config import Config
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decoders import selectors as decoders_selectors
from cdc_materializer.decoders.decoders import Lookup, find_decoders
from cdc_materializer.decoders.selectors import MAY_WAIT, selectors_of
from cdc_materializer.errors import EXIT_SOURCE, RegistryUnavailable, SchemaRefused, SourceBehind
from cdc_materializer.line.line import Line
from cdc_materializer.names import TableName
from cdc_materializer.pipeline import advance
from cdc_materializer.registry import RegisteredSchema, Wanted
from cdc_materializer.testing import (
    EPOCH,
    MemoryRegistry,
    TopicBuilder,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.testing.faults import Killed
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.recorded_wire import KEY, TOPIC, VALUE, Away, bring_up, held_of, line_of, message, rows_of, verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


@pytest.fixture
def line(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table whose topic is recorded in `tmp_path`."""
    return line_of(spark, lake_config, namespace, tmp_path)


# --- a registry that is away
# --------------------------------------------------------------------------------------------------------


def test_messages_land_while_the_registry_is_down_and_the_mirror_resumes(line: Line, tmp_path: Path) -> None:
    """Up to the end of the topic, though the mirror is batches behind; no message is held for it."""
    registry = Away(MemoryRegistry({1: KEY, 2: VALUE}))
    line = replace(line, registry=registry, table=line.table.model_copy(update={"records_max": 2}))
    topic = TopicBuilder(TOPIC)
    for at in range(3):
        topic.add(*message(at))
    topic.write(tmp_path)
    bring_up(line)
    for at in range(3, 10):
        topic.add(*message(at))
    topic.write(tmp_path)

    registry.is_down = True
    for _ in range(2):
        with pytest.raises(RegistryUnavailable) as caught:
            bring_up(line)
    landed = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror.raw}").count()
    waiting = rows_of(line)
    registry.is_down = False
    bring_up(line)

    assert caught.value.exit_code == EXIT_SOURCE
    assert (landed, len(waiting)) == (10, 3)
    assert rows_of(line) == {at: (f"n{at}", at) for at in range(10)}
    assert held_of(line) == {}


def test_a_schema_that_is_not_known_is_no_outage(line: Line, tmp_path: Path) -> None:
    """The registry's own 'not found' holds that schema's messages and lets the others through.

    Once it is found, they are no difference to be repaired: they wait for a run, and no mirror has them before.
    """
    registry = Away(MemoryRegistry({1: KEY, 2: VALUE, 3: {**VALUE, "doc": "another"}}), hidden={3})
    line = replace(line, registry=registry)
    topic = TopicBuilder(TOPIC)
    for at in range(3):
        key, value = message(at)
        topic.add(key, value if at != 1 else value.replace(b"\x00\x00\x00\x00\x02", b"\x00\x00\x00\x00\x03", 1))
    topic.write(tmp_path)

    bring_up(line)
    held, rows = held_of(line), sorted(rows_of(line))
    registry.hidden.clear()
    repaired = verify(line, repair=True)
    waiting = sorted(rows_of(line))
    bring_up(line)

    assert (held, rows, waiting) == ({1: "SCHEMA_UNKNOWN"}, [0, 2], [0, 2])
    assert (repaired.equal, repaired.held, repaired.repaired_snapshot) == (True, 1, None)
    assert sorted(rows_of(line)) == [0, 1, 2]
    assert verify(line).equal


def test_what_is_lost_is_told_beside_what_waits_for_a_run(line: Line, tmp_path: Path) -> None:
    """A message whose schema is known by now is held until a run reads it, and no reason for another row to be gone."""
    registry = Away(MemoryRegistry({1: KEY, 2: VALUE, 3: {**VALUE, "doc": "another"}}), hidden={3})
    line, topic = replace(line, registry=registry), TopicBuilder(TOPIC)
    for at, name in enumerate((2, 3, 2)):
        key, value = message(at)
        topic.add(key, _with_value_schema(value, name))
    topic.write(tmp_path)
    bring_up(line)
    registry.hidden.clear()
    line.lake.spark.sql(f"DELETE FROM {line.lake.catalog}.{line.mirror} WHERE id = 0")

    found, repaired = verify(line), verify(line, repair=True)

    assert (found.equal, found.missing, found.unexpected, found.different, found.held) == (False, 1, 0, 0, 1)
    assert (repaired.missing, repaired.error, sorted(rows_of(line))) == (1, None, [0, 2])
    bring_up(line)
    assert sorted(rows_of(line)) == [0, 1, 2]
    assert verify(line).equal


def test_what_a_killed_run_may_have_read_is_no_difference(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quarantine tells only behind a run which of the messages that wait readers see by now."""
    others = {number: {**VALUE, "doc": f"{number}"} for number in (3, 4)}
    registry, topic = Away(MemoryRegistry({1: KEY, 2: VALUE, **others}), hidden={3, 4}), TopicBuilder(TOPIC)
    line = replace(line, registry=registry)
    for at, name in enumerate((2, 3, 4)):
        key, value = message(at)
        topic.add(key, _with_value_schema(value, name))
    topic.write(tmp_path)
    bring_up(line)

    def reach(step: str, table: TableName) -> None:
        if crash_points.point_of(step, table) == "mirror.published":
            raise Killed(step)

    registry.hidden.discard(3)
    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        with pytest.raises(Killed):
            bring_up(line)
    early = sorted(rows_of(line))
    registry.hidden.clear()

    with pytest.raises(SourceBehind, match="wait for a run"):
        verify(line)

    bring_up(line)
    assert (early, sorted(rows_of(line))) == ([0, 1], [0, 1, 2])
    assert verify(line).equal


# --- more schemas than are looked up at a time
# --------------------------------------------------------------------------------------------


def _pairs(
    spark: "SparkSession", values: Sequence[str | None], keys: Sequence[str | None], waits: list[bool]
) -> "DataFrame":
    """Messages of these selectors, in the order of their offsets."""
    ddl = "offset long, value_writer string, key_writer string, __cdc_may_wait boolean"
    frame = spark.createDataFrame(list(zip(range(len(values)), values, keys, waits, strict=True)), ddl)
    nothing = F.lit(None).cast("binary")
    return frame.withColumns(
        {"partition": F.lit(0), "timestamp": F.lit(None).cast("timestamp"), "value": nothing, "key": nothing}
    )


def _id(number: int) -> str:
    return str(SchemaName.of_id(number))


def _chosen(messages: "DataFrame", lookup: Lookup, turn: int | None = None) -> tuple[set[str], set[str]]:
    """The selectors of values and of keys that are looked up."""
    rows = selectors_of(messages, lookup, turn)
    values, keys = ({row[f"{side}_writer"] for row in rows} - {None, "unasked"} for side in ("value", "key"))
    return values, keys


def test_schemas_of_values_and_of_keys_are_chosen_each_by_themselves(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that look like ids, another in each message, leave room for the values' second schema."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 3)
    values = [*[_id(2)] * 8, _id(9), _id(8), _id(7), _id(3), _id(3), None]
    keys = [_id(50 + at) for at in range(len(values) - 2)] + [_id(60)] * 2
    messages, lookup = (
        _pairs(spark, values, keys, [True] * len(values)),
        Lookup(MemoryRegistry(), None, Options(), None),
    )

    # Of equally many the lowest number, and a key that several messages have before all.
    assert _chosen(messages, lookup) == ({_id(2), _id(3), _id(7)}, {_id(50), _id(51), _id(60)})
    # What the process has takes no place, and what may not wait is looked up in any case.
    known = MemoryRegistry({8: VALUE})
    known.schema(8)
    assert _chosen(messages, replace(lookup, registry=known))[0] == {_id(2), _id(3), _id(7), _id(8)}
    read = messages.withColumn(MAY_WAIT, F.col("value_writer") != _id(9))
    assert _chosen(read, lookup)[0] == {_id(2), _id(3), _id(7), _id(9)}
    assert len(_chosen(messages.drop(MAY_WAIT), lookup)[1]) == len(set(keys))
    # Where `key:` is set, no key has to be looked up.
    keyed = messages.withColumn(MAY_WAIT, F.lit(False))
    assert len(_chosen(keyed, replace(lookup, options=Options(key=("id",))))[1]) == 3


def test_without_a_registry_names_take_no_place_from_schemas_that_messages_bring(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows a name there; and all encodings that headers name are one."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 2)
    values = [_id(2), _id(2), _id(3), _id(3), "block:A:1", "block:B:1", "block:C:1", "encoding:41", "encoding:42"]
    messages = _pairs(spark, [*values], [None] * len(values), [True] * len(values))

    assert _chosen(messages, Lookup(None, None, Options(), None))[0] == {"block:A:1", "block:B:1", "encoding:"}


def test_each_schema_that_waits_has_its_turn(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the registry does not know, and sooner where many messages wait for it."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 5)
    values = [_id(100 + at) for at in range(12)] + [_id(900)] * 500
    messages = _pairs(spark, values, [_id(1)] * len(values), [True] * len(values))
    lookup = Lookup(MemoryRegistry(), None, Options(), None)

    looks = [_chosen(messages, lookup, turn)[0] for turn in range(16)]

    assert all(len(look) == 5 for look in looks)
    assert all(_id(900) in look for look in looks)
    assert set().union(*looks) == set(values)


@pytest.mark.parametrize(("values", "keys"), [([None, _id(7)], [_id(1), _id(1)]), ([_id(2), None], [None, _id(7)])])
def test_a_message_without_a_schema_waits_for_none(
    spark: "SparkSession", values: list[str | None], keys: list[str | None]
) -> None:
    """NULL is in no list, not in an empty one either: `~isin()` of nothing is true of it."""
    messages = _pairs(spark, values, keys, [True, True]).withColumn("topic", F.lit(TOPIC))
    found = find_decoders(messages, Lookup(MemoryRegistry({1: KEY, 2: VALUE}), None, Options(), None))

    changes = to_changes(messages, found.writers, found.plan.target, Options()).orderBy(m.OFFSET)

    assert () in (found.writers.known_values, found.writers.known_keys)
    assert [row[m.CODE] == "SCHEMA_UNKNOWN" for row in changes.select(m.CODE).collect()] == [False, True]


def _with_value_schema(value: bytes, number: int) -> bytes:
    """A message of the table's value schema that names another one."""
    return b"\x00" + number.to_bytes(4, "big") + value[5:]


def _read_all(line: Line) -> int:
    """Run to the end; the number of batches, of which there may not be ever more."""
    for count in range(12):
        if advance(line, line.source.state(TOPIC)) is None:
            return count
    pytest.fail("the same messages are read again and again")


def test_garbage_that_names_many_schemas_is_held_and_asked_for_in_turns(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of most messages are looked up; the rest is held, and a good one has its turn among new garbage."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 3)
    away, topic = Away(MemoryRegistry({1: KEY, 2: VALUE, 200: "none", 900: VALUE})), TopicBuilder(TOPIC)
    ticks, places, looks = itertools.count(), itertools.count(), itertools.count(1)
    line = replace(line, registry=away, now=lambda: EPOCH + timedelta(seconds=next(ticks)))

    def send(*names: int) -> Batch:
        for name in names:
            key, value = message(next(places))
            topic.add(key, _with_value_schema(value, name))
        topic.write(tmp_path)
        done = advance(line, line.source.state(TOPIC))
        assert done is not None
        return done

    first = send(2, 2, 2, 200, 200, 100, 101, 102, 103, 900)
    held, rows, asked = held_of(line), sorted(rows_of(line)), set(away.asked)
    before = verify(line)
    while not send(*[name for name in range(110, 113) for _ in range(2)]).counts.get("upserted"):
        assert next(looks) < 8

    assert {name: found for name, found in first.counts.items() if found} == {"upserted": 3, "quarantined": 7}
    assert held == dict.fromkeys((3, 4), "UNDECODABLE") | dict.fromkeys(range(5, 10), "SCHEMA_UNKNOWN")
    assert asked == {1, 2, 100, 200}
    assert (rows, sorted(rows_of(line))) == ([0, 1, 2], [0, 1, 2, 9])
    assert _open(line).keys() == held.keys() - {9} | set(range(10, next(places)))
    # What waits is held where raw is folded anew, too.
    assert (before.equal, before.held, verify(line).equal) == (True, 7, True)


def _open(line: Line) -> dict[int, str | None]:
    """The offsets of what is held still, each with its rule."""
    held = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror.quarantine}").where("status = 'open'")
    return {row["offset"]: row["rule"] for row in held.collect()}


def test_what_waits_is_no_change_before_its_turn(line: Line, tmp_path: Path) -> None:
    """Not in the past of its key either, where the registry gets to know its schema in the middle of a batch."""
    away, topic = (
        _Once(MemoryRegistry({1: KEY, 2: VALUE, 5: {**VALUE, "doc": "another"}}), hidden={5}),
        TopicBuilder(TOPIC),
    )
    line = replace(line, registry=away)
    topic.add(*message(0))
    key, value = message(1)
    topic.add(key, _with_value_schema(value, 5))
    topic.write(tmp_path)
    _read_all(line)
    update = {"id": 1, "name": "__debezium_unavailable_value", "amount": 7}
    topic.add(key, confluent_avro(2, VALUE, debezium_envelope("u", None, update, lsn=300)))
    topic.write(tmp_path)

    away.learns = True
    advance(line, line.source.state(TOPIC))
    early, held, checked = rows_of(line), held_of(line), verify(line)
    _read_all(line)

    assert early == {0: ("n0", 0)}
    assert held.keys() == {1, 2}
    assert (checked.equal, checked.held) == (True, 1)
    assert rows_of(line) == {0: ("n0", 0), 1: ("n1", 7)}
    assert _open(line) == {}
    assert verify(line).equal


@dataclass
class _Once(Away):
    """A registry that gets to know a schema when it is asked for it, from some time on."""

    learns: bool = False

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        found = super().schema(wanted)
        if self.learns:
            self.hidden.discard(wanted if isinstance(wanted, int) else wanted.number or 0)
        return found


def test_a_second_schema_is_read_among_keys_that_look_like_ids(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages with such keys are held, as their rows are not known; those beside them are read."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 3)
    registry, topic = MemoryRegistry({1: KEY, 2: VALUE, 3: {**VALUE, "doc": "another"}}), TopicBuilder(TOPIC)
    for at in range(12):
        key, value = message(at)
        topic.add(key if at in (0, 11) else _binary_key(at), _with_value_schema(value, 3 if at == 11 else 2))
    topic.write(tmp_path)

    # Until the lot falls on the key's own schema, of eleven, no mirror can be made, and the next run draws anew.
    for _ in range(40):
        with suppress(SchemaRefused):
            _read_all(replace(line, registry=registry))
            break

    assert sorted(rows_of(line)) == [0, 11]
    assert held_of(line) == dict.fromkeys(range(1, 11), "SCHEMA_UNKNOWN")


def _binary_key(at: int) -> bytes:
    """A key that is no frame, but looks like one, of another schema for each row."""
    return b"\x00" + (5_000 + at).to_bytes(4, "big") + b"key"


def test_where_columns_are_the_key_nothing_waits_for_kafkas(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what was held for its value's schema; but for a message whose value does not tell the columns."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 3)
    away = Away(MemoryRegistry({2: VALUE, 3: {**VALUE, "doc": "another"}}), hidden={3})
    line = replace(line, registry=away, table=line.table.model_copy(update={"key": ["id"]}))
    topic = TopicBuilder(TOPIC)
    for at in range(12):
        _, value = message(at)
        topic.add(_binary_key(at), _with_value_schema(value, 3 if at > 7 else 2))
    topic.add(_binary_key(12), confluent_avro(3, VALUE, debezium_envelope("d", None, None, lsn=200)))
    topic.write(tmp_path)

    advance(line, line.source.state(TOPIC))
    rows, held, keys = (
        sorted(rows_of(line)),
        held_of(line),
        {number for number in away.asked if number and number > 4_999},
    )
    assert _read_all(line) == 0
    away.hidden.clear()
    _read_all(line)

    assert (rows, held) == ([*range(8)], dict.fromkeys(range(8, 13), "SCHEMA_UNKNOWN"))
    assert len(keys) == 3
    assert sorted(rows_of(line)) == [*range(12)]
    assert _open(line) == {12: None}
    assert _read_all(line) == 0
    assert verify(line).equal


def test_a_message_without_a_key_is_read_once_its_values_schema_is_known(line: Line, tmp_path: Path) -> None:
    """Its key names no schema that could be waited for, and no other message's does."""
    away = Away(MemoryRegistry({1: KEY, 2: VALUE, 3: {**VALUE, "doc": "another"}}), hidden={3})
    line, topic = replace(line, registry=away), TopicBuilder(TOPIC)
    topic.add(*message(0))
    topic.add(None, _with_value_schema(message(1)[1], 3))
    topic.write(tmp_path)

    _read_all(line)
    held = held_of(line)
    away.hidden.clear()
    _read_all(line)

    assert held == {1: "SCHEMA_UNKNOWN"}
    names = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror.quarantine}")
    assert {row["code"] for row in names.where("status = 'open'").collect()} == {"KEY_NULL"}


def test_without_a_registry_schemas_that_messages_bring_have_their_turns(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a batch has too many of the next reads; bytes that look like a schema's name go on waiting."""
    monkeypatch.setattr(decoders_selectors, "SCHEMAS_MAX", 2)
    topic, columns = TopicBuilder(TOPIC), {"id": {"type": "int64", "optional": False}}
    key, rules = connect_key_schema(TOPIC, columns), dict[int, str | None]()
    for at in range(7):
        schema = connect_envelope_schema(TOPIC, columns) | {"version": 1 + at}
        envelope = debezium_envelope("c", None, {"id": at}, lsn=100 + at)
        topic.add(debezium_json({"id": at}, key), debezium_json(envelope, schema))
    for at in (7, 8, 9, 9):
        topic.add(debezium_json({"id": at}, key), _binary_key(at))
    topic.write(tmp_path)
    ticks = itertools.count()
    line = replace(line, registry=None, now=lambda: EPOCH + timedelta(seconds=next(ticks)))

    assert advance(line, line.source.state(TOPIC)) is not None
    rules = _open(line)
    _read_all(line)

    assert sorted(rules.values(), key=str) == [None] * 4 + ["many-schemas"] * 5
    assert _open(line) == dict.fromkeys(range(7, 11))
    rows = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror}").select("id").collect()
    assert sorted(row["id"] for row in rows) == [*range(7)]
    assert verify(line).equal
