"""Quarantine tables -> the violation report and the quarantine list. No Spark: the rows come from the catalog's reader.

The report is made from the tables alone, so it can be made again at any time. It counts and places violations; row
values are in neither table nor report, and the message keys that quarantine does hold are shown by the list only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from cdc_materializer.errors import Code, Handling
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.report.models import (
    MessagePlace,
    QuarantineList,
    QuarantineRow,
    TableVerdict,
    TableViolations,
    ViolationGroup,
    ViolationReport,
    ViolationTotals,
)

OPEN, SUPERSEDED, RELEASED = "open", "superseded", "released"

#: The columns of a quarantine table that the report needs; the key is not among them.
REPORT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "code",
    "rule",
    "severity",
    "action",
    "status",
    "column",
    "detected_at",
)
LIST_COLUMNS = (*REPORT_COLUMNS, "key", "batch_id")

Treatment = Literal["held", "reported", "stopped"]

#: What a quarantine row's action says was done; without one the code decides.
_TREATMENTS: Mapping[str, Treatment] = {
    "hold": "held",
    "quarantine": "held",
    "report": "reported",
    "warn": "reported",
    "block": "stopped",
    "stop": "stopped",
}
_BY_HANDLING: Mapping[Handling, Treatment] = {
    Handling.HELD: "held",
    Handling.PUBLISHED: "reported",
    Handling.STOP: "stopped",
}

#: What to do about each code; a remedy never needs a value of the row.
REMEDIES: Mapping[Code, str] = {
    Code.UNDECODABLE: "Look at the message at that offset; if all are like it, set `encoding` or `format`.",
    Code.SCHEMA_UNKNOWN: "Bring the schema back to the registry, or check `registry.id`; the next run tries again.",
    Code.UNKNOWN_OP: "Check the table's `format`; the message was not made by the connector it names.",
    Code.KEY_NULL: "Name the key's columns in the table's `key`, or give the source table a primary key.",
    Code.KEY_VALUE_MISMATCH: "Check the connector's message key columns and single message transforms.",
    Code.KEY_COLLISION: "Give each source table a mirror of its own, or add a column that tells them apart to `key`.",
    Code.SCHEMA_INCOMPATIBLE: "Change the type back at the source, or wait for `cdcm replay`, which rebuilds a table.",
    Code.OUT_OF_RANGE: "Widen the column at the source, or set `special_values` to clamp.",
    Code.CONTRACT: "Mend the row at the source (a later good version takes its place by itself), or mend the rule.",
    Code.UNAVAILABLE_NO_BASE: "Touch the row at the source, or take an incremental snapshot of the table.",
    Code.ORDER_AMBIGUOUS: "Give the connector positions to order by, or send a table to one partition.",
    Code.TRUNCATE_UNORDERED: "Take a snapshot of the source table.",
    Code.SNAPSHOT_UNRECONCILED: "Let the snapshot finish, or take it again.",
    Code.OFFSET_GAP: "Take a new snapshot of the source table, and mirror the topic under another `mirror` name.",
    Code.OFFSET_REGRESSION: "Find out whether the topic was made again; then mirror it under another `mirror` name.",
    Code.POSITION_REGRESSION: "Find out whether the database was restored; then mirror it under another name.",
    Code.DUPLICATE_COLUMN: "Rename one of the columns at the source; their names differ only in case.",
}


class QuarantineLake(Protocol):
    """The part of the catalog's reader that the report needs."""

    def values_of(self, name: TableName, columns: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return columns of every row, None when there is no such table."""

    def marker_of(self, name: TableName) -> Marker | None:
        """Return the newest marker, None when there is no such table."""


class ReportedTable(Protocol):
    """The part of a table's configuration that the report needs."""

    @property
    def topic(self) -> str:
        """Topic that feeds the table."""

    @property
    def mirror(self) -> TableName:
        """Name of the mirror."""


@dataclass(frozen=True)
class QuarantineFilter:
    """Which quarantine rows to list; None takes all."""

    tables: frozenset[str] | None = None
    code: str | None = None
    rule: str | None = None
    status: str | None = None

    def takes(self, table: str, row: Mapping[str, Any]) -> bool:
        """Tell whether a row is wanted."""
        if self.tables is not None and table not in self.tables:
            return False
        wanted = {"code": self.code, "rule": self.rule, "status": self.status}
        return all(value is None or row[name] == value for name, value in wanted.items())


def violation_report(
    pipeline: str,
    tables: Iterable[ReportedTable],
    lake: QuarantineLake,
    *,
    as_of: datetime,
    messages: Mapping[str, int] | None = None,
) -> ViolationReport:
    """Report what every table holds back, reports, or stopped for.

    Args:
        pipeline: name of the pipeline.
        tables: the configured tables, globs resolved.
        lake: reader of the quarantine tables.
        as_of: the time of the report.
        messages: messages in raw by name of the mirror, for shares; tables that are missing here have none.

    Raises:
        LakeUnavailable: a table is there and cannot be read.
    """
    found = [_table_violations(table, lake, (messages or {}).get(str(table.mirror))) for table in tables]
    return ViolationReport(pipeline=pipeline, as_of=as_of, totals=_totals(found), tables=found)


def _table_violations(table: ReportedTable, lake: QuarantineLake, messages: int | None) -> TableViolations:
    rows = lake.values_of(table.mirror.quarantine, REPORT_COLUMNS)
    if not rows:
        ran = rows is not None or lake.marker_of(table.mirror) is not None
        verdict = TableVerdict.CLEAN if ran else TableVerdict.EMPTY
        return TableViolations(table=str(table.mirror), topic=table.topic, verdict=verdict, messages=messages)
    latest = _latest(rows)
    groups: defaultdict[tuple[str, str, str, Treatment], list[Mapping[str, Any]]] = defaultdict(list)
    for row in latest:
        groups[row["code"], row["rule"] or "", row["column"] or "", treatment(row)].append(row)
    violations = [_group(key, members, messages) for key, members in groups.items()]
    held = [row for row in latest if treatment(row) != "reported"]
    still_open = _places(row for row in held if row["status"] == OPEN)
    return TableViolations(
        table=str(table.mirror),
        topic=table.topic,
        verdict=_verdict(violations),
        messages=messages,
        held_open=len(still_open),
        # A message that is open for one reason is not done with for another.
        superseded=len(_places(row for row in held if row["status"] == SUPERSEDED) - still_open),
        released=len(_places(row for row in held if row["status"] == RELEASED) - still_open),
        reported=len(_places(row for row in latest if treatment(row) == "reported")),
        violations=sorted(violations, key=lambda group: (-group.open, -group.count, group.code, group.rule or "")),
    )


def treatment(row: Mapping[str, Any]) -> Treatment:
    """Tell what was done with the message of a quarantine row."""
    stated = _TREATMENTS.get(row["action"] or "")
    if stated is not None:
        return stated
    return _BY_HANDLING[Code(row["code"]).handling] if row["code"] in set(Code) else "held"


def _latest(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Keep one row a message, code, rule and column: a message that was tried again is one violation, not two.

    The one detected last says how it stands; of two at the same time, the one that is no longer open.
    """
    kept: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for row in rows:
        identity = (row["topic"], row["partition"], row["offset"], row["code"], row["rule"], row["column"])
        if identity not in kept or _standing(row) >= _standing(kept[identity]):
            kept[identity] = row
    return list(kept.values())


def _standing(row: Mapping[str, Any]) -> tuple[datetime, bool]:
    return _utc(row["detected_at"]) or datetime.min.replace(tzinfo=UTC), row["status"] != OPEN


def _places(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, int, int]]:
    return {(row["topic"], row["partition"], row["offset"]) for row in rows}


def _group(
    key: tuple[str, str, str, Treatment], rows: Sequence[Mapping[str, Any]], messages: int | None
) -> ViolationGroup:
    code, rule, column, action = key
    ordered = sorted(rows, key=lambda row: (_utc(row["timestamp"]) or datetime.min.replace(tzinfo=UTC), row["offset"]))
    known = Code(code) if code in set(Code) else None
    waiting = [row for row in rows if row["status"] == OPEN]
    since = [moment for row in waiting if (moment := _utc(row["detected_at"])) is not None]
    return ViolationGroup(
        code=code,
        rule=rule or None,
        column=column or None,
        action=action,
        severity=rows[0]["severity"],
        count=len(rows),
        open=len(waiting),
        share=min(1.0, len(rows) / messages) if messages else None,
        first=_place(ordered[0]),
        last=_place(ordered[-1]),
        since=min(since) if since else None,
        explanation=known.explanation if known else "A code that this version does not know.",
        remedy=REMEDIES[known] if known else "Read the report with the version that wrote it.",
    )


def _place(row: Mapping[str, Any]) -> MessagePlace:
    return MessagePlace(
        topic=row["topic"], partition=row["partition"], offset=row["offset"], timestamp=_utc(row["timestamp"])
    )


def _utc(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _verdict(groups: Iterable[ViolationGroup]) -> TableVerdict:
    states = {group.action for group in groups if group.open or group.action == "reported"}
    for action, verdict in (
        ("stopped", TableVerdict.STOPPED),
        ("held", TableVerdict.HELD),
        ("reported", TableVerdict.REPORTED),
    ):
        if action in states:
            return verdict
    return TableVerdict.CLEAN


def _totals(tables: Sequence[TableViolations]) -> ViolationTotals:
    by_code: Counter[str] = Counter()
    for table in tables:
        for group in table.violations:
            by_code[group.code] += group.count if group.action == "reported" else group.open
    return ViolationTotals(
        tables=len(tables),
        tables_with_open=sum(table.verdict in {TableVerdict.STOPPED, TableVerdict.HELD} for table in tables),
        held_open=sum(table.held_open for table in tables),
        superseded=sum(table.superseded for table in tables),
        released=sum(table.released for table in tables),
        reported=sum(table.reported for table in tables),
        by_code={code: count for code, count in sorted(by_code.items()) if count},
    )


def quarantine_list(
    pipeline: str,
    tables: Iterable[ReportedTable],
    lake: QuarantineLake,
    *,
    as_of: datetime,
    limit: int,
    wanted: QuarantineFilter,
) -> QuarantineList:
    """List quarantine rows, newest first, at most ``limit`` of those that the filter takes.

    Raises LakeUnavailable where a table is there and cannot be read.
    """
    found: list[QuarantineRow] = []
    for table in tables:
        name = str(table.mirror)
        if wanted.tables is not None and name not in wanted.tables:
            continue
        rows = _latest(lake.values_of(table.mirror.quarantine, LIST_COLUMNS) or ())
        found += [_listed(name, row) for row in rows if wanted.takes(name, row)]
    oldest = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda row: (row.detected_at or oldest, row.timestamp or oldest, row.offset), reverse=True)
    return QuarantineList(pipeline=pipeline, as_of=as_of, total=len(found), limit=limit, rows=found[:limit])


def _listed(table: str, row: Mapping[str, Any]) -> QuarantineRow:
    moments = {name: _utc(row[name]) for name in ("timestamp", "detected_at")}
    return QuarantineRow(table=table, **{name: row[name] for name in LIST_COLUMNS} | moments)
