"""Quarantine tables -> the violation report. No Spark: the rows come from the catalog's reader.

The report is made from the tables alone, so it can be made again at any time, and for any time whose snapshots are
kept. It counts and places violations; row values are in neither table nor report, and the message keys that quarantine
does hold are not read.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from cdc_materializer.decode.refusals import REFUSALS, Refusal
from cdc_materializer.errors import Code, Handling
from cdc_materializer.local_table import SnapshotLine
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.past import Lines, batch_lines, done_at, lines_at, parse_time, unknown_batch
from cdc_materializer.report.trend import last_published, trend
from cdc_materializer.report.violation_models import (
    ContractState,
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
    "batch_id",
)
#: The columns of a raw table that say which schema a message was written with.
SCHEMA_COLUMNS = ("key_schema_id", "value_schema_id")

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
    Code.SCHEMA_UNKNOWN: "Bring the schema to the registry, or check `registry` and its `id`; each run tries again.",
    Code.UNKNOWN_OP: "Check the table's `format`; the message was not made by the connector it names.",
    Code.KEY_NULL: "Name the key's columns in the table's `key`, or give the source table a primary key.",
    Code.KEY_VALUE_MISMATCH: (
        "Check the connector's message key columns and single message transforms; where the source table has"
        " REPLICA IDENTITY USING INDEX, give it DEFAULT or FULL, and take a new snapshot."
    ),
    Code.KEY_COLLISION: (
        "Give each source table a topic of its own, or mirror under another `mirror` name with a column in `key` that"
        " tells them apart; a router does that with `key.enforce.uniqueness` in a new topic. A renamed table too needs"
        " a topic that begins with its new name, by a snapshot."
    ),
    Code.SCHEMA_INCOMPATIBLE: "Change the type back at the source, or mirror the topic under another `mirror` name.",
    Code.OUT_OF_RANGE: "Widen the column at the source, or set `special_values` to clamp.",
    Code.CONTRACT: (
        "Mend the row at the source (a later good version takes its place by itself), or mend the rule and run"
        " `cdcm quarantine release`."
    ),
    Code.UNAVAILABLE_NO_BASE: "Touch the row at the source, or take an incremental snapshot of the table.",
    Code.ORDER_AMBIGUOUS: "Give the connector positions to order by, or send a table to one partition.",
    Code.TRUNCATE_UNORDERED: "Take a snapshot of the source table.",
    Code.SNAPSHOT_UNRECONCILED: "Take it again; in several partitions it sweeps when each shows a later change.",
    Code.OFFSET_GAP: "Have the connector snapshot the table again, and accept the loss with `cdcm adopt`.",
    Code.OFFSET_REGRESSION: "Find out whether the topic was made again; then accept it with `cdcm adopt`.",
    Code.POSITION_REGRESSION: "If the database was restored, accept it with `cdcm adopt`, and take a new snapshot.",
    Code.DUPLICATE_COLUMN: "Rename one of the columns at the source; their names differ only in case.",
}


class QuarantineLake(Protocol):
    """The part of the catalog's reader that the report needs."""

    def values_of(self, name: TableName, columns: Sequence[str], at: int | None = None) -> list[dict[str, Any]] | None:
        """Return columns of every row, in main's snapshot or in another, None when there is no such table."""

    def values_at(
        self, name: TableName, columns: Sequence[str], places: Collection[tuple[int, int]]
    ) -> list[dict[str, Any]]:
        """Return columns, with partition and offset, of the messages of a raw table at (partition, offset)."""

    def lines_of(self, name: TableName) -> Sequence[SnapshotLine]:
        """Return the snapshots of main that are kept, newest first; none when there is no such table."""


class ReportedTable(Protocol):
    """The part of a table's configuration that the report needs."""

    @property
    def topic(self) -> str:
        """Topic that feeds the table."""

    @property
    def mirror(self) -> TableName:
        """Name of the mirror."""


@dataclass(frozen=True)
class ContractFile:
    """What a contract file says, as far as the report looks: `rules` are names, each with what it asks for in words."""

    name: str
    version: str
    fingerprint: str
    rules: Mapping[str, str | None]


def violation_report(
    pipeline: str,
    tables: Sequence[ReportedTable],
    lake: QuarantineLake,
    *,
    as_of: datetime,
    when: str | None = None,
    contracts: Mapping[str, ContractFile] | None = None,
) -> ViolationReport:
    """Report what every table holds back, reports, or stopped for.

    Args:
        pipeline: name of the pipeline.
        tables: the configured tables, globs resolved.
        lake: reader of the tables.
        as_of: the time of the report.
        when: a time in ISO 8601, or the id of a batch: the report as it was then; now if left out.
        contracts: the contract files by name of the mirror.

    Raises:
        LakeUnavailable: a table is there and cannot be read.
        UsageError: `when` is neither, or lies before what the tables keep.
    """
    lines = {table.mirror: _lines(table.mirror, lake) for table in tables}
    if when is not None:
        as_of, lines = _lines_of(when, lines)
    known = contracts or {}
    found = [_table_violations(table, lake, lines[table.mirror], known.get(str(table.mirror))) for table in tables]
    return ViolationReport(pipeline=pipeline, as_of=as_of, totals=_totals(found), tables=found)


def _lines(name: TableName, lake: QuarantineLake) -> Lines:
    return Lines(lake.lines_of(name), lake.lines_of(name.raw), lake.lines_of(name.quarantine))


def _lines_of(when: str, lines: Mapping[TableName, Lines]) -> tuple[datetime, dict[TableName, Lines]]:
    at, batch = parse_time(when), {}
    if at is None:
        batch = {name: cut for name, found in lines.items() if (cut := batch_lines(found, when)) is not None}
        if not batch:
            raise unknown_batch(when)
        at = max(done_at(cut) for cut in batch.values())
    return at, {name: batch[name] if name in batch else lines_at(name, found, at) for name, found in lines.items()}


def _table_violations(
    table: ReportedTable, lake: QuarantineLake, lines: Lines, contract: ContractFile | None
) -> TableViolations:
    messages = int(lines.raw[0].summary.get("total-records", 0)) if lines.raw else None
    head = lines.quarantine[0].snapshot_id if lines.quarantine else None
    rows = (lake.values_of(table.mirror.quarantine, REPORT_COLUMNS, head) if head is not None else None) or []
    latest = latest_rows(rows)
    groups: defaultdict[tuple[str, str, str, Treatment], list[Mapping[str, Any]]] = defaultdict(list)
    for row in latest:
        groups[row["code"], row["rule"] or "", row["column"] or "", treatment(row)].append(row)
    violations = _with_schemas(
        table.mirror, lake, [_group(key, members, messages, contract) for key, members in groups.items()]
    )
    remarks = [row for row in latest if treatment(row) == "reported"]
    held = [row for row in latest if treatment(row) != "reported"]
    waiting = [row for row in held if row["status"] == OPEN]
    still_open = _places(waiting)
    return TableViolations(
        table=str(table.mirror),
        topic=table.topic,
        verdict=_verdict(violations) if lines.mirror or rows else TableVerdict.EMPTY,
        messages=messages,
        held_open=len(still_open),
        held_share=_share(len(still_open), messages),
        oldest_open=_oldest(waiting),
        # A message that is open for one reason is not done with for another.
        superseded=len(_places(row for row in held if row["status"] == SUPERSEDED) - still_open),
        released=len(_places(row for row in held if row["status"] == RELEASED) - still_open),
        reported=len(_places(remarks)),
        last_publish=last_published(lines.mirror),
        contract=_contract_state(contract, lines, violations),
        violations=sorted(violations, key=lambda group: (-group.open, -group.count, group.code, group.rule or "")),
        trend=trend(lines.mirror, lines.quarantine, Counter(batch for _, batch in _remarked(remarks))),
    )


def _remarked(rows: Iterable[Mapping[str, Any]]) -> set[tuple[tuple[str, int, int], str]]:
    return {((row["topic"], row["partition"], row["offset"]), row["batch_id"] or "") for row in rows}


def _share(part: int, messages: int | None) -> float | None:
    return min(1.0, part / messages) if messages else None


def _oldest(rows: Iterable[Mapping[str, Any]]) -> datetime | None:
    return min((at for row in rows if (at := in_utc(row["detected_at"])) is not None), default=None)


def _contract_state(
    contract: ContractFile | None, lines: Lines, violations: Iterable[ViolationGroup]
) -> ContractState | None:
    if contract is None:
        return None
    markers = (Marker.from_summary(line.summary) for line in lines.mirror)
    newest = next((marker for marker in markers if marker is not None and marker.counts), None)
    broken = {group.rule for group in violations}
    return ContractState(
        name=contract.name,
        version=contract.version,
        fingerprint=contract.fingerprint,
        in_force=newest.contract == contract.fingerprint if newest is not None else None,
        rules=len(contract.rules),
        kept=[rule for rule in contract.rules if rule not in broken],
    )


def _with_schemas(name: TableName, lake: QuarantineLake, groups: Iterable[ViolationGroup]) -> list[ViolationGroup]:
    """Add to each group's places the schema that the message was written with, which only raw knows."""
    groups = list(groups)
    places = {(place.partition, place.offset) for group in groups for place in (group.first, group.last)}
    ids = schema_ids(name, lake, places)
    return [
        group.model_copy(
            update={
                end: place.model_copy(update={"schema_id": ids.get((place.partition, place.offset))})
                for end, place in (("first", group.first), ("last", group.last))
            }
        )
        for group in groups
    ]


def schema_ids(
    name: TableName, lake: QuarantineLake, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], int | None]:
    """Return the registry's ids of the schemas that messages were written with: the value's, else the key's.

    Args:
        name: the mirror.
        lake: reader of the tables.
        places: (partition, offset) of the messages.
    """
    rows = lake.values_at(name.raw, SCHEMA_COLUMNS, places) if places else []
    return {
        (row["partition"], row["offset"]): row["value_schema_id"]
        if row["value_schema_id"] is not None
        else row["key_schema_id"]
        for row in rows
    }


def treatment(row: Mapping[str, Any]) -> Treatment:
    """Tell what was done with the message of a quarantine row."""
    stated = _TREATMENTS.get(row["action"] or "")
    if stated is not None:
        return stated
    return _BY_HANDLING[Code(row["code"]).handling] if row["code"] in set(Code) else "held"


def latest_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
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
    return in_utc(row["detected_at"]) or datetime.min.replace(tzinfo=UTC), row["status"] != OPEN


def _places(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, int, int]]:
    return {(row["topic"], row["partition"], row["offset"]) for row in rows}


def _group(
    key: tuple[str, str, str, Treatment],
    rows: Sequence[Mapping[str, Any]],
    messages: int | None,
    contract: ContractFile | None,
) -> ViolationGroup:
    code, rule, column, action = key
    earliest = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(rows, key=lambda row: (in_utc(row["timestamp"]) or earliest, row["partition"], row["offset"]))
    waiting = [row for row in rows if row["status"] == OPEN]
    return ViolationGroup(
        code=code,
        rule=rule or None,
        column=column or None,
        action=action,
        severity=rows[0]["severity"],
        count=len(rows),
        open=len(waiting),
        share=_share(len(rows), messages),
        first=_place(ordered[0]),
        last=_place(ordered[-1]),
        since=_oldest(waiting),
        states=contract.rules.get(rule) if contract is not None else None,
        explanation=explanation(code, rule),
        remedy=remedy(code, rule),
    )


def explanation(code: str, rule: str | None = None) -> str:
    """Return what a violation code, with its rule, means, in one sentence."""
    refusal = _refusal(code, rule)
    if refusal is not None:
        return refusal.what
    return Code(code).explanation if code in set(Code) else "A code that this version does not know."


def remedy(code: str, rule: str | None = None) -> str:
    """Return what to do about a violation code, with its rule."""
    refusal = _refusal(code, rule)
    if refusal is not None:
        return refusal.do
    return REMEDIES[Code(code)] if code in set(Code) else "Read the report with the version that wrote it."


def _refusal(code: str, rule: str | None) -> Refusal | None:
    return REFUSALS.get(rule or "") if code == Code.UNDECODABLE else None


def _place(row: Mapping[str, Any]) -> MessagePlace:
    return MessagePlace(
        topic=row["topic"], partition=row["partition"], offset=row["offset"], timestamp=in_utc(row["timestamp"])
    )


def in_utc(moment: datetime | None) -> datetime | None:
    """Return a time of a table with its zone, which is UTC where a reader leaves it out."""
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
