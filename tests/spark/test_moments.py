"""What a table was at a moment of its source, and what is said where the log leaves that open."""

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.changes import model as m
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_REWOUND, UsageError
from cdc_materializer.moments.cut import KNOWN, Known, cut_at, doubts
from cdc_materializer.moments.moments import Moment, as_of
from cdc_materializer.report.query_models import AsOfReport
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.marks import EIGHTH_TURN, IMPORTS_GREAT_EXPECTATIONS
from tests.spark.shops import COLUMNS, KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, EIGHTH_TURN, *IMPORTS_GREAT_EXPECTATIONS]

_CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: things
name: Things
version: "1"
status: active
schema:
  - name: things
    physicalType: table
    properties:
      - {name: id, primaryKey: true, logicalType: integer, physicalType: bigint}
      - {name: name, logicalType: string, physicalType: text, customProperties: [{property: mask, value: redact}]}
      - {name: price, logicalType: integer, physicalType: integer, logicalTypeOptions: {minimum: 0}}
"""


@dataclasses.dataclass(frozen=True)
class Said:
    """A message: of a row, with its price, at a position and so many seconds after the EPOCH."""

    op: str
    row: int | None = None
    price: int | None = None
    lsn: int | None = None
    seconds: float = 0
    snapshot: str = "false"
    partition: int = 0

    def key(self) -> bytes | None:
        """The Kafka key; none that can be read where it is no row's."""
        if self.row is None:
            return None if self.op == "t" else b"?"
        return debezium_json({"id": self.row}, connect_key_schema("t", KEY))

    def value(self) -> bytes | None:
        """The Kafka value."""
        if self.op in ("tombstone", "garbage"):
            return None if self.op == "tombstone" else b"?"
        image = {"id": self.row, "name": f"thing {self.row}", "price": self.price}
        images = {"d": (image, None), "t": (None, None)}.get(self.op, (None, image))
        ts_ms = round((EPOCH + timedelta(seconds=self.seconds)).timestamp() * 1000)
        envelope = debezium_envelope(self.op, *images, lsn=self.lsn, ts_ms=ts_ms, snapshot=self.snapshot)
        return debezium_json(envelope, connect_envelope_schema("t", COLUMNS))


def position(lsn: int) -> str:
    """A position of PostgreSQL's as the product writes it: the commit before, and the change."""
    return _pair(lsn, lsn)


def _pair(commit: int, change: int) -> str:
    return f"{commit:020}/{change:020}"


class Table:
    """A mirror of a topic, published after each of some steps."""

    def __init__(
        self,
        config: Config,
        spark: "SparkSession",
        name: str,
        *steps: Iterable[Said],
        judged: bool = False,
        first_offset: int = 0,
        **settings: Any,  # noqa: ANN401 - whatever a table can be set to
    ) -> None:
        """Send the messages and run."""
        self.spark, self.mirror, folder = spark, f"moments.{name}", config.root / f"moments_{name}"
        folder.mkdir()
        (folder / "contract.yaml").write_text(_CONTRACT, encoding="utf-8")
        self._topic, self._folder = TopicBuilder(f"{name}.public.things", first_offset=first_offset), folder
        table = {"topic": self._topic.topic, "mirror": self.mirror, **settings}
        table |= {"contract": str(folder / "contract.yaml")} if judged else {}
        path = config.root / f"moments_{name}.yaml"
        path.write_text(yaml.safe_dump({"name": name, "source": {"files": folder.name}, "tables": [table]}))
        self.config = load_config(path)
        for step in steps:
            assert self.send(*step) == 0

    def send(self, *messages: Said) -> int:
        """Send more messages, and run; with which exit code."""
        for said in messages:
            self._topic.add(said.key(), said.value(), partition=said.partition)
        self._topic.write(self._folder)
        return run_once(self.config, self.spark).exit_code

    def at(self, lsn: int, limit: int = 100) -> AsOfReport:
        """The table at a position."""
        return self.then(Moment(position(lsn), limit=limit))

    def when(self, seconds: float) -> AsOfReport:
        """The table so many seconds after the EPOCH."""
        return self.then(Moment(time=EPOCH + timedelta(seconds=seconds)))

    def then(self, moment: Moment) -> AsOfReport:
        """The table at a moment."""
        return as_of(self.config, self.mirror, moment, self.spark)

    def snapshots(self) -> list[tuple[str, int]]:
        """All snapshots of the mirror and of what is beside it."""
        names = [self.mirror, f"{self.mirror}__raw"]
        return [(name, self.spark.table(f"lake.{name}.snapshots").count()) for name in names]


def _rows(found: AsOfReport) -> dict[int, int]:
    at = [column.name for column in found.columns]
    return {row[at.index("id")]: row[at.index("price")] for row in found.rows}


def _notes(found: AsOfReport, *parts: str) -> None:
    """What is not certain is told, and nothing else."""
    assert len(found.notes) == len(parts), found.notes
    for part in parts:
        assert any(part in note for note in found.notes), (part, found.notes)
    assert found.exact == (not parts)


@pytest.fixture(scope="module")
def table(spark: "SparkSession", lake_config: Config) -> Table:
    """Published after the offsets 3, 7 and 9; two changes of one transaction, and one that comes again much later."""
    return Table(
        lake_config,
        spark,
        "table",
        [
            Said("r", 1, 10, 100, snapshot="first"),
            Said("r", 2, 20, 100, snapshot="last"),
            Said("u", 1, 11, 200, seconds=1),
            Said("c", 3, 30, 300, seconds=2),
        ],
        [
            Said("d", 2, None, 400, seconds=3),
            Said("tombstone", 2),
            Said("u", 1, 12, 500, seconds=4),
            Said("c", 4, 40, 510, seconds=4),
        ],
        [Said("u", 1, 11, 200, seconds=1), Said("c", 5, 50, 600, seconds=5)],
    )


@pytest.mark.parametrize(
    ("lsn", "rows", "is_named"),
    [
        (200, {1: 11, 2: 20}, False),
        (300, {1: 11, 2: 20, 3: 30}, True),
        (400, {1: 11, 3: 30}, False),
    ],
    ids=str,
)
def test_rows_are_as_the_source_had_them(table: Table, lsn: int, rows: dict[int, int], *, is_named: bool) -> None:
    """Whether readers ever saw them so or not; a snapshot is named where it has just these rows; nothing is written."""
    before = table.snapshots()

    found = table.at(lsn)

    assert (_rows(found), found.count, found.more) == (rows, len(rows), False)
    _notes(found)
    assert (found.snapshot is not None) == is_named
    if is_named:
        seen = table.spark.sql(f"SELECT id, price FROM lake.{table.mirror} VERSION AS OF {found.snapshot}").collect()
        assert {row["id"]: row["price"] for row in seen} == rows
    assert table.snapshots() == before


def test_a_part_of_a_transaction_is_told_as_such(table: Table) -> None:
    """Its second change has the same commit time."""
    found = table.at(500)

    assert _rows(found) == {1: 12, 3: 30}
    _notes(found, "part of a transaction")


def test_the_newest_state_may_not_be_complete(table: Table) -> None:
    """Nothing tells that no more comes from before it; fewer rows are shown than there are, if asked for."""
    found = table.at(600, limit=1)

    assert (found.count, len(found.rows), found.more) == (4, 1, True)
    assert found.snapshot is not None
    _notes(found, "Partition 0 has shown nothing from after it")


@pytest.mark.parametrize(
    ("seconds", "lsn", "rows"), [(2.5, 300, {1: 11, 2: 20, 3: 30}), (4, 510, {1: 12, 3: 30, 4: 40})]
)
def test_a_time_is_that_of_the_source(table: Table, seconds: float, lsn: int, rows: dict[int, int]) -> None:
    """It stands for the highest position that was committed by then."""
    found = table.when(seconds)

    assert (found.position, _rows(found)) == (position(lsn), rows)
    _notes(found)


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (Moment(time=datetime(1990, 1, 1, tzinfo=UTC)), "no message from then"),
        (Moment(position(50)), "Raw begins after that"),
        (Moment("300"), "no position as this table's source has them"),
        (Moment(), "says when"),
    ],
    ids=str,
)
def test_a_moment_of_which_nothing_is_known_is_refused(table: Table, moment: Moment, said: str) -> None:
    """A number that is compared as text would be anywhere in the log."""
    with pytest.raises(UsageError, match=said):
        table.then(moment)


@pytest.mark.parametrize(
    ("asked", "found", "last"),
    [
        ((100, 100), (100, 100), 0),
        ((200, 200), (200, 200), 2),
        ((150, 210), (150, 210), 3),
        ((220, 300), (220, 300), 4),
        (7, (200, 200), 2),
        (12, (150, 210), 3),
        (30, (220, 300), 4),
    ],
    ids=str,
)
def test_a_snapshot_comes_before_what_reaches_behind_it(
    spark: "SparkSession", asked: tuple[int, int] | int, found: tuple[int, int], last: int
) -> None:
    """Its rows know no last commit, and that of the first change behind it can lie before it."""
    places = [("c", 100, 100, 1), ("c", 110, 110, 2), ("r", 200, 200, 5), ("u", 150, 210, 10), ("u", 220, 300, 20)]
    told = [
        (0, at, op, _pair(commit, change), seconds, None) for at, (op, commit, change, seconds) in enumerate(places)
    ]
    changes = _changes(spark, told)
    position, time = (None, EPOCH + timedelta(seconds=asked)) if isinstance(asked, int) else (_pair(*asked), None)

    cut = cut_at(Known(changes, (0,)), position, time)

    assert cut.position == _pair(*found)
    assert [row[m.OFFSET] for row in changes.where(cut.included).collect()] == [*range(last + 1)]
    assert cut.last[0] == last


def _changes(spark: "SparkSession", told: Iterable[tuple[int, int, str, str, int, str | None]]) -> "DataFrame":
    """What is known of messages: partition, offset, operation, position, time, and what record of a snapshot it is."""
    rows = [
        (
            partition,
            at,
            op,
            f"{partition}/{at}",
            where,
            EPOCH + timedelta(seconds=seconds),
            op != "r",
            record,
            *(None for _ in range(4)),
        )
        for partition, at, op, where, seconds, record in told
    ]
    types = dict.fromkeys(KNOWN, "string") | {m.PARTITION: "int", m.OFFSET: "bigint", m.SOURCE_TIME: "timestamp"}
    types |= {m.STREAMING: "boolean", m.LOG_NUMBER: "bigint"}
    return spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in types.items()))


_READ_ANEW = "A snapshot of the table was read after it"


@pytest.mark.parametrize(
    ("told", "is_doubted"),
    [
        pytest.param([["c100", "r300", "u400"]], True, id="lost"),
        pytest.param([["c100", "u200", "r300"]], False, id="read on before"),
        pytest.param([["c100", "i300", "u400"]], False, id="a chunk"),
        pytest.param([["r100", "r100", "u400"]], False, id="the first"),
        pytest.param([["c100", "r300"], ["c090", "u200", "r300"]], False, id="read on in another partition"),
        pytest.param([["c100", "r300"], ["c090", "u200", "u400"]], False, id="another partition, not in it"),
        pytest.param([["c100", "r300"], ["c090", "u400"]], True, id="another partition, behind it"),
        pytest.param([["c100", "r300"], ["c090", "r300", "u250"]], True, id="what was begun before it"),
        pytest.param([["c100", "u200", "r300", "u350", "r400"]], False, id="another one later"),
    ],
)
def test_a_snapshot_that_comes_next_does_not_tell_what_was_between(
    spark: "SparkSession", told: list[list[str]], *, is_doubted: bool
) -> None:
    """Unless the log was read on behind the moment before it was taken; a chunk of one is read beside the log."""
    kinds = {"i": ("r", None), "r": ("r", "true")}
    messages = [
        (partition, at, kinds.get(one[0], one)[0], position(int(one[1:])), 0, kinds.get(one[0], ("", None))[1])
        for partition, every in enumerate(told)
        for at, one in enumerate(every)
    ]
    log = Known(_changes(spark, messages), tuple(range(len(told))))

    found = doubts(log, cut_at(log, position(100), None), time=None, wipes=True)

    assert any(_READ_ANEW in note for note in found) is is_doubted


@pytest.mark.parametrize(
    "settings", [{}, {"snapshot_sweep": True}, {"snapshot_sweep": True, "deletes": "soft"}], ids=len
)
def test_a_snapshot_that_was_taken_again_leaves_open_what_was_deleted(
    spark: "SparkSession", lake_config: Config, settings: dict[str, Any]
) -> None:
    """The connector had lost its place: a row was deleted and another changed, of which no message tells."""
    table = Table(
        lake_config,
        spark,
        f"again_{len(settings)}",
        [Said("c", row, 10 * row, 100 * row) for row in (1, 2, 3)],
        # One that shows all rows says nothing of what a later one does not show.
        [
            Said("r", row, 10 * row, 350, seconds=100, snapshot=at)
            for row, at in ((1, "first"), (2, "true"), (3, "last"))
        ],
        [
            Said("r", 1, 11, 500, seconds=120, snapshot="first"),
            Said("r", 3, 30, 500, seconds=120, snapshot="last"),
            Said("u", 1, 12, 600, seconds=150),
            Said("u", 3, 31, 700, seconds=160),
        ],
        **settings,
    )
    sweeps = "snapshot_sweep" in settings

    found = table.when(90)
    assert (found.position, _rows(found)) == (position(300), {1: 10, 2: 20, 3: 30})
    _notes(found, _READ_ANEW)
    found, kept = table.when(155), {} if sweeps else {2: 20}
    assert _rows(found) == {1: 12, 3: 30} | kept
    _notes(found, *(() if sweeps else ["1 row may have been deleted: a snapshot of the table that was read before"]))


def test_what_a_restored_database_has_lost_is_not_known(spark: "SparkSession", lake_config: Config) -> None:
    """Someone accepted that it went back: rows of what it forgot stay in the mirror, and no message tells which."""
    first = [Said("c", 1, 10, 500), Said("c", 2, 20, 600, seconds=60)]
    table = Table(lake_config, spark, "restored", first, position_regression_tolerance="30m")
    assert table.send(Said("c", 3, 30, 300, seconds=7200)) == EXIT_REWOUND
    adopt_table(table.config, table.mirror, Decision("a test", datetime.now(UTC)), spark)
    assert table.send(Said("u", 3, 31, 310, seconds=7300)) == 0

    before, after = table.when(100), table.when(7200)

    assert (_rows(before), _rows(after)) == ({1: 10, 2: 20}, {1: 10, 2: 20, 3: 30})
    _notes(before)
    _notes(after, "Source data that was lost or rewound before then was accepted")


@pytest.fixture(scope="module")
def doubtful(spark: "SparkSession", lake_config: Config) -> Table:
    """A table of which the log leaves much open: its head is gone, messages are held, and truncates do nothing."""
    messages: Sequence[Said] = [
        Said("c", 1, 10, 100),
        Said("c", 2, -1, 200, seconds=1),
        Said("garbage"),
        Said("tombstone", 1),
        Said("u", 3, 30, 300, seconds=2),
        Said("r", 4, 40, None, seconds=60, snapshot="incremental"),
        Said("t", None, None, 400, seconds=2.5),
        Said("u", 3, 31, 500, seconds=1.5),
        Said("c", 9, 90, 600, seconds=9),
    ]
    return Table(lake_config, spark, "doubtful", messages, judged=True, truncate="ignore", first_offset=2)


def test_what_the_log_leaves_open_is_said(doubtful: Table) -> None:
    """Each with its number: what is missing, held, in no order, and what the log speaks of too late."""
    found = doubtful.at(200)

    assert _rows(found) == {}
    _notes(
        found,
        "1 message without a position",
        "2 rows may have been there already",
        "no message at 2 offsets",
        "1 row may be of an earlier version",
        "1 message in quarantine could be of any row",
    )


def test_times_that_do_not_follow_the_log_are_told(doubtful: Table) -> None:
    """And a truncate that this table does not follow; values are masked."""
    found = doubtful.when(1.7)

    assert found.position == position(500)
    assert _rows(found) == {3: 31, 4: 40}
    assert "thing 3" not in found.to_json()
    told = " ".join(found.notes)
    assert "do not follow its log: 2 changes before it are later" in told
    assert "this table keeps its rows" in told


def test_a_partition_that_is_behind_makes_it_less_than_certain(spark: "SparkSession", lake_config: Config) -> None:
    """Until it has shown something from after that position."""
    first = [Said("c", 1, 10, 100), Said("c", 2, 20, 150, seconds=1, partition=1), Said("u", 1, 11, 200, seconds=2)]
    table = Table(lake_config, spark, "behind", first)

    found = table.at(150)

    assert _rows(found) == {1: 10, 2: 20}
    _notes(found, "Partition 1 has shown nothing from after it")
