"""The commit protocol as a world of its own: a topic, the real lake over a catalog in memory, and processes that fail.

Planning, markers, identities, accounting and the lake are the product's own. What is left out is Spark: a message is
its key and value, the fold takes the highest position of each key, and what the contract would hold is `bad`. After
every commit that readers can see, whoever made it, the invariants are looked at.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from cdc_materializer import progress
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.config import TableConfig
from cdc_materializer.errors import CommitUnknown, LakeUnavailable, SourceRewound, SourceUnavailable
from cdc_materializer.invariants import broken_in
from cdc_materializer.lake.commit import newest_marker
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line import quarantine, tally
from cdc_materializer.line.checks import check_pair
from cdc_materializer.line.line import Tables, marker_of
from cdc_materializer.marker.lost import skip_lost
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import table_path
from cdc_materializer.offsets import Offsets, Span, batch_id, plan_span
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.source import TopicState
from cdc_materializer.testing import (
    FAULTS,
    Fault,
    FaultPlan,
    Killed,
    MemoryCatalog,
    MemoryRows,
    Metadata,
    delete_statement,
    memory_lake,
)

TOPIC = "shop.public.things"
TABLE = TableConfig.model_validate({"topic": TOPIC, "mirror": "shop.things"})
MIRROR, RAW, QUARANTINE, HISTORY = TABLE.mirror, TABLE.mirror.raw, TABLE.mirror.quarantine, TABLE.mirror.history
PATHS = {name: table_path("lake", name) for name in (RAW, MIRROR, QUARANTINE, HISTORY)}
KEYED = TableSchema((Column("key", "string"),), ("key",))
PLAIN = TableSchema((Column("key", "string"),))
PARTITIONS = 2
PARTITIONS_MAX = 4
#: Behind these a process does not know what has become of its commit, and asks.
UNCERTAIN = frozenset({"lost", "unanswered", "contradicted", "late"})
#: How Iceberg's clients tell that nobody has answered a commit.
NO_ANSWERS = (
    ("CommitStateUnknownException", "ServiceFailureException"),
    ("RESTException", "SocketTimeoutException"),
    ("RESTException", "NoHttpResponseException"),
    ("RESTException", "SomeIOException"),
    ("UncheckedSQLException", "SQLNonTransientConnectionException"),
    ("UncheckedSQLException", "PSQLException", "SocketException"),
    ("RuntimeException", "TTransportException", "SocketTimeoutException"),
)
#: A row of raw: its place, then the message: number, key, value (None for a delete), position, whether it is held.
Landed = tuple[tuple[int, int], int, int, str | None, int, bool]
#: The rows of a table as readers see them, and how far its marker says that it was filled.
Seen = tuple[tuple[Any, ...], Offsets]


@dataclass(frozen=True)
class Sent:
    """A message of the topic."""

    number: int
    key: int
    value: str | None
    position: int
    bad: bool = False


def fold(rows: Iterable[Landed], end: Offsets) -> dict[int, tuple[str, int]]:
    """What a mirror shows that was folded from raw's messages before some offsets: value and position by key."""
    known: dict[int, tuple[str | None, int]] = {}
    for (partition, offset), _, key, value, position, bad in sorted(rows):
        if offset < end.get(partition, 0) and not bad and position > known.get(key, (None, 0))[1]:
            known[key] = value, position
    return {key: (value, position) for key, (value, position) in known.items() if value is not None}


@dataclass
class World:
    """A topic and its tables; every step is safe at any time."""

    chance: random.Random
    catalog: MemoryCatalog = field(default_factory=MemoryCatalog)
    topic_id: int = 1
    records_max: int = 4
    #: The topic's messages by partition; removed ones are None.
    log: dict[int, list[Sent | None]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    sent: list[Sent] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    #: What was gone unread when raw was made, or when someone accepted it.
    accepted: set[int] = field(default_factory=set)
    reached: dict[str, Offsets] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    processes: int = 0
    #: The identity of each table, and the snapshot that readers saw last.
    identities: dict[str, str] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at every commit."""
        self.catalog.happened = self._look
        self.pause: Callable[[str], object] = _no_fault

    def _look(self, path: str) -> None:
        if path == PATHS[RAW] and not self.reached.get("raw"):
            self.accepted |= self.gone
        self.check(path)
        self.pause(path)

    # --- the source
    # ---------------------------------------------------------------------------------------------------

    def change(self, key: int, value: str | None, *, bad: bool = False) -> None:
        """A row of the database changes."""
        message = Sent(len(self.sent) + 1, key, value, len(self.sent) + 1, bad)
        self.sent.append(message)
        self.log[key % len(self.log)].append(message)

    def move(self, old: int, new: int) -> None:
        """A row's key changes: the connector sends a delete and an insert."""
        self.change(old, None)
        self.change(new, f"from {old}")

    def redeliver(self) -> None:
        """The connector sends something again, with all that came after it in the partition."""
        log = self.log[self.chance.randrange(len(self.log))]
        again = [message for message in log[-self.chance.randint(1, 4) :] if message is not None]
        for message in again:
            copy = replace(message, number=len(self.sent) + 1)
            self.sent.append(copy)
            log.append(copy)

    def retain(self, partition: int | None = None) -> None:
        """The broker removes what is old in a partition, read or not."""
        log = self.log[self.chance.randrange(len(self.log)) if partition is None else partition]
        for at in range(self.chance.randint(0, len(log))):
            message, log[at] = log[at], None
            self.gone |= {message.number} if message is not None else set()

    def make_again(self) -> None:
        """Someone deletes the topic and makes it anew."""
        self.gone |= {message.number for log in self.log.values() for message in log if message is not None}
        self.log = {partition: [] for partition in self.log}
        self.topic_id += 1

    def grow(self) -> None:
        """Someone gives the topic a partition more; rows go to others than before."""
        if len(self.log) < PARTITIONS_MAX:
            self.log[len(self.log)] = []

    def state(self) -> TopicState:
        """Where the topic begins and ends."""
        kept = {p: [at for at, one in enumerate(log) if one is not None] for p, log in self.log.items()}
        beginnings = {p: min(places, default=len(self.log[p])) for p, places in kept.items()}
        ends = {p: len(log) for p, log in self.log.items()}
        return TopicState(TOPIC, f"t{self.topic_id}", Offsets(beginnings), Offsets(ends))

    # --- processes
    # ----------------------------------------------------------------------------------------------------

    def lake(self) -> Lake:
        """The lake as another process has it."""
        self.processes += 1
        return memory_lake(self.catalog, f"app-{self.processes}")

    def run(self, batches: int = 99, *, unaware: bool = False) -> str:
        """A process that works until there is nothing to do or something stops it; how it ended.

        With `unaware` it leaves other processes' branches alone, as one does that had loaded the tables before. With no
        batch it gets no further than loading them.
        """
        lake = replace(self.lake(), read_only=unaware)
        before = {path: set(found.snapshots) for path, found in self.catalog.tables.items()}
        try:
            for name in PATHS if batches == 0 else ():
                lake.load(name)
            # Asked once, as a run does.
            topic = self.state()
            for _ in range(batches):
                if not advance(self, lake, topic):
                    break
        except Killed:
            return "killed"
        except SourceRewound as stop:
            self.check_rewound(stop, lake.load(RAW))
            return str(stop.code)
        except (LakeUnavailable, CommitUnknown, SourceUnavailable) as error:
            now = self.catalog.tables
            assert all(kept <= set(now[path].snapshots) for path, kept in before.items()), "a snapshot was deleted"
            self.met.add(type(error).__name__)
            return type(error).__name__
        return "done"

    def run_faulty(self, fault: Fault, at: int, *, silent: bool = False) -> str:
        """A process one of whose commits goes wrong; with `silent` the catalog says nothing afterwards."""
        silent = silent and fault in UNCERTAIN
        self.catalog.follow(FaultPlan({at: fault}, None, silent, self.chance.choice(NO_ANSWERS)))
        ended = self.run()
        self.catalog.follow(FaultPlan())
        self.met.add(fault)
        return ended

    def run_overtaken(self, at: int, batches: int, *, unaware: bool, after: bool) -> str:
        """A process that sleeps before one of its commits, or after it, while another one works."""

        def overtake() -> None:
            self.catalog.fault = self.pause = _no_fault
            # The topic has grown since the one that sleeps has asked for its ends.
            self.change(0, f"v{len(self.sent)}")
            self.met.add(f"overtaken, {self.run(batches, unaware=unaware)}")

        if after:
            self.pause = self._at(at, overtake)
        else:
            self.catalog.fault = self._at(at, overtake)
        ended = self.run()
        self.catalog.fault = self.pause = _no_fault
        return ended

    def run_on_another_topic(self, at: int) -> str:
        """A process under which the topic is made again at one of its commits, and soon longer than it was."""

        def make_again() -> None:
            self.catalog.fault = _no_fault
            lengths = {partition: len(log) for partition, log in self.log.items()}
            self.make_again()
            for partition, length in lengths.items():
                for _ in range(length + 2):
                    self.change(partition, f"v{len(self.sent)}")

        self.catalog.fault = self._at(at, make_again)
        ended = self.run()
        self.catalog.fault = _no_fault
        return ended

    def _at(self, at: int, then: Callable[[], None]) -> Callable[[str], None]:
        left = [at]

        def pause(_path: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                then()

        return pause

    def adopt(self) -> None:
        """Someone accepts what the source has lost."""
        lake = self.lake()
        raw, topic = lake.load(RAW), self.state()
        if raw is None:
            return
        marker = marker_of(raw)
        after = skip_lost(marker, topic.topic_id, topic.beginnings, topic.ends)
        if after != marker:
            lake.publish(raw, after, lambda _: None)
            self.accepted |= self.gone

    # --- what has to hold
    # ---------------------------------------------------------------------------------------------

    def check(self, path: str = "") -> None:
        """The invariants, as readers of the tables can see them.

        Raises:
            AssertionError: one is broken.
        """
        self.check_lines()
        raw, mirror, held, history = (self._seen(name) for name in (RAW, MIRROR, QUARANTINE, HISTORY))
        self.check_offsets({"raw": raw, "mirror": mirror, "quarantine": held, "history": history}, path)
        if raw is None:
            return
        places, numbers = [row[0] for row in raw[0]], [row[1] for row in raw[0]]
        assert len(set(places)) == len(places), "a place is twice in raw"
        assert len(set(numbers)) == len(numbers), "a message is twice in raw"
        assert all(offset < raw[1].get(p, 0) for p, offset in places), "raw has messages that its marker has not"
        if mirror is None:
            return
        assert all(at <= raw[1].get(p, 0) for p, at in mirror[1].items()), "the mirror is ahead of raw"
        assert not (wrong := self._unaccounted()), wrong
        keys = [row[0] for row in mirror[0]]
        assert len(set(keys)) == len(keys), "a key has two rows"
        assert {row[0]: row[1:] for row in mirror[0]} == fold(raw[0], mirror[1]), "the mirror is not the fold of raw"
        bad = {row[0] for row in raw[0] if row[5] and row[0][1] < mirror[1].get(row[0][0], 0)}
        assert held is not None or not bad, "what is held is not in quarantine"
        found = [row[0] for row in held[0]] if held is not None else []
        assert len(set(found)) == len(found), "a message is twice in quarantine"
        assert bad <= set(found), "what is held is not in quarantine"
        kept = [row[0] for row in history[0]] if history is not None else []
        assert len(set(kept)) == len(kept), "a place is twice in history"
        applied = {row[0] for row in taken(raw[0], _until(mirror[1])) if not row[5]}
        assert applied <= set(kept), "what was applied is not in history"

    def check_offsets(self, tables: Mapping[str, Seen | None], path: str) -> None:
        """No table has forgotten how far it was.

        Raises:
            AssertionError: one has.
        """
        for name, seen in tables.items():
            if seen is not None:
                before = self.reached.get(name, Offsets())
                assert all(seen[1].get(p, -1) >= at for p, at in before.items()), f"{name} went back: {path}"
                self.reached[name] = seen[1]

    def _unaccounted(self) -> list[str]:
        """What `cdcm doctor` says of the mirror's newest snapshot."""
        head = next(self.catalog.tables[PATHS[MIRROR]].line())
        return list(broken_in(str(MIRROR), [SnapshotLine(head.number, head.parent, 0, head.told)], is_raw=False))

    def check_rewound(self, stop: SourceRewound, raw: LakeTable | None) -> None:
        """A topic is said to be another one where it is.

        Raises:
            AssertionError: it has only grown, and another process has landed that.
        """
        is_same = raw is not None and marker_of(raw).topic_id == f"t{self.topic_id}"
        assert stop.code != "OFFSET_REGRESSION" or not is_same, "a topic that only grew was taken for another"

    def check_lines(self) -> None:
        """No table is another one than it was, and what readers see stands on what they saw before.

        Raises:
            AssertionError: it does not.
        """
        for path, now in self.catalog.tables.items():
            assert self.identities.setdefault(path, now.uuid) == now.uuid, f"another table has its place: {path}"
            head = now.refs.get("main")
            before = self.heads.get(path, head)
            assert before is None or before in {one.number for one in now.line()}, f"readers' line was left: {path}"
            if head is not None:
                self.heads[path] = head

    def _seen(self, name: Any) -> Seen | None:  # noqa: ANN401 - a TableName
        metadata: Metadata | None = self.catalog.tables.get(PATHS[name])
        head = next(metadata.line(), None) if metadata is not None else None
        if head is None:
            return None
        if "cdcm.offsets" in head.told:
            return head.rows, Offsets.from_json(head.told["cdcm.offsets"])
        silent, self.catalog.is_silent = self.catalog.is_silent, False
        marker = newest_marker(self.lake().iceberg(name), head)
        self.catalog.is_silent = silent
        assert marker is not None, f"nothing says how far {name} is"
        return head.rows, marker.offsets

    def finish(self) -> None:
        """Let everything come to rest: then nothing that the broker still had is missing."""
        self.catalog.deliver()
        for _ in range(4):
            ended = self.run()
            if ended in {"OFFSET_GAP", "OFFSET_REGRESSION"}:
                self.adopt()
        assert self.run() == "done"
        self.check()
        raw, mirror = self._seen(RAW), self._seen(MIRROR)
        landed = {row[1] for row in raw[0]} if raw is not None else set()
        missing = {message.number for message in self.sent} - landed - self.gone
        assert not missing, f"messages were lost: {missing}"
        untold = self.gone - landed - self.accepted
        assert raw is None or not untold, f"messages left unread, and nobody said so: {untold}"
        if raw is not None and landed:
            assert mirror is not None
            assert mirror[1] == raw[1], "the mirror did not come to raw's end"
        for path, metadata in self.catalog.tables.items():
            assert not [ref for ref in metadata.refs if ref.startswith("cdcm_")], f"a branch is left: {path}"


def _no_fault(_path: str) -> None:
    return None


def advance(world: World, lake: Lake, topic: TopicState) -> bool:
    """One batch, in the steps of `pipeline.advance`; whether there was anything to do."""
    mirror = lake.load(MIRROR)
    tables = Tables(lake.load(RAW), mirror, lake.load(QUARANTINE), lake.load(HISTORY))
    check_pair(tables)
    table = TABLE.model_copy(update={"records_max": world.records_max})
    known = marker_of(tables.raw) if tables.raw is not None else None
    source: Any = SimpleNamespace(state=lambda _: world.state())
    span = progress.plan_up_to(source, table, topic, known)
    raw = _land(world, lake, tables.raw, span, topic)
    landed, mirror = marker_of(raw), tables.mirror
    if mirror is None:
        start = Offsets(dict.fromkeys(landed.offsets, 0))
        mirror = lake.create(MIRROR, KEYED, _marker(raw, start, landed.topic_id), {})
    reached = marker_of(mirror).offsets
    whole = Offsets({partition: reached.get(partition, 0) for partition in landed.offsets})
    batch = plan_span(TOPIC, whole, whole, landed.offsets, world.records_max)
    if batch.is_empty:
        return not span.is_empty
    _publish(lake, raw, replace(tables, mirror=mirror), batch)
    return True


def _marker(raw: LakeTable | None, offsets: Offsets, topic_id: str | None, batch: str = "") -> Marker:
    identity = raw.uuid if raw is not None else None
    return Marker("model", batch, TOPIC, topic_id, offsets, {}, None, None, {}, raw_table=identity)


def _land(world: World, lake: Lake, raw: LakeTable | None, span: Span, topic: TopicState) -> LakeTable:
    if raw is None:
        raw = lake.create(RAW, PLAIN, _marker(None, span.start, topic.topic_id), {})
    if span.is_empty:
        return raw
    before = marker_of(raw)
    after = replace(before, batch=batch_id("model", raw.uuid, span), topic_id=topic.topic_id)
    after = replace(after, offsets=Offsets({**before.offsets, **span.end}))
    if any(end - before.bases.get(partition, 0) > len(world.log[partition]) for partition, _, end in span.ranges()):
        what = "The topic ends before."
        raise SourceUnavailable(what, "Run again.")
    rows = [
        ((partition, offset), one.number, one.key, one.value, one.position, one.bad)
        for partition, start, end in span.ranges()
        for offset in range(start, end)
        if (one := world.log[partition][offset - before.bases.get(partition, 0)]) is not None
    ]
    source: Any = SimpleNamespace(state=lambda _: world.state())

    def append(stage: Stage) -> None:
        stage.append(_frame(lake, rows))
        progress.check_unchanged(source, TABLE, topic, span)

    lake.publish(raw, after, append)
    return _again(lake, raw)


def _until(end: Offsets) -> Span:
    return Span(TOPIC, Offsets(dict.fromkeys(end, 0)), end)


def taken(rows: Iterable[Landed], batch: Span) -> list[Landed]:
    """The messages of a batch."""
    return [row for row in rows if batch.start.get(row[0][0], 0) <= row[0][1] < batch.end.get(row[0][0], 0)]


def stored(rows: Iterable[Landed], span: Span) -> int:
    """How many messages raw has in a span, counted on their own."""
    return sum(start <= row[0][1] < end for row in rows for p, start, end in span.ranges() if row[0][0] == p)


def _publish(lake: Lake, raw: LakeTable, tables: Tables, batch: Span) -> None:
    mirror = tables.mirror
    assert mirror is not None
    known: Any = lake.rows(raw)
    end = batch.end
    own = taken(known, batch)
    bad = [row for row in own if row[5]]
    counts = {"upserted": len(own) - len(bad), "quarantined": len(bad)}
    decided: Any = SimpleNamespace(span=batch, counts=counts, again=0)
    line: Any = SimpleNamespace(lake=lake)
    read = tally.check(line, raw, marker_of(mirror).offsets, decided, lambda _, span: stored(known, span))
    marker = _marker(raw, end, marker_of(raw).topic_id, batch_id("model", mirror.uuid, batch))
    marker = replace(marker, counts={**counts, "read": read})
    if bad:
        held = tables.quarantine or lake.create(QUARANTINE, PLAIN, _marker(None, Offsets(), None), {})
        there: Any = lake.rows(held)
        found = [(row[0],) for row in bad if row[0] not in {one[0] for one in there}]
        lake.publish(held, quarantine.after(held, marker), lambda stage: stage.append(_frame(lake, found)))
    final = fold(known, end)
    keys = {row[2] for row in own if not row[5]}
    rows = [(key, *final[key]) for key in sorted(keys) if key in final]

    def stage_rows(stage: Stage) -> None:
        if not keys:
            return
        if not mirror.is_empty:
            stage.execute(delete_statement(lake, MIRROR, stage.branch, sorted(keys)), rows_max=len(keys))
        stage.append(_frame(lake, rows), len(rows))

    applied = [(row[0],) for row in own if not row[5]]
    reached = marker_of(mirror).offsets
    lake.publish(mirror, marker, stage_rows, lambda: _keep(lake, tables.history, marker, reached, applied))


def _keep(
    lake: Lake, history: LakeTable | None, marker: Marker, reached: Offsets, found: list[tuple[Any, ...]]
) -> None:
    """The batch's applied changes, in the way of `history.keep`."""
    if not found:
        return
    if history is None:
        history = lake.create(HISTORY, PLAIN, replace(marker, batch="", offsets=reached), {})
    if quarantine.is_ahead(history, reached):
        there: Any = lake.rows(history)
        found = [row for row in found if row[0] not in {one[0] for one in there}]
    lake.publish(history, quarantine.after(history, marker), lambda stage: stage.append(_frame(lake, found)))


def _again(lake: Lake, table: LakeTable) -> LakeTable:
    found = lake.load(table.name)
    if found is None:
        raise LakeUnavailable("It is gone.", "Run again.")
    return found


def _frame(lake: Lake, rows: Iterable[tuple[Any, ...]]) -> Any:  # noqa: ANN401 - stands for a DataFrame
    return MemoryRows(lake, tuple(rows))


# --- schedules
# --------------------------------------------------------------------------------------------------------


def step(world: World) -> None:
    """Let something happen."""
    chance = world.chance
    kind = chance.choices(list(_STEPS), weights=[weight for weight, _ in _STEPS.values()])[0]
    world.met.add(kind)
    _STEPS[kind][1](world)


def _change(world: World) -> None:
    # Now and then nothing but what is held: a batch that publishes no row.
    worst = world.chance.random() < 0.2
    for _ in range(world.chance.randint(1, 4)):
        key, kind = world.chance.randrange(5), world.chance.random()
        if kind < 0.15:
            world.move(key, world.chance.randrange(5, 8))
        else:
            world.change(key, None if kind < 0.35 else f"v{len(world.sent)}", bad=worst or kind > 0.85)


def _maintain(world: World) -> None:
    path = world.chance.choice(list(PATHS.values()))
    metadata = world.catalog.tables.get(path)
    if metadata is None or not metadata.refs.get("main"):
        return
    for _ in range(world.chance.randint(1, 2)):
        world.catalog.compact(path)
    world.check_lines()
    if world.chance.random() < 0.7:
        world.catalog.expire(path, tidy=world.chance.random() < 0.5)


def _run(world: World) -> None:
    if world.run(world.chance.randint(1, 3)) in {"OFFSET_GAP", "OFFSET_REGRESSION"}:
        world.adopt()


def _fail(world: World) -> None:
    chance = world.chance
    world.run_faulty(chance.choice(FAULTS), chance.randint(1, 14), silent=chance.random() < 0.3)


def _overtake(world: World) -> None:
    chance = world.chance
    unaware, after = chance.random() < 0.5, chance.random() < 0.7
    world.run_overtaken(chance.randint(1, 14), chance.randint(0, 3), unaware=unaware, after=after)


def _make_again(world: World) -> None:
    if world.chance.random() < 0.5:
        world.make_again()
        return
    world.met.add("made again meanwhile")
    if world.run_on_another_topic(world.chance.randint(1, 14)) == "OFFSET_REGRESSION":
        world.adopt()


def _grow(world: World) -> None:
    world.grow()
    newest = len(world.log) - 1
    for _ in range(world.chance.randint(0, 3)):
        world.change(newest, f"v{len(world.sent)}")
    if world.chance.random() < 0.4:
        world.retain(newest)


def _resize(world: World) -> None:
    world.records_max = world.chance.randint(1, 7)


_STEPS: dict[str, tuple[int, Callable[[World], None]]] = {
    "change": (8, _change),
    "redeliver": (2, World.redeliver),
    "run": (4, _run),
    "fail": (7, _fail),
    "overtake": (4, _overtake),
    "deliver": (2, lambda world: world.catalog.deliver()),
    "maintain": (3, _maintain),
    "retain": (1, World.retain),
    "make again": (1, _make_again),
    "grow": (1, _grow),
    "resize": (1, _resize),
}


def schedule(seed: int, steps: int = 14) -> World:
    """A world after so many random steps, come to rest.

    Raises:
        AssertionError: an invariant is broken.
    """
    world = World(random.Random(seed))  # noqa: S311 - repeatable, not secret
    for _ in range(steps):
        step(world)
    world.finish()
    return world
