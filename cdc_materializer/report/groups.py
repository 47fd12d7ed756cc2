"""Rows of quarantine tables -> the violations of one code, rule and column together. Pure.

Most rows tell of a message. Some tell of the table as a whole (a rule about it, a batch that would hold too much, a
topic that lost its end), or of a rule that cannot be judged: they belong to no batch, and their place says only how
far the table had got.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from cdc_materializer.errors import TRIED_UNJUDGED, UNJUDGED, Code, Handling
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.remedies import About, explanation, remedy
from cdc_materializer.report.violation_models import ViolationGroup

OPEN, SUPERSEDED, RELEASED = "open", "superseded", "released"

Row = Mapping[str, Any]
Treatment = Literal["held", "reported", "stopped"]

#: What a quarantine row's action says was done; without one the code decides.
_TREATMENTS: Mapping[str, Treatment] = {
    "hold": "held",
    "quarantine": "held",
    "report": "reported",
    "warn": "reported",
    "shadow": "reported",
    "block": "stopped",
    "stop": "stopped",
    UNJUDGED: "stopped",
    TRIED_UNJUDGED: "reported",
}
_BY_HANDLING: Mapping[Handling, Treatment] = {
    Handling.HELD: "held",
    Handling.PUBLISHED: "reported",
    Handling.STOP: "stopped",
}
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class StatedRule:
    """One rule as the contract file states it: its name, what it asks for in words, and what happens if it is broken.

    `action` is quarantine, block, warn, or shadow for one that is only tried; `scope` is row or table.
    """

    name: str
    states: str | None = None
    action: str = "quarantine"
    scope: str = "row"
    column: str | None = None


def treatment(row: Row) -> Treatment:
    """Tell what was done with the message of a quarantine row."""
    stated = _TREATMENTS.get(row["action"] or "")
    if stated is not None:
        return stated
    return _BY_HANDLING[Code(row["code"]).handling] if row["code"] in set(Code) else "held"


def is_of_table(row: Row) -> bool:
    """Tell whether a quarantine row is about the table as a whole, or a rule, and not about one message."""
    return not row["batch_id"]


def is_unpublished(row: Row, reached: Mapping[int, int]) -> bool:
    """Tell whether a quarantine row remarks something of a message that no batch has published: its batch was stopped.

    Args:
        row: of quarantine.
        reached: how far the mirror has got, by partition.
    """
    if row["status"] != RELEASED or treatment(row) != "reported":
        return False
    at = reached.get(row["partition"], 0)
    # What no message carries lies where its batch has ended.
    return bool(row["offset"] > at if is_of_table(row) else row["offset"] >= at)


def about(row: Row) -> About:
    """Tell what a quarantine row is about."""
    if row["action"] in {UNJUDGED, TRIED_UNJUDGED}:
        return "rule"
    return "table" if is_of_table(row) else "messages"


def held_messages(rows: Iterable[Row]) -> int:
    """How many messages quarantine rows hold: those open, each once; rows about the table as a whole hold none."""
    return len(places(row for row in rows if row["status"] == OPEN and not is_of_table(row)))


def places(rows: Iterable[Row]) -> set[tuple[str, int, int]]:
    """Return where the messages of quarantine rows lie, each once: one message can be several rows of the source."""
    return {(row["topic"], row["partition"], row["offset"]) for row in rows}


def latest_rows(rows: Iterable[Row]) -> list[Row]:
    """Keep one row a message, key, code, rule and column: a message that was tried again is one violation, not two.

    One message can be about several keys; where the key could not be read at first, it is another row than later. What
    is about the table and over is told of a batch, or of a stop, each time anew: it may lie where the one before lies.

    The one detected last says how it stands; of two at the same time, the one that is no longer open.
    """
    kept: dict[tuple[object, ...], Row] = {}
    names = ("topic", "partition", "offset", "key", "code", "rule", "column")
    for row in rows:
        of_once = row["detected_at"] if is_of_table(row) and row["status"] != OPEN else None
        identity = (*[row[name] for name in names], of_once)
        if identity not in kept or _standing(row) >= _standing(kept[identity]):
            kept[identity] = row
    return list(kept.values())


def _standing(row: Row) -> tuple[datetime, bool]:
    return in_utc(row["detected_at"]) or _EARLIEST, row["status"] != OPEN


def grouped(rows: Iterable[Row]) -> list[list[Row]]:
    """Put the rows of one code, rule, column and treatment together, each in the order of their messages."""
    groups: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["code"], row["rule"] or "", row["column"] or "", about(row), treatment(row)].append(row)
    return [sorted(members, key=_order) for members in groups.values()]


def _order(row: Row) -> tuple[datetime, int, int]:
    at = row["detected_at"] if is_of_table(row) else row["timestamp"]
    return in_utc(at) or _EARLIEST, row["partition"], row["offset"]


def group_of(table: str, rows: Sequence[Row], messages: int | None, rules: Mapping[str, StatedRule]) -> ViolationGroup:
    """Say of violations that are one code, rule, column and treatment how many they are, where, and what to do.

    Args:
        table: name of the mirror.
        rows: one of the lists of `grouped`.
        messages: how many messages raw has; None where that is not known.
        rules: those of the contract file, by name.
    """
    first, last, done = rows[0], rows[-1], treatment(rows[0])
    waiting = [row for row in rows if row["status"] == OPEN]
    code, rule, of_what = first["code"], first["rule"] or None, about(first)
    stated = rules.get(rule or "")
    count, still = (len(places(found)) if of_what == "messages" else len(found) for found in (rows, waiting))
    return ViolationGroup(
        code=code,
        rule=rule,
        column=first["column"] or (stated.column if stated is not None else None),
        about=of_what,
        action=done,
        severity=first["severity"],
        count=count,
        open=still,
        share=None if of_what != "messages" else share_of(count, messages),
        first=_place(first),
        last=_place(last),
        detected_first=min(times) if (times := _detected(rows)) else None,
        detected_last=max(times) if times else None,
        since=oldest(waiting),
        states=stated.states if stated is not None else None,
        explanation=explanation(code, rule, about=of_what, done=done),
        remedy=remedy(code, rule, table, about=of_what, done=done),
    )


def _place(row: Row) -> MessagePlace:
    return MessagePlace(
        topic=row["topic"], partition=row["partition"], offset=row["offset"], timestamp=in_utc(row["timestamp"])
    )


def _detected(rows: Iterable[Row]) -> list[datetime]:
    return [at for row in rows if (at := in_utc(row["detected_at"])) is not None]


def oldest(rows: Iterable[Row]) -> datetime | None:
    """Return when the first of some rows was detected; None where there is none."""
    return min(_detected(rows), default=None)


def share_of(part: int, messages: int | None) -> float | None:
    """Return a number as a share of all messages; None where it is not known how many those are."""
    return min(1.0, part / messages) if messages else None


def in_utc(moment: datetime | None) -> datetime | None:
    """Return a time of a table with its zone, which is UTC where a reader leaves it out."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
