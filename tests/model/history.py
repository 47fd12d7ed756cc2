"""Random histories of one database table, and the topic that Debezium's PostgreSQL connector makes of them.

A model, not a simulation: transactions run side by side on rows that they lock, commit in another order than they
began, change keys, leave long texts untouched, truncate; the connector takes a snapshot first, reads chunks of an
incremental snapshot while changes go on, and after a crash sends a suffix of what it had sent again. After every event
that is sent for the first time the model knows which rows the table must show (changelog-semantics §1.5, §2.2).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"

Row = dict[str, Any]
Rows = dict[int, Row]


@dataclass(frozen=True)
class Event:
    """One event of the connector.

    Attributes:
        op: `c`, `u`, `d`, `r`, `t`, or `tombstone`.
        key: the row's key; None for a truncate.
        after: the image on the wire.
        truth: the row as the database has it after the event; None where it has none.
        lsn: of the change; None in an incremental snapshot.
        commit: LSN of the last commit before; None in the first snapshot.
        ts_ms: when the source says it happened.
        snapshot: as in `source.snapshot`.
        read_at: of an incremental snapshot, how far the stream was; `source.sequence` has it in place of the lsn.
    """

    op: str
    key: int | None
    after: Row | None
    truth: Row | None
    lsn: int | None
    commit: int | None
    ts_ms: int
    snapshot: str = "false"
    read_at: int | None = None


@dataclass
class _Transaction:
    """Changes that nobody sees before their commit, and what they have made of the rows that they locked."""

    rows: dict[int, Row | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


class History:
    """The events of one table's life, in the order in which the connector first sends them."""

    def __init__(self, seed: int, changes: int, *, truncates: bool = True) -> None:
        """Live through about so many changes."""
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._changes, self._truncates = changes, truncates
        self._rows: Rows = {}
        self._lsn, self._commit, self._clock = 1_000, 900, 1_760_000_000_000
        self._next_key = 1
        self.events: list[Event] = []

    def live(self) -> list[Event]:
        """Run the whole life and return its events."""
        for _ in range(self._random.randrange(8)):
            self._rows[self._new_key()] = self._new_row()
        self.events += [self._snapshot_of(key, "true", self._tick()) for key in self._rows]
        while len(self.events) < self._changes:
            chosen = self._random.random()
            if chosen < 0.05 and self._truncates:
                self._truncate()
            elif chosen < 0.15 and self._rows:
                self._incremental_chunk()
            else:
                self._commit_some()
        return self.events

    # --- transactions
    # -------------------------------------------------------------------------------------------------------

    def _commit_some(self) -> None:
        running = [_Transaction() for _ in range(self._random.randint(1, 3))]
        for _ in range(self._random.randint(1, 6)):
            self._change(self._random.choice(running), running)
        self._random.shuffle(running)
        for transaction in running:
            if transaction.events:
                self.events += [replace(event, commit=self._commit) for event in transaction.events]
                self._commit = self._tick()
                for key, row in transaction.rows.items():
                    self._rows.pop(key, None)
                    self._rows |= {} if row is None else {key: row}

    def _change(self, own: _Transaction, running: list[_Transaction]) -> None:
        locked = {key for other in running if other is not own for key in other.rows}
        seen = {**self._rows, **own.rows}
        alive = sorted(key for key, row in seen.items() if row is not None and key not in locked)
        gone = sorted(key for key, row in seen.items() if row is None and key not in locked)
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
        elif choice < 0.85:
            self._delete(own, key)
        else:
            self._move(own, key, row)

    def _insert(self, own: _Transaction, key: int) -> None:
        row = self._new_row()
        own.rows[key] = row
        own.events.append(self._event("c", key, row, row, self._tick()))

    def _update(self, own: _Transaction, key: int, row: Row) -> None:
        changed = {**row, "qty": self._random.randrange(1_000)}
        if self._random.random() < 0.3:
            changed["note"] = self._new_row()["note"]
        own.rows[key] = changed
        own.events.append(self._event("u", key, self._image(changed, row), changed, self._tick()))

    def _delete(self, own: _Transaction, key: int) -> None:
        own.rows[key] = None
        lsn = self._tick()
        own.events += [self._event("d", key, None, None, lsn), self._event("tombstone", key, None, None, lsn)]

    def _move(self, own: _Transaction, key: int, row: Row) -> None:
        """Change the primary key; the new row's text stays untouched, so only the old key's row knows it."""
        new, lsn = self._new_key(), self._tick()
        changed = {**row, "qty": self._random.randrange(1_000)}
        own.rows |= {key: None, new: changed}
        own.events += [
            self._event("d", key, None, None, lsn),
            self._event("tombstone", key, None, None, lsn),
            self._event("c", new, self._image(changed, row), changed, lsn),
        ]

    def _image(self, row: Row, before: Row) -> Row:
        """What the log shows: a long text that was not touched is not in it."""
        is_untouched = row["note"] == before["note"] and row["note"] is not None and len(row["note"]) > 20
        return {**row, "note": UNAVAILABLE} if is_untouched else dict(row)

    # --- the rest
    # -----------------------------------------------------------------------------------------------------------

    def _truncate(self) -> None:
        self.events.append(replace(self._event("t", None, None, None, self._tick()), commit=self._commit))
        self._commit = self._tick()
        self._rows = {}

    def _incremental_chunk(self) -> None:
        """DBLog: of the rows read at the window's opening, those that change before it closes are not sent."""
        chunk = {key for key in self._rows if self._random.random() < 0.5}
        opened = len(self.events)
        for _ in range(self._random.randrange(3)):
            self._commit_some()
        touched = {event.key for event in self.events[opened:]}
        # The connector's own clock: later than changes that the stream has yet to send.
        wall = self._clock + 600_000
        for key in sorted(chunk - touched):
            self.events.append(self._snapshot_of(key, "incremental", None, ts_ms=wall))

    def _snapshot_of(self, key: int, snapshot: str, lsn: int | None, ts_ms: int | None = None) -> Event:
        row = dict(self._rows[key])
        commit = self._commit if snapshot == "incremental" else None
        return Event("r", key, row, row, lsn, commit, ts_ms or self._clock, snapshot, self._lsn)

    def _event(self, op: str, key: int | None, after: Row | None, truth: Row | None, lsn: int) -> Event:
        return Event(op, key, after, truth, lsn, None, self._clock)

    def _tick(self) -> int:
        self._lsn += self._random.randrange(1, 90)
        self._clock += self._random.choice((0, 0, 1, 1_000))
        return self._lsn

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _new_row(self) -> Row:
        note = self._random.choice((None, "", "short", f"long {self._random.random()} " + "x" * 20))
        return {"note": note, "qty": self._random.choice((None, self._random.randrange(1_000)))}


def sent(events: list[Event], seed: int) -> Iterator[tuple[int, Event]]:
    """The events as a connector that crashes now and then sends them, each with its place in the history.

    After a crash it goes back to an offset that it had stored and sends the log from there once more. What was read for
    a snapshot it would read again, as it is by then, so that none of it comes twice.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    at, reached = 0, 0
    while at < len(events):
        if at >= reached or events[at].op != "r":
            yield at, events[at]
        at += 1
        reached = max(reached, at)
        if chance.random() < 0.04:
            at = max(0, at - chance.randint(1, 25))


def table_after(events: list[Event], count: int) -> Rows:
    """The rows that the table must show when the first so many events have been sent."""
    rows: Rows = {}
    for event in events[:count]:
        if event.op == "t":
            rows.clear()
        elif event.key is not None and event.truth is not None:
            rows[event.key] = event.truth
        elif event.key is not None:
            rows.pop(event.key, None)
    return rows
