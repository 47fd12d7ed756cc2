"""What a batch costs Spark: one shuffle for the fold, no Python in the executors, and a bounded number of jobs."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, earlier, life, verdict
from cdc_materializer.batch.past import Past
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.contract import Action, Rule, Scope, load_contract
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.fold import fold
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line, marker_of, reload
from cdc_materializer.offsets import Offsets
from cdc_materializer.order import key_order, owners
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.pipeline import advance, land, load, plan_landing
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.source import RecordedSource
from cdc_materializer.testing import (
    MemoryRegistry,
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    debezium_envelope,
    kafka_partition,
)
from tests.spark.marks import ALWAYS, IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

TOPIC = "shop.public.things"
KEY = avro_key_schema(TOPIC, {"id": "long"})
VALUE = avro_envelope_schema(TOPIC, {"id": "long", "name": ["null", "string"], "amount": ["null", "int"]})
#: Jobs that one batch may start: landing, finding the writers, the fold's facts, the verdict's sums and the commits.
#: A change that needs more should be able to say why.
JOBS_MAX = {"first batch": 14, "later batch": 18}
CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: things
name: Things
version: 1.0.0
status: active
schema:
  - name: t
    properties:
      - {name: id, primaryKey: true, logicalType: integer}
      - {name: amount, logicalType: integer, logicalTypeOptions: {minimum: 0, maximum: 1000}}
      - {name: name, logicalType: string, required: true, logicalTypeOptions: {maxLength: 20}}
"""
#: Operators that hand rows to Python, by what the names of all of them have.
_PYTHON = re.compile("Python|Pandas|InArrow")
#: A shuffle of messages by their key; of one fold all name it alike.
_SHUFFLE = re.compile(r"Exchange hashpartitioning\((__cdc_group#\d+)")
_groups = itertools.count()


def _write(folder: Path, count: int, *, again: int = 0, partitions: int = 1) -> None:
    """A topic in which three keys are written again and again, always with all columns.

    Args:
        folder: of recorded topics.
        count: how many messages.
        again: how many of the first ones are sent again at the end.
        partitions: of the topic.
    """
    topic = TopicBuilder(TOPIC)
    for at in (*range(count), *range(again)):
        row = {"id": at % 3, "name": f"n{at}", "amount": at}
        envelope = debezium_envelope("u", None, row, lsn=100 + at)
        key, value = confluent_avro(1, KEY, {"id": row["id"]}), confluent_avro(2, VALUE, envelope)
        topic.add(key, value, partition=row["id"] % partitions)
    topic.write(folder)


@pytest.fixture
def line(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table, with a contract of three rules."""
    _write(tmp_path, 12)
    contract = tmp_path / "contract.yaml"
    contract.write_text(CONTRACT, encoding="utf-8")
    table = TableConfig.model_validate({"topic": TOPIC, "mirror": f"{namespace}.things"})
    registry = MemoryRegistry({1: KEY, 2: VALUE})
    lake = Lake(spark.newSession(), lake_config.catalog.name)
    return Line("plans", table, RecordedSource(tmp_path), registry, load_contract(contract), lake)


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def decided(line: Line, request: pytest.FixtureRequest, tmp_path: Path) -> "DataFrame":
    """The verdict on a batch as one plan: decoded, folded and judged, nothing cached between."""
    return _decided(line, tmp_path, Recorded(partitions=request.param))


def _decided(line: Line, folder: Path, recorded: Recorded, *, twice: bool = False) -> "DataFrame":
    """The verdict on a batch; with `twice` on one whose messages are doubled, and have no place."""
    _write(folder, 12, partitions=recorded.partitions)
    topic = line.source.state(TOPIC)
    tables = load(line)
    land(line, tables.raw, plan_landing(line, tables.raw, topic), topic)
    span = batch.whole(Offsets(), topic.ends, TOPIC)
    messages = batch.messages(line.lake.rows(reload(line, line.mirror.raw)), span, line.id_bytes)
    decoders = find_decoders(messages, line.lookup(None))
    changes = to_changes(messages, decoders.writers, decoders.plan.target, line.options)
    if twice:
        changes = changes.withColumn(m.POSITION, F.lit(None).cast("string"))
        changes = changes.unionByName(changes)
    flagged = batch._with_flags(changes, Past(line.lookup(None)))
    states = fold.states(flagged, decoders.plan.target, decoders.partial, recorded)
    return verdict.decide(states, line.judgement(decoders.plan.target, recorded))


def _plan(frame: "DataFrame") -> str:
    java: Any = frame._jdf
    return str(java.queryExecution().executedPlan().toString())


@ALWAYS
def test_decoding_folding_and_judging_cost_one_scan_and_one_exchange(decided: "DataFrame") -> None:
    """All windows are over one key, so the messages are shuffled once; nothing is joined, nothing runs in Python."""
    plan = _plan(decided)

    assert plan.count("Exchange") == 1, plan
    assert "Exchange hashpartitioning(__cdc_group" in plan, plan
    assert plan.count("BatchScan") == 1, plan
    assert "Join" not in plan, plan
    assert not _PYTHON.search(plan), plan


def test_what_readers_saw_before_a_change_costs_no_further_exchange(decided: "DataFrame") -> None:
    """Soft deletes and history look at the states of a key in the order in which they were folded."""
    columns = tuple(Column(name, "string") for name in ("id", "name", "amount"))
    plan = _plan(life.remember(decided, TableSchema(columns, ("id",))))

    assert plan.count("Exchange") == 1, plan
    assert sum(" Sort [" in line for line in plan.splitlines()) <= 3, plan


def test_all_that_a_key_has_shown_costs_no_further_exchange(line: Line, tmp_path: Path) -> None:
    """Where the highest change does not tell what was sent before, the messages are sorted some times and stay there.

    By their events, their places, and the changes of numbered transactions, whichever server sent them and in pieces.
    """
    plan = _plan(_decided(line, tmp_path, Recorded(exact=True)))

    assert plan.count("Exchange") == 1, plan
    assert sum(" Sort [" in line for line in plan.splitlines()) <= 7, plan


def test_whose_row_a_key_is_costs_no_further_exchange(decided: "DataFrame") -> None:
    """Of several source tables too: ownership is told along the order of the fold."""
    known = decided.withColumn(owners.OWNER, F.lit("shop.public.things"))
    ordered = Window.partitionBy(key_order.GROUP).orderBy(key_order.ORDER)
    plan = _plan(owners.hold_collisions(known, fold.effective(), fold.is_delete(), ordered))

    assert plan.count("Exchange") == 1, plan
    assert sum(" Sort [" in line for line in plan.splitlines()) <= 4, plan


def test_the_messages_are_sorted_once_a_direction(decided: "DataFrame", request: pytest.FixtureRequest) -> None:
    """The order of the fold and the order of the verdict; with several partitions, that of each lane before them."""
    plan = _plan(decided)

    limit = 2 if "one partition" in request.node.name else 4
    assert sum(" Sort [" in line for line in plan.splitlines()) <= limit, plan


def test_the_messages_of_a_key_are_gone_through_six_times(decided: "DataFrame", request: pytest.FixtureRequest) -> None:
    """Each pass copies all rows: what several steps ask of one frame is asked at once.

    One of them, what a snapshot has shown of a row before a key change, only where columns can be left out.
    """
    if "three partitions" in request.node.name:
        pytest.skip("of several partitions the order is found by passes of its own")
    plan = _plan(decided)

    assert sum(" Window [" in line for line in plan.splitlines()) == 6, plan


@pytest.mark.parametrize("twice", [False, True])
def test_two_states_in_one_place_are_told(line: Line, tmp_path: Path, *, twice: bool) -> None:
    """Both would be published, as two rows of one key; what tells of them costs no pass of its own."""
    found = _decided(line, tmp_path, Recorded(), twice=twice)

    assert found.where(verdict.DOUBLED).count() == (3 if twice else 0)


def test_nothing_of_a_whole_batch_runs_in_python(spark: "SparkSession", line: Line, tmp_path: Path) -> None:
    """Whatever Spark is asked on the way, also by a batch that looks into its past; a function of Python's is seen."""
    _jobs(spark, line)
    first = _executed(spark)
    _write(tmp_path, 24, again=6)
    _jobs(spark, line)
    later = _executed(spark)
    doubled = F.udf(lambda number: number * 2, "bigint")
    spark.range(3).select(doubled("id")).collect()

    assert min(len(first), len(later)) > 4
    assert not [plan for plan in (*first, *later) if _PYTHON.search(plan)]
    assert _PYTHON.search(_executed(spark)[-1])


@ALWAYS
def test_a_batch_shuffles_its_messages_by_key_once(spark: "SparkSession", line: Line, tmp_path: Path) -> None:
    """For the fold; what is decided and written of its states reads them back, and shuffles them by key no more."""
    _jobs(spark, line)
    _write(tmp_path, 24)
    last = max(_executions(spark))
    _jobs(spark, line)
    shuffled = [plan for number, plan in _executions(spark).items() if number > last and _SHUFFLE.search(plan)]

    assert len(shuffled) > 2
    assert len({found for plan in shuffled for found in _SHUFFLE.findall(plan)}) == 1, shuffled
    assert all(len(_SHUFFLE.findall(plan)) == 1 for plan in shuffled), shuffled
    assert all("InMemoryRelation" in _SHUFFLE.split(plan)[0] for plan in shuffled), shuffled


def test_a_batch_starts_a_bounded_number_of_jobs(spark: "SparkSession", line: Line, tmp_path: Path) -> None:
    """Each job costs a tenth of a second before it does anything."""
    jobs = {"first batch": _jobs(spark, line)}
    _write(tmp_path, 24)
    jobs["later batch"] = _jobs(spark, line)

    assert all(jobs[name] <= limit for name, limit in JOBS_MAX.items()), jobs


def test_few_messages_start_few_jobs_in_a_session_for_many(spark: "SparkSession", line: Line, tmp_path: Path) -> None:
    """One that plans as it goes makes a job of each shuffle: such a batch took 16."""
    for name, value in (("shuffle.partitions", "7"), ("adaptive.enabled", "true")):
        line.lake.spark.conf.set(f"spark.sql.{name}", value)
    _jobs(spark, line)
    _write(tmp_path, 24)

    assert _jobs(spark, line) <= 8


def test_twenty_rules_start_at_most_two_jobs_more(spark: "SparkSession", line: Line, tmp_path: Path) -> None:
    """Rules about rows are columns of the plan that runs anyway; what is counted of the table takes one pass."""
    contract = line.contract
    assert contract is not None
    many = [
        *[
            Rule(f"row-{at}", "amount", "expect_column_values_to_be_between", {"max_value": 100 + at})
            for at in range(16)
        ],
        Rule("mean", "amount", "expect_column_mean_to_be_between", {"min_value": 0}, Action.BLOCK, scope=Scope.TABLE),
        Rule("sum", "amount", "expect_column_sum_to_be_between", {"min_value": 0}, Action.BLOCK, scope=Scope.TABLE),
        Rule("rows", None, "expect_table_row_count_to_equal", {"value": 3}, Action.BLOCK, scope=Scope.TABLE),
        Rule("most", "name", "expect_column_values_to_not_be_null", {"mostly": 0.5}, Action.BLOCK, scope=Scope.TABLE),
    ]
    other = TableConfig.model_validate({"topic": TOPIC, "mirror": f"{line.mirror}_without"})
    under = replace(line, stated=replace(contract, rules=tuple(many)))
    without = replace(line, stated=None, table=other)
    jobs = {"first batch": (_jobs(spark, under), _jobs(spark, without))}
    _write(tmp_path, 24)
    jobs["later batch"] = (_jobs(spark, under), _jobs(spark, without))

    assert all(ruled - free <= 2 for ruled, free in jobs.values()), jobs


def _executed(spark: "SparkSession") -> list[str]:
    """The plans of the last queries of a session, as many as Spark keeps."""
    return list(_executions(spark).values())


def _executions(spark: "SparkSession") -> dict[int, str]:
    """The same, by their numbers, which only rise."""
    listed = spark._jsparkSession.sharedState().statusStore().executionsList()
    found = [listed.apply(at) for at in range(listed.size())]
    return {one.executionId(): one.physicalPlanDescription() for one in found}


def _jobs(spark: "SparkSession", line: Line, upserted: int = 3) -> int:
    group = f"plans {next(_groups)}"
    spark.sparkContext.setJobGroup(group, "one batch")
    try:
        done = advance(line, line.source.state(TOPIC))
        assert done is not None
        assert done.counts["upserted"] == upserted
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def _looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch from here on looks into its past."""
    looked: list[bool] = []
    history = earlier.history_of

    def watched(*arguments: Any) -> Any:  # noqa: ANN401 - whatever it is
        found = history(*arguments)
        looked.append(found is not None)
        return found

    monkeypatch.setattr(batch, "history_of", watched)
    return looked


def test_only_a_late_batch_looks_into_its_past(
    spark: "SparkSession", line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose changes are all new starts no job for what was there before; one that is sent again pays for it."""
    looked = _looked(monkeypatch)
    _jobs(spark, line)
    _write(tmp_path, 24)
    new = _jobs(spark, line)
    _write(tmp_path, 24, again=3)
    late = _jobs(spark, line, upserted=0)

    assert looked == [False, False, True]
    assert new < late, (new, late)


def test_what_other_partitions_have_read_says_nothing_of_a_key_that_stays(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are read at unequal speed; a key that Kafka's partitioner has put into one was never in another."""
    looked = _looked(monkeypatch)
    topic = TopicBuilder(TOPIC)

    def send(key: int, name: str, lsn: int, elsewhere: int = 0) -> None:
        row = {"id": key, "name": name, "amount": 1}
        written, value = confluent_avro(1, KEY, {"id": key}), debezium_envelope("u", None, row, lsn=lsn)
        partition = (kafka_partition(written, 3) + elsewhere) % 3
        topic.add(written, confluent_avro(2, VALUE, value), partition=partition)

    def run() -> tuple[dict[str, int], str | None, dict[int, str]]:
        topic.write(tmp_path)
        done = advance(line, line.source.state(TOPIC))
        mirror = line.load_mirror()
        assert done is not None
        assert mirror is not None
        rows = line.lake.rows(mirror).collect()
        return done.counts, marker_of(mirror).home, {row["id"]: row["name"] for row in rows}

    first, second, third = _one_of_each_partition()
    for at, key in enumerate((first, second, third)):
        send(key, "made", 100 + at)
    _, home, _ = run()
    send(first, "late in the log", 900)
    run()
    send(second, "earlier in the log", 500)
    counts, still, rows = run()

    assert home == still == "3 id:00000001"
    assert looked == [False] * 3
    assert counts["upserted"] == 1
    assert rows == {first: "late in the log", second: "earlier in the log", third: "made"}

    send(first, "sent again by another hand", 600, elsewhere=1)
    counts, home, after = run()

    assert home is None
    assert looked == [False, False, False, True]
    assert counts["superseded"] == 1
    assert after == rows


def _one_of_each_partition() -> tuple[int, int, int]:
    by_partition = {kafka_partition(confluent_avro(1, KEY, {"id": key}), 3): key for key in range(50)}
    return by_partition[0], by_partition[1], by_partition[2]


def test_partitions_that_are_added_move_keys(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many keys some are in another partition then, and what one has read may be of the keys of any.

    Each change is above what its own partition has shown, and one of them is below what another one has.
    """
    looked = _looked(monkeypatch)
    topic = TopicBuilder(TOPIC)
    homes = []
    for partitions, lsn in ((2, 100), (2, 200), (3, 300)):
        for key in range(8):
            written = confluent_avro(1, KEY, {"id": key})
            partition = kafka_partition(written, partitions)
            ahead = 1000 if partition == 1 and lsn == 200 else lsn
            own = ahead + 1000 if partition == 1 and lsn == 300 else ahead
            value = debezium_envelope("u", None, {"id": key, "name": "n", "amount": 1}, lsn=own + key)
            topic.add(written, confluent_avro(2, VALUE, value), partition=partition)
        topic.write(tmp_path)
        assert advance(line, line.source.state(TOPIC)) is not None
        mirror = line.load_mirror()
        assert mirror is not None
        homes.append(marker_of(mirror).home)

    assert homes == ["2 id:00000001", "2 id:00000001", None]
    assert looked == [False, False, True]


def test_thousands_of_rules_are_no_chain_that_is_too_deep(spark: "SparkSession") -> None:
    """A contract has a rule a column, and tables have thousands of them: Spark walks down a chain call by call."""
    broken = spark.range(3_000).where(verdict._any([F.col("id") == at for at in range(0, 3_000, 2)] * 2))

    assert broken.count() == 1_500
