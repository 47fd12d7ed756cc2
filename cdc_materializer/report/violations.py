"""Quarantine tables -> the violation report. No Spark: the rows come from the catalog's reader.

The report is made from the tables alone, so it can be made again at any time, and for any time whose snapshots are
kept. It counts and places violations; the message keys that quarantine holds are not read, and values of rows only
where somebody asks for samples (`samples`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.decode.told_schema import ToldSchema, of_bytes, of_side
from cdc_materializer.errors import MAX_QUARANTINED, TRIED_UNJUDGED, UsageError
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.report.groups import (
    OPEN,
    RELEASED,
    SUPERSEDED,
    Row,
    StatedRule,
    group_of,
    grouped,
    is_of_table,
    is_unpublished,
    latest_rows,
    oldest,
    places,
    share_of,
    treatment,
)
from cdc_materializer.report.past import Lines, batch_lines, done_at, lines_at, newest_marker, parse_time, unknown_batch
from cdc_materializer.report.remedies import remedy
from cdc_materializer.report.samples import Sampling, choose, with_samples
from cdc_materializer.report.trend import last_published, trend
from cdc_materializer.report.violation_models import (
    Contact,
    ContractState,
    RuleState,
    TableVerdict,
    TableViolations,
    ViolationGroup,
    ViolationReport,
    ViolationTotals,
)

#: The columns of a quarantine table that the report needs; keys tell rows of one message apart, and are never shown.
REPORT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
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
SCHEMA_COLUMNS = ("key_schema_id", "value_schema_id", "key_schema_name", "value_schema_name")
#: Of so many messages the bytes are read for their schema: each can be a row group of raw.
_READ_MAX = 20


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
    """What a contract file says, as far as the report looks: its rules, what a batch may hold, and whom to tell."""

    name: str
    version: str
    fingerprint: str
    rules: Sequence[StatedRule] = ()
    max_quarantined: str | None = None
    contacts: Sequence[Contact] = ()

    @property
    def by_name(self) -> dict[str, StatedRule]:
        """The rules by name, what a batch may hold among them."""
        limit = StatedRule(MAX_QUARANTINED, f"At most {self.max_quarantined} of the messages of a batch may be held.")
        limits = {MAX_QUARANTINED: limit} if self.max_quarantined is not None else {}
        return limits | {rule.name: rule for rule in self.rules}


def violation_report(
    pipeline: str,
    tables: Sequence[ReportedTable],
    lake: QuarantineLake,
    *,
    as_of: datetime,
    when: str | None = None,
    contracts: Mapping[str, ContractFile | UsageError] | None = None,
    sampling: Sampling | None = None,
) -> ViolationReport:
    """Report what every table holds back, reports, or stopped for.

    Args:
        pipeline: name of the pipeline.
        tables: the configured tables, globs resolved.
        lake: reader of the tables.
        as_of: the time of the report.
        when: a time in ISO 8601, or the id of a batch: the report as it was then; now if left out.
        contracts: the contract files by name of the mirror, or why one cannot be followed.
        sampling: how values of a few rows are read, where somebody asks for them.

    Raises:
        LakeUnavailable: a table is there and cannot be read.
        UsageError: `when` is neither, or lies before what the tables keep.
    """
    lines = {table.mirror: _lines(table.mirror, lake) for table in tables}
    if when is not None:
        as_of, lines = _lines_of(when, lines)
    known = contracts or {}
    found = [
        _table_violations(table, lake, lines[table.mirror], known.get(str(table.mirror)), sampling) for table in tables
    ]
    if when is None:
        # The file is today's: of what it stops now, no earlier batch knew.
        found = [_stopped_by_its_contract(table) if table.contract_error is not None else table for table in found]
    return ViolationReport(pipeline=pipeline, as_of=as_of, totals=_totals(found), tables=found)


def _stopped_by_its_contract(table: TableViolations) -> TableViolations:
    return table.model_copy(update={"verdict": TableVerdict.STOPPED})


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
    table: ReportedTable,
    lake: QuarantineLake,
    lines: Lines,
    stated: ContractFile | UsageError | None,
    sampling: Sampling | None,
) -> TableViolations:
    contract, error = (
        (None, f"{stated.what} {stated.do}".rstrip()) if isinstance(stated, UsageError) else (stated, None)
    )
    messages = int(lines.raw[0].summary.get("total-records", 0)) if lines.raw else None
    head = lines.quarantine[0].snapshot_id if lines.quarantine else None
    rows = (lake.values_of(table.mirror.quarantine, REPORT_COLUMNS, head) if head is not None else None) or []
    latest = latest_rows(rows)
    if (published := newest_marker(lines.mirror)) is not None:
        untried = _untried(lines.mirror, published)
        latest = [row for row in latest if not (is_unpublished(row, published.offsets) or _is_mended(row, untried))]
    rules = contract.by_name if contract is not None else {}
    members = grouped(latest)
    violations = _with_schemas(
        table.mirror, lake, [group_of(str(table.mirror), found, messages, rules) for found in members]
    )
    columns = None
    if sampling is not None:
        chosen = [choose(found, sampling.rows_max) for found in members]
        violations, columns = with_samples(table.mirror, violations, chosen, sampling)
    of_messages = [row for row in latest if not is_of_table(row)]
    held = [row for row in of_messages if treatment(row) != "reported"]
    waiting = [row for row in held if row["status"] == OPEN]
    # A rule that is only tried has remarks on messages, too, that another one holds.
    unseen = places(row for row in held if row["status"] != RELEASED)
    remarks = [row for row in of_messages if treatment(row) == "reported" and not places([row]) & unseen]
    still_open = places(waiting)
    return TableViolations(
        table=str(table.mirror),
        topic=table.topic,
        verdict=_verdict(violations) if lines.mirror or rows else TableVerdict.EMPTY,
        messages=messages,
        held_open=len(still_open),
        held_share=share_of(len(still_open), messages),
        oldest_open=oldest(waiting),
        # A message that is open for one reason is not done with for another.
        superseded=len(places(row for row in held if row["status"] == SUPERSEDED) - still_open),
        released=len(places(row for row in held if row["status"] == RELEASED) - still_open),
        reported=len(places(remarks)),
        last_publish=last_published(lines.mirror),
        unpublished=_unpublished(lines),
        masked=_masked(lines),
        contract=_contract_state(contract, lines, violations),
        contract_error=error,
        violations=sorted(violations, key=_urgency),
        sample_columns=columns,
        trend=trend(lines.mirror, lines.quarantine, Counter(batch for _, batch in _remarked(remarks))),
    )


def _urgency(group: ViolationGroup) -> tuple[bool, int, int, str, str]:
    """What waits for somebody first, then what is most."""
    waits = bool(group.open) and group.action == "stopped"
    return not waits, -group.open, -group.count, group.code, group.rule or ""


def _remarked(rows: Iterable[Row]) -> set[tuple[tuple[str, int, int], str]]:
    return {((row["topic"], row["partition"], row["offset"]), row["batch_id"] or "") for row in rows}


def _unpublished(lines: Lines) -> int | None:
    """How many messages lie in raw behind those that the mirror was made from; offsets, so there may be fewer."""
    landed, published = newest_marker(lines.raw), newest_marker(lines.mirror)
    if landed is None or published is None:
        return None
    return sum(max(end - published.offsets.get(partition, 0), 0) for partition, end in landed.offsets.items())


def _masked(lines: Lines) -> dict[str, str]:
    """How the mirror's columns are masked; what tells one key of hashes from another is left out."""
    newest = newest_marker(lines.mirror)
    told = newest.masks if newest is not None else {}
    return {column: how.partition(":")[0] for column, how in sorted(told.items())}


def _untried(line: Iterable[SnapshotLine], newest: Marker) -> set[str]:
    """The rules that are only tried and that a batch could not judge, of those that the newest one's contract judged.

    As far back as the mirror keeps its snapshots; the newest is kept in any case.
    """
    markers = (Marker.from_summary(snapshot.summary) for snapshot in line)
    return {rule for found in markers if found and found.contract == newest.contract for rule in found.untried}


def _is_mended(row: Row, untried: Collection[str]) -> bool:
    """Whether a row says of a rule that is only tried that it could not be judged, and the contract in force can."""
    return row["action"] == TRIED_UNJUDGED and row["rule"] not in untried


def _contract_state(
    contract: ContractFile | None, lines: Lines, violations: Sequence[ViolationGroup]
) -> ContractState | None:
    if contract is None:
        return None
    markers = (Marker.from_summary(line.summary) for line in lines.mirror)
    newest = next((marker for marker in markers if marker is not None and marker.counts), None)
    rules = [_rule_state(rule, [group for group in violations if group.rule == rule.name]) for rule in contract.rules]
    return ContractState(
        name=contract.name,
        version=contract.version,
        fingerprint=contract.fingerprint,
        in_force=newest.contract == contract.fingerprint if newest is not None else None,
        rules=len(contract.rules),
        kept=[rule.rule for rule in rules if not rule.count and not rule.unjudged],
        judged=rules,
        max_quarantined=contract.max_quarantined,
        contacts=list(contract.contacts),
    )


def _rule_state(rule: StatedRule, groups: Sequence[ViolationGroup]) -> RuleState:
    broken = [group for group in groups if group.about != "rule"]
    shares = [group.share for group in broken if group.share is not None]
    return RuleState(
        rule=rule.name,
        column=rule.column,
        states=rule.states,
        action=rule.action,
        about="table" if rule.scope == "table" else "messages",
        count=sum(group.count for group in broken),
        open=sum(group.open for group in broken),
        share=min(1.0, sum(shares)) if shares else None,
        # What a rule that is only tried let pass unjudged stays so, as long as it is only tried.
        unjudged=any(
            group.open or (group.action == "reported" and rule.action == "shadow")
            for group in groups
            if group.about == "rule"
        ),
    )


def _with_schemas(name: TableName, lake: QuarantineLake, groups: Iterable[ViolationGroup]) -> list[ViolationGroup]:
    """Add to each group's places the schema that the message was written with, which only raw knows.

    Where both have one, the remedy is that of messages with a schema.
    """
    groups = list(groups)
    ends = [place for group in groups if group.about == "messages" for place in (group.first, group.last)]
    told = schemas_of(name, lake, {(place.partition, place.offset) for place in ends})
    return [_with_schema(str(name), group, told) for group in groups]


def _with_schema(table: str, group: ViolationGroup, told: Mapping[tuple[int, int], ToldSchema]) -> ViolationGroup:
    ends = {
        end: place.model_copy(update=schema_fields(told, (place.partition, place.offset)))
        for end, place in (("first", group.first), ("last", group.last))
    }
    if group.about != "messages" or any(place.written_with is None for place in ends.values()):
        return group.model_copy(update=ends)
    said = remedy(group.code, group.rule, table, done=group.action, has_schema=True)
    return group.model_copy(update={**ends, "remedy": said})


def schemas_of(
    name: TableName, lake: QuarantineLake, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], ToldSchema]:
    """Return the schemas that messages were written with: the value's, else the key's.

    Args:
        name: the mirror.
        lake: reader of the tables.
        places: (partition, offset) of the messages.
    """
    rows = {_place_of(row): row for row in (lake.values_at(name.raw, SCHEMA_COLUMNS, places) if places else [])}
    told = {place: (of_side(row, "value"), of_side(row, "key")) for place, row in rows.items()}
    # Bytes are asked for only where a schema may be told by nothing else.
    untold = sorted(place for place, (value, _) in told.items() if value.text is None)[:_READ_MAX]
    for row in lake.values_at(name.raw, ("key", "value"), untold) if untold else []:
        _, key = told[_place_of(row)]
        told[_place_of(row)] = of_bytes(row["value"]), key if key.text is not None else of_bytes(row["key"])
    return {place: value if value.text is not None else key for place, (value, key) in told.items()}


def _place_of(row: Row) -> tuple[int, int]:
    return row["partition"], row["offset"]


def schema_fields(told: Mapping[tuple[int, int], ToldSchema], place: tuple[int, int]) -> dict[str, Any]:
    """Return what a model of a message has of its schema."""
    found = told.get(place, ToldSchema())
    return {"schema_id": found.number, "schema_name": found.name}


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
