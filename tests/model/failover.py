"""Random lives of a table of MySQL whose server is replaced by another now and then, as the connector sends them.

Every server keeps a binlog of its own: files and places are its own, the numbers of transactions (GTIDs) are not. After
a failover the connector goes on at the new server from the last transactions that it had stored, so that the tail of
what it has sent comes again, from other places. Only servers whose files have no lower numbers are here: for others an
epoch begins (`epochs`), of which the reference fold knows nothing.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.cases.case import Case
from tests.model.messages import UNAVAILABLE, Message

Rows = dict[tuple[int], dict[str, Any]]

_GROUP = "gtid:aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
#: On the wire: what stands for a text that a change leaves out, and when the database's time began.
_PLACEHOLDER, _BEGAN_MS = "__debezium_unavailable_value", 1_760_000_000_000


@dataclass(frozen=True)
class Change:
    """A change of the database.

    Attributes:
        message: what tells it, but for its place.
        key: of its row.
        rows: the rows after it.
        is_half: whether it is the insert of a key change, and so at the place of the delete before it.
    """

    message: Message
    key: tuple[int] | None
    rows: Rows
    is_half: bool = False


@dataclass(frozen=True)
class Told:
    """A message as it is sent, and the rows that the table must show once it is read."""

    message: Message
    rows: Rows


def life(seed: int, transactions: int, *, truncates: bool, moves: bool = False, keys: int = 5) -> list[Change]:
    """The changes of a table in the order of their commits, some of several rows, and of a row several times.

    Args:
        seed: of what happens.
        transactions: how many there are.
        truncates: whether there are truncates among them.
        moves: whether keys change, and rows have a text that a change leaves out where it did not touch it.
        keys: how many rows there may be.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    rows: Rows = {}
    found: list[Change] = []
    made = 0
    for number in range(1, transactions + 1):
        ops = ["t"] if truncates and chance.random() < 0.04 else ["change"] * chance.randint(1, 4)
        for op in ops:
            made += 1
            message = Message(0, 0, op, source_ms=1_000 * number, transaction=(_GROUP, number))
            if op == "t":
                rows = {}
                found.append(Change(message, None, rows))
                continue
            key = (chance.randint(1, keys),)
            before = rows.get(key)
            free = [(other,) for other in range(1, keys + 1) if (other,) not in rows]
            if moves and before is not None and free and chance.random() < 0.2:
                found += _moved(message, key, chance.choice(free), rows, made)
                rows = found[-1].rows
                continue
            if before is not None and chance.random() < 0.3:
                rows = {known: row for known, row in rows.items() if known != key}
                found.append(Change(replace(message, op="d", key=key, before=before), key, rows))
                found.append(Change(replace(message, op="tombstone", key=key, transaction=None), key, rows))
                continue
            row: dict[str, Any] = {"qty": made}
            if before is not None and chance.random() < 0.5:
                # Back to what it was, whoever made it so.
                row = {"qty": chance.randint(max(0, made - 4), made)}
            image = row
            if moves and before is not None and chance.random() < 0.6:
                row, image = {**row, "text": before["text"]}, {**row, "text": UNAVAILABLE}
            elif moves:
                row = image = {**row, "text": f"text {made}"}
            rows = {**rows, key: row}
            message = replace(message, op="c" if before is None else "u", image=image)
            found.append(Change(replace(message, key=key, before=_logged(before)), key, rows))
    return found


def _moved(message: Message, key: tuple[int], new: tuple[int], rows: Rows, made: int) -> list[Change]:
    """A key change, which leaves the text as it is."""
    row = {**rows[key], "qty": made}
    without = {known: row for known, row in rows.items() if known != key}
    delete = replace(message, op="d", key=key, before=_logged(rows[key]))
    tombstone = replace(delete, op="tombstone", before=None, transaction=None)
    insert = replace(message, op="c", key=new, image={**row, "text": UNAVAILABLE})
    halves = [Change(delete, key, without), Change(tombstone, key, without)]
    return [*halves, Change(insert, new, {**without, new: row}, is_half=True)]


def _logged(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A row as the log has it from before a change: without its text (`binlog_row_image=NOBLOB`)."""
    return row if row is None else {"qty": row["qty"]}


def sent(
    changes: list[Change], seed: int, partitions: int = 1, reach: int = 15, *, rough: bool = False
) -> Iterator[Told]:
    """The messages of a connector that crashes now and then, and finds another server about every second time.

    Args:
        changes: from `life`.
        seed: of what happens.
        partitions: of the topic.
        reach: how many changes a crash sends again at most.
        rough: also, messages are lost, and servers that lag behind are read by snapshots; in the end one that has all
            of the log sends it whole.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    offsets = dict.fromkeys(range(partitions), 0)
    at, reached, clock, file, start = 0, 0, 0, 3, 0
    is_last = not rough
    while at < len(changes):
        change, clock = changes[at], clock + 1
        message = change.message
        here = at - 2 if change.is_half else at
        place = None if message.op == "tombstone" else ("bin", file, start + 100 * here, 0)
        if not is_last and chance.random() < 0.05:
            # Of a time that was over: only what comes behind it says so.
            stale = changes[chance.randrange(at + 1)].rows
            change = replace(change, key=chance.choice([*stale, change.key])) if stale else change
            row = stale.get(change.key) if change.key is not None else None
            if row is not None:
                message = replace(message, op="r", key=change.key, image=row, before=None, transaction=None)
                message, place = replace(message, streaming=False), ("bin", file, start + 100 * at, 0)
        partition = 0 if change.key is None else change.key[0] % partitions
        at += 1
        reached = max(reached, at)
        if is_last or message.op == "t" or chance.random() > 0.1:
            placed = replace(message, partition=partition, offset=offsets[partition], position=place, time=clock)
            offsets[partition] += 1
            yield Told(placed, changes[reached - 1].rows)
        if chance.random() < 1 / reach:
            at = max(0, at - chance.randint(1, reach))
            while at < len(changes) and (changes[at].is_half or changes[at].message.op == "tombstone"):
                at -= 1
            if chance.random() < 0.5:
                file, start = file + chance.randint(1, 2), start + chance.randint(1, 9) * 1_000_000
        if at == len(changes) and not is_last:
            at, is_last, file, start = 0, True, file + 1, start + 10_000_000


def case_of(told: Sequence[Told], number: int, steps: int, *, moves: bool = False) -> Case:
    """What is sent as a golden case of so many runs: the messages of Debezium's connector for MySQL, and the rows.

    Args:
        told: from `sent`, in one partition or several.
        number: of the case.
        steps: the runs, which end after any message.
        moves: as of the life.
    """
    columns = {"id": "int64", "qty": "int64", **({"text": "optional string"} if moves else {})}
    chance = random.Random(number)  # noqa: S311 - repeatable, not secret
    ends = [0, *sorted(chance.sample(range(1, len(told)), steps - 1)), len(told)]
    parts = [told[first:end] for first, end in itertools.pairwise(ends)]
    every = [{"messages": [_on_the_wire(one.message, moves=moves) for one in part]} for part in parts]
    shown = [{"rows": [{"id": key, **row} for (key,), row in part[-1].rows.items()]} for part in parts]
    data = {
        "key": {"id": "int64"},
        "columns": columns,
        "cut": max(1, len(told) // 40),
        "messages": every[0]["messages"],
        "then": every[1:],
    }
    return Case(f"failover_{number}", number, data, tuple(shown), None)


def _on_the_wire(message: Message, *, moves: bool) -> dict[str, Any]:
    """A message as golden cases describe it."""
    key = message.key[0] if isinstance(message.key, tuple) else None
    found: dict[str, Any] = {"partition": message.partition, "key": key}
    if message.op == "tombstone":
        return {**found, "tombstone": True}
    assert message.position is not None
    _, file, place, row = message.position
    source: dict[str, Any] = {"connector": "mysql", "file": f"bin.{file:06d}", "pos": place, "row": row}
    if message.transaction is not None:
        source["gtid"] = f"{_GROUP.removeprefix('gtid:')}:{message.transaction[1]}"
    found |= {"op": message.op, "ts_ms": _BEGAN_MS + message.source_ms, "source": source}
    left_out = {"text": _PLACEHOLDER} if moves else {}
    if message.before is not None and key is not None:
        found["before"] = {"id": key, **message.before, **left_out}
    if message.image is not None and key is not None:
        image = {name: _PLACEHOLDER if value is UNAVAILABLE else value for name, value in message.image.items()}
        found["after"] = {"id": key, **image}
    return found
