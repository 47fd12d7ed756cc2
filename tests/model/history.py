"""Random histories of one database table, as Debezium's PostgreSQL connector reads them; how it sends them: `topics`.

A model, not a simulation: transactions run side by side on rows that they lock, commit in another order than they
began, change keys, leave long texts untouched, truncate. The connector takes a snapshot first; it reads chunks of an
incremental snapshot while changes go on, or the whole table while its stream waits; it loses its place in the log and
takes a new snapshot, sometimes in two attempts. After every event the model knows which rows the table must show
(changelog-semantics §1.5, §2.2); also where a complete snapshot ends the rows that it does not show.

Where histories change columns, the table has a second long text, `memo`, that is dropped now and then and later added
anew. Messages of a time without it do not have it at all, so the mirror keeps what the row has shown (§0 rule 12).
Added anew it is NULL in every row of the database, of which no message tells (§0.1).
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.messages import replace

UNAVAILABLE = "__debezium_unavailable_value"
#: Keys of different lives in one table are so far apart.
KEYS = 1_000_000
#: Keys that differ by this go to one partition, of two as of three.
LANES = 6

#: The columns besides the key; and the texts that a change may leave untouched.
COLUMNS = ("note", "qty")
CHANGING = (*COLUMNS, "memo")
TEXTS = ("note", "memo")
#: Columns change once in so many commits of a life, or of eight lives together.
ALTERED = 4

Row = dict[str, Any]
Rows = dict[int, Row]


@dataclass(frozen=True)
class Event:
    """One event of the connector.

    Attributes:
        op: `c`, `u`, `d`, `r`, `t`, or `tombstone`.
        key: the row's key; None for a truncate.
        after: the image on the wire.
        shown: the row that the table must show after the event; None where it must show none.
        lsn: of the change; None in an incremental snapshot.
        commit: LSN of the last commit before; None in a snapshot of the whole table.
        ts_ms: when the source says it happened.
        snapshot: as in `source.snapshot`.
        read_at: of an incremental snapshot, how far the stream was; `source.sequence` has it in place of the lsn.
        kept: of a truncate, the keys whose rows it leaves alone, because a snapshot has shown them from after it.
        era: how often the connector had lost its place in the log.
        settled: whether the table is as some transaction left it; not so while the stream is behind a snapshot.
        columns: of the database's table when it happened, besides the key.
        swept: of a complete snapshot's last record, the keys whose rows it ends, where snapshots do.
    """

    op: str
    key: int | None
    after: Row | None
    shown: Row | None
    lsn: int | None
    commit: int | None
    ts_ms: int
    snapshot: str = "false"
    read_at: int | None = None
    kept: frozenset[int] = frozenset()
    era: int = 0
    settled: bool = True
    columns: tuple[str, ...] = COLUMNS
    swept: frozenset[int] = frozenset()

    @property
    def position(self) -> tuple[int, int]:
        """The pair by which the log orders its changes: the last commit before, then the change."""
        lsn = self.lsn if self.lsn is not None else self.read_at
        assert lsn is not None
        return (lsn if self.commit is None else self.commit), lsn

    @property
    def life(self) -> int:
        """The life that the event belongs to, where several share a table."""
        return 0 if self.key is None else self.key // KEYS


@dataclass
class _Transaction:
    """Changes that nobody sees before their commit, and what they have made of the rows that they locked."""

    rows: dict[int, Row | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


@dataclass
class Database:
    """What all lives of one table share: the server's log and clock, and the columns.

    Attributes:
        chance: of what happens in all of them.
        lsn: the log's end; numbers get longer in most lives, so that text would be in another order.
        commit: LSN of the last commit that the connector has seen; none before its first.
        clock: in milliseconds.
        columns: that the table has now, besides the key.
        alterations: how often they have changed.
        every: how many commits there are between two alterations, on average; 0 for none.
    """

    chance: random.Random
    lsn: int = 9_000
    commit: int | None = None
    clock: int = 1_760_000_000_000
    columns: tuple[str, ...] = COLUMNS
    alterations: int = 0
    every: int = 0

    def tick(self) -> int:
        """Write to the log; transactions often share a moment."""
        self.lsn += self.chance.randrange(1, 90)
        self.clock += self.chance.choice((0, 0, 1, 1_000))
        return self.lsn

    def alter(self) -> None:
        """Now and then, between transactions, drop the column that changes, or add it anew."""
        if self.every and self.chance.random() < 1 / self.every:
            self.columns = COLUMNS if self.columns == CHANGING else CHANGING
            self.alterations += 1


class History:
    """The events of one table's life, in the order in which the connector first sends them."""

    def __init__(
        self,
        seed: int,
        changes: int,
        *,
        shared: Database | None = None,
        life: int = 0,
        columns_change: bool = False,
        restored: bool = False,
        crosses: bool = False,
        returns: bool = False,
        lasting: bool = False,
        sweeps: bool = False,
    ) -> None:
        """Live through about so many changes.

        Args:
            seed: of everything that happens.
            changes: how many events there are at least.
            shared: where several lives share one table, the database that it is in; nobody truncates it then.
            life: which keys of a shared table are this one's.
            columns_change: whether the table has a column that is dropped and added now and then; of a shared one
                its database says so.
            restored: whether the database is restored in the end, and read again from lower positions.
            crosses: whether keys of a shared table change to such as go to another partition.
            returns: whether keys change to such as were there before, too.
            lasting: whether transactions stay open while other things happen, snapshots too; columns do not change
                then. The connector always sees another commit between a snapshot and a change that was open then. If it
                saw none, the change's position would be below the reading's, and a copy of both would end with the
                reading: that once more is news, and the change is not.
            sweeps: whether a complete snapshot ends the rows that it does not show.
        """
        self._is_restored, self._returns, self._sweeps = restored, returns, sweeps
        self._stays = shared is not None and not crosses
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._database = shared or database(self._random, columns_change=columns_change)
        self._columns, self._alterations = self._database.columns, 0
        # Where columns change, more rows live on under other keys.
        self._deleting = 0.85 if self._columns == COLUMNS else 0.75
        self._changes, self._is_shared = changes, shared is not None
        self._next_key = life * KEYS + 1
        self._rows: Rows = {}
        self._shown: Rows = {}
        self._ended: dict[int, Row] = {}
        self._written: dict[int, tuple[int, int]] = {}
        self._era = 0
        self._began = False
        self._lasting = lasting
        self._running: list[_Transaction] = []
        self._behind: list[Event] | None = None
        self._ahead: set[int] = set()
        self.events: list[Event] = []

    def live(self) -> list[Event]:
        """Run the whole life and return its events."""
        while self.step():
            pass
        if self._is_restored:
            self._restore()
        return self.events

    def go_on(self, count: int) -> None:
        """Insert so many rows, each in a transaction of its own, so that all partitions get behind what was read."""
        for _ in range(count):
            own = _Transaction()
            self._insert(own, self._new_key())
            self._emit([replace(event, commit=self._database.commit) for event in own.events])
            self._rows |= {key: row for key, row in own.rows.items() if row is not None}
            self._database.commit = self._database.tick()

    @property
    def ghosts(self) -> Rows:
        """Rows that the table shows and the database has no more: nobody told of their end (§1.5)."""
        return {key: row for key, row in self._shown.items() if key not in self._rows}

    @property
    def missing(self) -> Rows:
        """Rows of the database that the table does not show as they are; none, when the connector has caught up.

        A column that was added is NULL in the database and not in its rows here, until a change sets it: no message
        tells of that.
        """
        return {key: row for key, row in self._rows.items() if row.items() - self._shown.get(key, {}).items()}

    def step(self) -> bool:
        """Let something happen; False where the life is over."""
        self._follow_columns()
        if not self._began:
            self._began = True
            for _ in range(self._random.randrange(8)):
                self._rows[self._new_key()] = self._new_row()
            self._snapshot()
            return True
        chosen = self._random.random()
        if chosen < 0.05 and not self._is_shared and self._may_truncate():
            self._emit(self._truncate())
        elif chosen < 0.14 and self._rows:
            self._incremental_chunk()
        elif chosen < 0.18:
            self._blocking_snapshot()
        elif chosen < 0.20:
            self._lose_place()
        else:
            self._emit(self._commit_some())
        return len(self.events) < self._changes

    # --- columns
    # ------------------------------------------------------------------------------------------------------------

    def _follow_columns(self) -> None:
        """A column that was dropped since has left nothing behind, also where it has been added anew."""
        if self._alterations != self._database.alterations:
            self._alterations = self._database.alterations
            self._rows = {key: {name: row[name] for name in COLUMNS} for key, row in self._rows.items()}

    def _whole(self, row: Row) -> Row:
        """A row with all columns that the database has now."""
        return {name: row.get(name) for name in self._database.columns}

    # --- transactions
    # -------------------------------------------------------------------------------------------------------

    def _may_truncate(self) -> bool:
        """A truncate waits for whoever has changed the table."""
        return not any(transaction.events for transaction in self._running)

    def _commit_some(self, *, may_alter: bool = True) -> list[Event]:
        if may_alter:
            self._database.alter()
        self._follow_columns()
        running = self._running + [_Transaction() for _ in range(self._random.randint(1, 3) - len(self._running))]
        for _ in range(self._random.randint(1, 6)):
            self._change(self._random.choice(running), running)
        self._random.shuffle(running)
        self._running = [one for one in running if self._lasting and self._random.random() < 0.5]
        events = []
        for transaction in running:
            if transaction.events and not any(transaction is one for one in self._running):
                events += [replace(event, commit=self._database.commit) for event in transaction.events]
                self._database.commit = self._database.tick()
                for key, row in transaction.rows.items():
                    self._rows.pop(key, None)
                    self._rows |= {} if row is None else {key: row}
        return events

    def _change(self, own: _Transaction, running: list[_Transaction]) -> None:
        locked = {key for other in running if other is not own for key in other.rows}
        seen = {**self._rows, **own.rows}
        alive = sorted(key for key, row in seen.items() if row is not None and key not in locked)
        gone = sorted(key for key, row in seen.items() if row is None and key not in locked and self._reuses_keys())
        choice = self._random.random()
        if not alive or choice < 0.3:
            # Also a key that this transaction has deleted: delete and insert of one key share a commit time.
            self._insert(own, self._random.choice(gone) if gone and choice < 0.15 else self._new_key())
            return
        key = self._random.choice(alive)
        row = seen[key]
        assert row is not None
        if choice < 0.7:
            self._update(own, key, row)
        elif choice < self._deleting:
            self._delete(own, key)
        else:
            self._move(own, key, row, self._former_key(own, locked, alive))

    def _reuses_keys(self) -> bool:
        """Whether a row may have the key of one that is gone: not behind a snapshot where columns change.

        A column that is dropped keeps its value until the row's end, and neither a snapshot nor an insert tells of it.
        Where that end is behind a snapshot and comes again in a partition that was added, its place is before the
        snapshot's, or it is no news any more: the value stays or goes as the partitions are read.
        """
        return self._behind is None or self._columns == COLUMNS

    def _insert(self, own: _Transaction, key: int) -> None:
        row = self._new_row()
        own.rows[key] = row
        own.events.append(self._event("c", key, row, self._database.tick()))

    def _update(self, own: _Transaction, key: int, row: Row) -> None:
        changed = {**self._whole(row), "qty": self._random.randrange(1_000)}
        for text in TEXTS:
            if text in changed and self._random.random() < 0.3:
                changed[text] = self._new_row()[text]
        own.rows[key] = changed
        own.events.append(self._event("u", key, self._image(changed, row), self._database.tick()))

    def _delete(self, own: _Transaction, key: int) -> None:
        own.rows[key] = None
        lsn = self._database.tick()
        own.events += [self._event("d", key, None, lsn), self._event("tombstone", key, None, lsn)]

    def _former_key(self, own: _Transaction, locked: set[int], alive: Collection[int]) -> int | None:
        """A key that no row has, and that one had: of this life's, and where nobody else writes.

        While a snapshot is read, none that had one in the meantime: the stream ends what was read of the key, as if
        that were the row from before, and then nothing has the value that an insert at the key leaves out. Nor one that
        the transaction itself has freed, if it may be committed behind a snapshot.
        """
        former = {event.key for event in self.events if event.key is not None and event.key not in {*locked, *alive}}
        if self._behind is not None or self._lasting:
            former -= {event.key for event in (*(self._behind or ()), *own.events)}
        if not (self._returns and self._reuses_keys() and former and self._random.random() < 0.5):
            return None
        return self._random.choice(sorted(former))

    def _move(self, own: _Transaction, key: int, row: Row, former: int | None = None) -> None:
        """Change the primary key; the new row's note stays untouched, so only the old key's row knows it."""
        new, lsn = former or self._new_key(), self._database.tick()
        while self._stays and (new - key) % LANES:
            new = self._new_key()
        changed = {**self._whole(row), "qty": self._random.randrange(1_000)}
        if "memo" in changed and self._random.random() < 0.3:
            changed["memo"] = self._new_row()["memo"]
        own.rows |= {key: None, new: changed}
        own.events += [
            self._event("d", key, None, lsn),
            self._event("tombstone", key, None, lsn),
            self._event("c", new, self._image(changed, row), lsn),
        ]

    def _image(self, row: Row, before: Row) -> Row:
        """What the log shows: a long text that was not touched is not in it."""
        untouched = {name for name in TEXTS if row.get(name) == before.get(name) and len(row.get(name) or "") > 20}
        return {**row, **dict.fromkeys(untouched, UNAVAILABLE)}

    def _truncate(self) -> list[Event]:
        event = replace(self._event("t", None, None, self._database.tick()), commit=self._database.commit)
        self._database.commit = self._database.tick()
        self._rows = {}
        return [event]

    # --- snapshots
    # ----------------------------------------------------------------------------------------------------------

    def _snapshot(self) -> None:
        lsn = self._database.tick()
        self._emit(
            [self._snapshot_of(key, mark, lsn) for key, mark in zip(self._rows, _marks(len(self._rows)), strict=True)]
        )
        # Of one row the marks tell no beginning, and of none there is no record.
        if self._sweeps and len(self._rows) > 1:
            swept = frozenset(self._shown.keys() - self._rows.keys())
            self._shown = {key: row for key, row in self._shown.items() if key in self._rows}
            self.events[-1] = replace(self.events[-1], swept=swept)
        self._database.commit = None

    def _incremental_chunk(self) -> None:
        """DBLog: of the rows read at the window's opening, those that change before it closes are not sent."""
        chunk = {key for key in self._rows if self._random.random() < 0.5}
        opened = len(self.events)
        for _ in range(self._random.randrange(3)):
            self._emit(self._commit_some())
        touched = {event.key for event in self.events[opened:]}
        # The connector's own clock: later than changes that the stream has yet to send.
        wall = self._database.clock + 600_000
        if self._lasting:
            # The row that closes the window: how far the stream is says nothing of changes that are not committed yet.
            self._database.tick()
        self._emit([self._snapshot_of(key, "incremental", None, ts_ms=wall) for key in sorted(chunk - touched)])
        if self._lasting:
            self._database.commit = self._database.tick()

    def _blocking_snapshot(self) -> None:
        """The stream waits while the table is read, and then goes on from where it was: behind the snapshot.

        Meanwhile columns change once at most. Of a column that is dropped and added anew, the reading is NULL and newer
        than a value that the stream tells behind it: which of them a row shows depends on what is sent again.
        """
        self._behind, known = [], self._database.alterations
        for _ in range(self._random.randint(1, 3)):
            if not self._is_shared and self._random.random() < 0.1 and self._may_truncate():
                self._behind += self._truncate()
            else:
                self._behind += self._commit_some(may_alter=self._database.alterations == known)
        behind, self._behind = self._behind, None
        first = len(self.events)
        self._snapshot()
        self._ahead = set(self._rows)
        self._emit(behind)
        self._ahead = set()
        # Of another table.
        self._database.commit = self._database.tick()
        self.events[first:-1] = [replace(event, settled=False) for event in self.events[first:-1]]

    def _lose_place(self) -> None:
        """A slot is lost: what happens then is never sent, and the next snapshot shows only rows that are there.

        Nor does a new slot begin before the transactions that are running have ended: they are rolled back.
        """
        self._era += 1
        self._running = []
        for _ in range(self._random.randint(1, 2)):
            for _ in range(self._random.randint(1, 3)):
                _ = self._truncate() if not self._is_shared and self._random.random() < 0.1 else self._commit_some()
                self._running = []
            self._snapshot()

    def _restore(self) -> None:
        """The database is as it was some time ago, its log begins at lower positions, and the connector reads it all.

        Of what is done then only inserts and truncates are told here. Other changes would be of an epoch of their own
        (`epochs`), of which the reference knows nothing.
        """
        # Later than what an incremental snapshot has said of the time.
        self._database.lsn, self._database.commit = 10, None
        self._database.clock += 900_000
        self._era += 1
        lost = {key for key in self._rows if self._random.random() < 0.3}
        rows = {key: row for key, row in self._rows.items() if key not in lost}
        self._rows = {key: self._new_row() if self._random.random() < 0.5 else row for key, row in rows.items()}
        self._rows |= {key: self._new_row() for key in range(2, self._next_key) if self._random.random() < 0.3}
        self._snapshot()
        for _ in range(self._random.randint(1, 6)):
            self.go_on(1)
            if self._random.random() < 0.3:
                self._database.clock += 1
                self._emit(self._truncate())

    def _snapshot_of(self, key: int, snapshot: str, lsn: int | None, ts_ms: int | None = None) -> Event:
        row, columns = self._whole(self._rows[key]), self._database.columns
        commit = self._database.commit if snapshot == "incremental" else None
        found = Event("r", key, row, row, lsn, commit, ts_ms or self._database.clock, snapshot, self._database.lsn)
        return replace(found, columns=columns)

    # --- what the table shows
    # -----------------------------------------------------------------------------------------------

    def _emit(self, events: list[Event]) -> None:
        """Send events, and follow what they tell: of what one leaves out the mirror knows only what it has shown."""
        for event in events:
            found = replace(event, era=self._era)
            if event.key is None:
                kept = frozenset(key for key, written in self._written.items() if written > event.position)
                found = replace(found, kept=kept)
                self._shown = {key: row for key, row in self._shown.items() if key in kept}
            elif event.after is None:
                # The row that a delete ends is also that of the key change which it may be half of.
                ended = self._shown.pop(event.key, None)
                if ended is not None and event.lsn is not None:
                    self._ended[event.lsn] = ended
            else:
                self._shown[event.key] = self._shown_after(event.key, event.after, event)
                found = replace(found, shown=self._shown[event.key])
                self._written[event.key] = event.position
            self._ahead.discard(event.key or 0)
            self.events.append(found)

    def _shown_after(self, key: int, image: Row, event: Event) -> Row:
        """The row that an image makes: absent columns stay, and a row that comes from another key begins with none.

        A text that was left untouched is the row's own, or the one that the old key's row had at its delete. It is the
        row's own, too, where a snapshot has read the row before the stream tells how it came to its key.
        """
        comes = event.op == "c" and UNAVAILABLE in image.values()
        own = self._shown.get(key, {})
        before = {} if comes else own
        left_out = self._ended.get(event.lsn or 0, {}) if comes and key not in self._ahead else own
        told = {name: left_out.get(name) if value == UNAVAILABLE else value for name, value in image.items()}
        return {**dict.fromkeys(self._columns), **before, **told}

    def _event(self, op: str, key: int | None, after: Row | None, lsn: int) -> Event:
        return Event(op, key, after, after, lsn, None, self._database.clock, columns=self._database.columns)

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _new_row(self) -> Row:
        note = self._random.choice((None, "", "short", f"long {self._random.random()} " + "x" * 20))
        row = {"note": note, "qty": self._random.choice((None, self._random.randrange(1_000)))}
        if "memo" in self._database.columns:
            long = f"long {self._random.random()} " + "y" * 20
            row["memo"] = self._random.choice((None, "short", long, long, long))
        return row


def _marks(count: int) -> list[str]:
    """What the connector writes into `source.snapshot` of so many rows of one table."""
    return ["first", *["true"] * (count - 2), "last"] if count > 1 else ["last"] * count


def database(chance: random.Random, sharing: int = 1, *, columns_change: bool = False) -> Database:
    """An empty database for so many lives."""
    every = ALTERED * max(1, sharing // 8) if columns_change else 0
    return Database(chance, columns=CHANGING if columns_change else COLUMNS, every=every)


def lives(seeds: Sequence[int], changes: int, *, columns_change: bool = False, crosses: bool = False) -> list[Event]:
    """Several lives in one table, none of which truncates it: disjoint keys, one log, their events mixed."""
    chance = random.Random(seeds[0])  # noqa: S311 - repeatable, not secret
    shared = database(chance, len(seeds), columns_change=columns_change)
    going = [History(seed, changes, shared=shared, life=seed, crosses=crosses) for seed in seeds]
    events: list[Event] = []
    while going:
        chosen = chance.choice(going)
        known = len(chosen.events)
        is_going = chosen.step()
        events += chosen.events[known:]
        if not is_going:
            going.remove(chosen)
    return events


def table_after(events: Sequence[Event], count: int) -> Rows:
    """The rows that the table must show when the first so many events have been sent."""
    rows: Rows = {}
    for event in events[:count]:
        if event.op == "t":
            rows = {key: row for key, row in rows.items() if key in event.kept}
        elif event.key is not None and event.shown is not None:
            rows[event.key] = event.shown
        elif event.key is not None:
            rows.pop(event.key, None)
        rows = {key: row for key, row in rows.items() if key not in event.swept}
    return rows
