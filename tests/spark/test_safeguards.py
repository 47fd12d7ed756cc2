"""What stands between a mistake of ours and readers, on the real line; and what a run that goes on for weeks keeps."""

import gc
import itertools
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer import pipeline as line_steps
from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.batch.steps import Decided
from cdc_materializer.errors import EXIT_BUG, EXIT_LAKE, EXIT_REWOUND
from cdc_materializer.lake import commit as lake_commit
from cdc_materializer.plan import plan_tables
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.rebuild.start import parse_start
from cdc_materializer.run.run import RunOptions, run_forever, run_once
from cdc_materializer.session.caching import cached
from cdc_materializer.session.session import adopt_session
from cdc_materializer.source import RecordedSource, TopicState
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    debezium_envelope,
    debezium_json,
    write_recorded_topic,
)
from tests.spark.marks import TURNS
from tests.spark.processes import CHANGES, MIRROR, TOPIC, add_changes, content, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _lost(decided: Decided) -> Decided:
    """A batch whose fold lost a message."""
    name = max(decided.counts, key=lambda outcome: decided.counts[outcome])
    return replace(decided, counts={**decided.counts, name: decided.counts[name] - 1})


def _doubled(decided: Decided) -> Decided:
    """A batch whose states come out twice when they are written."""
    return replace(decided, states=cached(decided.states.unionByName(decided.states)))


def test_a_topic_that_is_made_again_while_a_run_reads_it_stops_its_table(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run asked for its ends once; what it reads later is another topic's middle, and is not kept."""
    config = pipeline(tmp_path, 1, history=False)
    state, asked = RecordedSource.state, list[int]()

    def made_again(source: RecordedSource, topic: str) -> TopicState:
        asked.append(1)
        # The first batch is read, and the topic asked again, before it is made again.
        return replace(state(source, topic), topic_id="one" if len(asked) < 3 else "another")

    monkeypatch.setattr(RecordedSource, "state", made_again)
    report = run_once(config, spark)
    error = report.tables[0].error
    landed = [row["offset"] for row in content(config)[str(MIRROR.raw)]]
    noted = [(row["code"], row["status"]) for row in content(config)[str(MIRROR.quarantine)] if row["key"] is None]

    assert (report.exit_code, report.tables[0].batches) == (EXIT_REWOUND, 1)
    assert error is not None
    assert error.code == "OFFSET_REGRESSION"
    assert landed == [0, 1, 2]
    assert noted == [("OFFSET_REGRESSION", "open")]


def test_a_topic_that_lost_its_end_stops_its_table_at_its_former_length_too(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Without an id of the broker nothing but the stop tells by then that its last messages may be others."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    assert run_once(config, spark).exit_code == 0
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:3])
    assert run_once(config, spark).exit_code == EXIT_REWOUND
    topic.write(config.root / "recorded")

    reports = [run_once(config, spark) for _ in range(2)]

    errors = [report.tables[0].error for report in reports]
    assert [report.exit_code for report in reports] == [EXIT_REWOUND] * 2
    assert [error.code for error in errors if error is not None] == ["OFFSET_REGRESSION"] * 2
    assert plan_tables(config, (), spark).exit_code == EXIT_REWOUND
    noted = [row["status"] for row in content(config)[str(MIRROR.quarantine)] if row["key"] is None]
    assert noted == ["open"]
    adopt_table(config, str(MIRROR), Decision("tests", EPOCH), spark)
    assert [run_once(config, spark).exit_code for _ in range(2)] == [0, 0]
    assert verify_tables(config, spark).tables[0].equal


def test_a_topic_that_is_made_again_before_anything_of_it_was_read_is_accepted_again(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets begin where those of the one before did; that it is another one only the broker's id says."""
    config, state, number = pipeline(tmp_path, 1, records_max=100), RecordedSource.state, ["first"]
    monkeypatch.setattr(RecordedSource, "state", lambda self, topic: replace(state(self, topic), topic_id=number[-1]))
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0

    for one in ("second", "third"):
        number.append(one)
        write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:1])
        assert run_once(config, spark).exit_code == EXIT_REWOUND
        accepted = adopt_table(config, str(MIRROR), Decision("tests", EPOCH), spark).adopted
        assert [adoption.what for adoption in accepted] == ["topic"]

    assert [run_once(config, spark).exit_code for _ in range(2)] == [0, 0]
    assert verify_tables(config, spark).tables[0].equal


@pytest.mark.parametrize(("mistake", "says"), [(_lost, "accounts for"), (_doubled, "rows for shop.things, and")])
def test_a_batch_that_is_wrong_is_not_published(
    mistake: Any,  # noqa: ANN401 - such a function
    says: str,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run ends with 70, the mirror stays as it was, and when the mistake is mended the next run goes on."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    decide = line_steps.decide
    monkeypatch.setattr(line_steps, "decide", lambda *arguments: mistake(decide(*arguments)))

    report = run_once(config, spark)

    error = report.tables[0].error
    assert report.exit_code == EXIT_BUG
    assert error is not None
    assert says in error.message
    assert content(config)[str(MIRROR)] == []
    monkeypatch.undo()
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal


def test_a_batch_that_ends_between_two_landings_is_counted_too(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw's snapshots do not tell how many messages it has: `records_max` was changed since they landed."""
    decide = line_steps.decide
    monkeypatch.setattr(line_steps, "decide", lambda *arguments: _lost(decide(*arguments)))
    for records_max in (100, 2):
        config = pipeline(tmp_path, 1, records_max=records_max, history=False)

        error = run_once(config, spark).tables[0].error

        assert error is not None
        assert "accounts for" in error.message
        assert content(config)[str(MIRROR)] == []
    monkeypatch.undo()
    report = run_once(config, spark)
    assert (report.exit_code, report.tables[0].batches > 1) == (0, True)
    assert verify_tables(config, spark).tables[0].equal


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{statement}.mode": mode for statement in ("delete", "merge", "update")}


#: How a table's files tell what is gone, and what they go on with.
_FORMS: dict[str, tuple[dict[str, str], ...]] = {
    "deletion vectors": ({},),
    "position deletes": ({"format-version": "2", **_modes("merge-on-read")},),
    "copy-on-write": ({"format-version": "2", **_modes("copy-on-write")},),
    "both": ({"format-version": "2", **_modes("merge-on-read")}, _modes("copy-on-write")),
}


@TURNS
@pytest.mark.parametrize("form", _FORMS)
def test_rows_that_come_and_go_are_counted_in_every_form_of_a_table(
    form: str, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows replaced and deleted over several batches, a truncate too, are no false alarm; and all are counted."""
    seen: list[tuple[int | None, int]] = []
    count = lake_commit.rows_gone

    def look(before: Any, summary: Any) -> int | None:  # noqa: ANN401 - summaries
        found = count(before, summary)
        seen.append((found, int(before["total-records"]) - int(before["total-position-deletes"])))
        return found

    monkeypatch.setattr(lake_commit, "rows_gone", look)
    first, *later = _FORMS[form]
    config = pipeline(tmp_path, 1, records_max=3, history=False, properties=first)
    topic = TopicBuilder(TOPIC)
    for number in (0, 1):
        add_changes(topic, number)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    for properties in later:
        told = ", ".join(f"'{name}'='{text}'" for name, text in properties.items())
        adopt_session(spark, config).sql(f"ALTER TABLE lake.shop.things SET TBLPROPERTIES ({told})")
    topic.add(None, debezium_json(debezium_envelope("t", None, None, lsn=900)))
    add_changes(topic, 9)
    topic.write(config.root / "recorded")

    report = run_once(config, spark)

    assert (report.exit_code, report.tables[0].error) == (0, None)
    assert verify_tables(config, spark).tables[0].equal
    assert all(gone is None or 0 <= gone <= there for gone, there in seen)
    # The positions that were deleted before do not go with files that are written anew in the last form.
    assert (None in {gone for gone, _ in seen}) == (form == "both")
    assert {gone for gone, _ in seen} & {1, 2, 3}


def test_a_column_that_another_program_has_dropped_is_not_begun_anew(spark: "SparkSession", tmp_path: Path) -> None:
    """Readers would take its empty rows for what the source says: the mirror stops, and a replay fills it."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    before = content(config)[str(MIRROR)]
    # Its branch has lost the column as well, and is not gone on with.
    assert replay_tables(config, ("shop.things",), ReplayOptions(), spark).tables[0].error is None
    adopt_session(spark, config).sql("ALTER TABLE lake.shop.things DROP COLUMN price")
    assert run_once(config, spark).exit_code == 0
    add_changes(topic, 1)
    topic.write(config.root / "recorded")

    report = run_once(config, spark)

    error = report.tables[0].error
    assert report.exit_code == EXIT_LAKE
    assert error is not None
    assert error.message.startswith("Another program has dropped or renamed price of shop.things, and the log still")
    assert [row["id"] for row in content(config)[str(MIRROR)]] == [row["id"] for row in before]
    assert len(content(config)[str(MIRROR.raw)]) == 2 * len(CHANGES)
    middle = ReplayOptions(publish=True, start=parse_start("offset:2"))
    refused = replay_tables(config, ("shop.things",), middle, spark).tables[0].error
    assert refused is not None
    assert refused.message.startswith("Columns of shop.things were dropped or renamed: price. Its rows of then")
    assert replay_tables(config, ("shop.things",), ReplayOptions(publish=True), spark).tables[0].published
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal
    assert [row["price"] for row in content(config)[str(MIRROR)]][: len(before)] == [row["price"] for row in before]


def test_a_mirror_whose_quarantine_was_dropped_goes_on_only_rebuilt(spark: "SparkSession", tmp_path: Path) -> None:
    """An empty one would tell that nothing is held, and what waits would never be tried again."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    garbage = topic.add(b"{", b"{").offset
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    adopt_session(spark, config).sql("DROP TABLE lake.shop.things__quarantine")
    add_changes(topic, 1)
    topic.write(config.root / "recorded")

    report = run_once(config, spark)

    error = report.tables[0].error
    assert (report.exit_code, error is not None) == (EXIT_LAKE, True)
    assert error is not None
    assert error.message.startswith("shop.things__quarantine is gone, or another table")
    assert replay_tables(config, ("shop.things",), ReplayOptions(publish=True), spark).tables[0].published
    held = [row["offset"] for row in content(config)[str(MIRROR.quarantine)] if row["status"] == "open"]
    assert garbage in held
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal


def test_a_column_that_another_program_has_renamed_is_not_begun_anew(spark: "SparkSession", tmp_path: Path) -> None:
    """A second one of its name would be empty in all rows from before; named back, it goes on."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    adopt_session(spark, config).sql("ALTER TABLE lake.shop.things RENAME COLUMN price TO cost")
    add_changes(topic, 1)
    topic.write(config.root / "recorded")

    error = run_once(config, spark).tables[0].error

    assert error is not None
    assert error.message.startswith("Another program has dropped or renamed price of shop.things")
    adopt_session(spark, config).sql("ALTER TABLE lake.shop.things RENAME COLUMN cost TO price")
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal


def test_a_column_of_raw_that_another_program_has_renamed_is_not_begun_anew(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Every message that has landed would be a tombstone to the next replay; named back, it goes on."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    before, raw = content(config)[str(MIRROR)], "lake.shop.things__raw"
    adopt_session(spark, config).sql(f"ALTER TABLE {raw} RENAME COLUMN value TO body")
    add_changes(topic, 1)
    topic.write(config.root / "recorded")

    report = run_once(config, spark)

    error = report.tables[0].error
    assert (report.exit_code, error is not None) == (EXIT_LAKE, True)
    assert error is not None
    assert error.message.startswith("Another program has dropped or renamed value of shop.things__raw")
    assert content(config)[str(MIRROR)] == before
    adopt_session(spark, config).sql(f"ALTER TABLE {raw} RENAME COLUMN body TO value")
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal


def test_rounds_leave_nothing_in_spark(spark: "SparkSession", tmp_path: Path) -> None:
    """Nothing stays cached, and neither views nor sessions add up, however many batches a follower has done."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    options = RunOptions()
    seen: list[tuple[int, int]] = []

    for number, report in enumerate(run_forever(config, spark, options, poll=0.0), start=1):
        assert report.exit_code == 0
        seen.append(_kept(spark, seen[-1] if seen else None))
        if number == 4:
            options.stop.set()
        add_changes(topic, number)
        topic.write(config.root / "recorded")

    assert len(seen) == 4
    # What tests before this one have left may still go; nothing is added.
    assert all(_is_no_more(now, before) for before, now in itertools.pairwise(seen[1:]))
    assert len(content(config)[str(MIRROR.raw)]) == 4 * len(CHANGES)


def _is_no_more(now: tuple[int, int], before: tuple[int, int]) -> bool:
    return all(kept <= kept_before for kept, kept_before in zip(now, before, strict=True))


def _kept(spark: "SparkSession", expected: tuple[int, int] | None) -> tuple[int, int]:
    """How many RDDs Spark keeps, and how many data sets it has cached, once it has cleaned up."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc
    for _ in range(100):
        # What nobody refers to is cleaned up in the background, after a collection of garbage on either side.
        gc.collect()
        jvm.java.lang.System.gc()
        found = context.getPersistentRDDs().size(), session.sharedState().cacheManager().numCachedEntries()
        if expected is None or _is_no_more(found, expected):
            break
        time.sleep(0.1)
    return found
