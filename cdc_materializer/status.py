"""`cdcm status`: where each table stands, from the catalog and the ends of the topics, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import Tables, open_tables, snapshots_of
from cdc_materializer.catalog.local_table import SnapshotLine, main_line, rows_in
from cdc_materializer.config import Config, ResolvedTables, TableConfig
from cdc_materializer.errors import (
    EXIT_BUG,
    EXIT_DONE,
    CdcError,
    ContractInvalid,
    DifferenceFound,
    worst_exit_code,
)
from cdc_materializer.invariants import foreign
from cdc_materializer.maintenance.plan import Rule, hint
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.progress import Topics, asked_again, plan_reading
from cdc_materializer.report.groups import OPEN, held_messages, in_utc, is_of_table
from cdc_materializer.report.models import ErrorInfo, FileHealth, StatusReport, TableStatus, VerifyReport
from cdc_materializer.report.replay_models import ReplayReport
from cdc_materializer.run.topics import tables_of
from cdc_materializer.source import Source, TopicState, as_raw_counts, open_source

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_MILLISECONDS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def configured_tables(
    config: Config, names: Sequence[str], source: Source | None = None, *, refuse: bool = True
) -> tuple[TableConfig, ...]:
    """Return the tables of the configuration, or those of them that are named; globs are resolved.

    Args:
        config: from `load_config`.
        names: the mirrors; all for none.
        source: the configuration's, where it is open.
        refuse: whether a topic or a glob that no table can be made of is raised where no mirror is named.

    Raises:
        ConfigError: a name that no table has.
        SourceUnavailable: there are globs, and the topics cannot be listed.
        CdcError: as `refuse` says, or no table can be made of any topic.
    """
    found = tables_of(config, source or open_source(config.source), names)
    if refuse and found.refused:
        raise found.refused[0].error
    return _asked(found, names)


def _asked(found: ResolvedTables, names: Sequence[str]) -> tuple[TableConfig, ...]:
    return tuple(table for table in found.tables if not names or str(table.mirror) in names)


def read_status(config: Config, as_of: datetime, names: Sequence[str] = ()) -> StatusReport:
    """Say where each table stands.

    What goes wrong with one table, or with its topic, is told in its entry; what can be known is there all the same.

    Args:
        config: from `load_config`.
        as_of: the time, with a zone.
        names: the mirrors; all for none.

    Raises:
        CdcError: nothing can be said of any table: the configuration is wrong, or the catalog's kind needs Spark.
    """
    source = open_source(config.source)
    found = tables_of(config, source, names)
    lake = open_tables(config.catalog)
    topics = Topics(source)
    rule = Rule.of(config.maintenance)
    entries = [_table_status(table, lake, topics, as_of, rule) for table in _asked(found, names)]
    entries += [TableStatus(table=one.topic, topic=one.topic, error=ErrorInfo.of(one.error)) for one in found.refused]
    return StatusReport(pipeline=config.name, as_of=as_of, tables=entries)


def exit_code(found: StatusReport) -> int:
    """0 as long as anything could be read; else the worst of what went wrong."""
    failures = [table.error for table in found.tables]
    if not failures or None in failures or any(table.published for table in found.tables):
        return EXIT_DONE
    return worst_exit_code(exit_code_of_error(error) for error in failures if error)


def exit_code_of(found: VerifyReport) -> int:
    """0 if every mirror equals its fold, or was repaired; 8 if one does not; for tables that failed, their errors'."""
    codes = [
        exit_code_of_error(table.error) if table.error else DifferenceFound.exit_code
        for table in found.tables
        if table.error or not (table.equal or table.repaired_snapshot)
    ]
    return worst_exit_code(codes)


def exit_code_of_replay(found: ReplayReport) -> int:
    """0 where to publish would change nothing, or was done; 8 or the errors' codes otherwise."""
    codes = [
        exit_code_of_error(table.error) if table.error else DifferenceFound.exit_code
        for table in found.tables
        if table.error or (table.changes and not (table.published or table.rolled_back or table.forgotten))
    ]
    return worst_exit_code(codes)


def exit_code_of_error(error: ErrorInfo) -> int:
    """The exit code of an error as a report tells it."""
    return _exit_codes().get(error.code, DifferenceFound.exit_code)


def _exit_codes() -> Mapping[str, int]:
    """Exit codes by what an `ErrorInfo` calls an error: its violation code, the name of its class, or a bug."""
    known = {"BUG": EXIT_BUG}
    classes = [CdcError]
    for cls in classes:
        known[cls.__name__] = cls.exit_code
        if cls.code is not None:
            known[cls.code] = cls.exit_code
        classes += cls.__subclasses__()
    return known


@dataclass(frozen=True)
class _Stored:
    """What the catalog tells of one table."""

    table: Table
    marker: Marker | None

    @property
    def summary(self) -> Mapping[str, str]:
        """The totals that Iceberg keeps in the current snapshot."""
        head = self.table.current_snapshot()
        return head.summary.additional_properties if head is not None and head.summary is not None else {}

    def total(self, name: str) -> int:
        """One of those totals; 0 where there is none."""
        return int(self.summary.get(f"total-{name}", 0))

    @property
    def lines(self) -> Sequence[SnapshotLine]:
        """The snapshots of main that are kept, newest first."""
        return main_line(snapshots_of(self.table), self.table.metadata.current_snapshot_id)

    @property
    def marked(self) -> Snapshot | None:
        """The newest snapshot that carries the marker's batch."""
        return max(self._own, key=lambda snapshot: snapshot.timestamp_ms, default=None)

    @property
    def published(self) -> Snapshot | None:
        """The snapshot with which that batch was published: the first with its marker; maintenance repeats it."""
        marked = [s for s in self._own if s.summary and "cdcm.version" in s.summary.additional_properties]
        return min(marked, key=lambda snapshot: snapshot.timestamp_ms, default=None)

    @property
    def _own(self) -> list[Snapshot]:
        batch = self.marker.batch if self.marker is not None else None
        lines = [snapshot for snapshot in self.table.metadata.snapshots if snapshot.summary is not None]
        return [
            s
            for s in lines
            if batch is not None and s.summary and s.summary.additional_properties.get("cdcm.batch") == batch
        ]


def _stored(lake: Tables, name: TableName) -> _Stored | None:
    table = lake.load(name)
    return None if table is None else _Stored(table, lake.marker(table))


def _table_status(table: TableConfig, lake: Tables, topics: Topics, as_of: datetime, rule: Rule) -> TableStatus:
    known: dict[str, object] = {"table": str(table.mirror), "topic": table.topic}
    error: CdcError | None = None
    raw: _Stored | None = None
    mirror: _Stored | None = None
    try:
        raw, mirror = _stored(lake, table.mirror.raw), _stored(lake, table.mirror)
        known |= _of_raw(raw) | _of_mirror(mirror, raw, rule)
        known |= _of_quarantine(lake, table.mirror.quarantine, known.get("messages"))
        known["foreign_commits"] = sum(len(foreign(one.lines)) for one in (raw, mirror) if one is not None)
    except CdcError as failure:
        error = failure
    try:
        landed = raw.marker if raw is not None else None
        topic = as_raw_counts(asked_again(topics.source, table, topics.state(table), landed), landed)
        known["ends"] = as_json(topic.ends)
        # Of a topic that was made again, or cut, the ends say nothing about how far the mirror is behind.
        plan_reading(table, topic, landed)
        known |= _lag(topic, _published(mirror, raw), mirror, as_of)
    except CdcError as failure:
        error = error or failure
    known |= _promised(table, known.get("lag_seconds"))
    if error is not None:
        known["error"] = ErrorInfo.of(error)
    return TableStatus.model_validate(known)


def _promised(table: TableConfig, lag: object) -> dict[str, object]:
    """How far behind the contract lets the table be, and whether it is further."""
    if table.contract is None:
        return {}
    from cdc_materializer.contract import load_contract

    try:
        freshness = load_contract(table.contract, str(table.mirror)).freshness
    except ContractInvalid:  # `run` and `contract lint` say so
        return {}
    if freshness is None:
        return {}
    seconds = freshness.total_seconds()
    return {"freshness_seconds": seconds, "late": lag > seconds if isinstance(lag, float) else None}


def _of_raw(raw: _Stored | None) -> dict[str, object]:
    if raw is None:
        return {}
    marked = raw.marked
    return {
        "messages": raw.total("records"),
        "landed": as_json(raw.marker.in_topic(raw.marker.offsets)) if raw.marker else {},
        "raw_snapshot": marked.snapshot_id if marked else None,
    }


def _of_mirror(mirror: _Stored | None, raw: _Stored | None, rule: Rule) -> dict[str, object]:
    if mirror is None:
        return {}
    marked, is_partitioned = mirror.marked, bool(mirror.table.spec().fields)
    return {
        "rows": rows_in(mirror.summary),
        "published": as_json(_published(mirror, raw) or {}),
        "last_publish": _published_at(mirror),
        "mirror_snapshot": marked.snapshot_id if marked else None,
        "files": FileHealth(
            data_files=mirror.total("data-files"),
            delete_files=mirror.total("delete-files"),
            bytes=mirror.total("files-size"),
            snapshots=len(mirror.table.metadata.snapshots),
            hint=hint(mirror.summary, len(mirror.table.metadata.snapshots), rule, is_partitioned=is_partitioned),
        ),
    }


def _published(mirror: _Stored | None, raw: _Stored | None) -> Offsets | None:
    """The next offset of each partition that the mirror has not got, as the topic counts; see `Marker.bases`."""
    if mirror is None or mirror.marker is None:
        return None
    return raw.marker.in_topic(mirror.marker.offsets) if raw is not None and raw.marker else mirror.marker.offsets


def _published_at(mirror: _Stored) -> datetime | None:
    marked = mirror.published
    return datetime.fromtimestamp(marked.timestamp_ms / _MILLISECONDS, UTC) if marked is not None else None


def _of_quarantine(lake: Tables, name: TableName, messages: object) -> dict[str, object]:
    rows = lake.values_of(name, ["topic", "partition", "offset", "status", "detected_at", "batch_id"]) or ()
    still_open = [row for row in rows if row["status"] == OPEN]
    waiting = [row for row in still_open if not is_of_table(row)]
    held = held_messages(waiting)
    return {
        "quarantine_open": len(still_open),
        "held": held,
        "held_share": min(1.0, held / messages) if isinstance(messages, int) and messages else None,
        "held_since": min((at for row in waiting if (at := in_utc(row["detected_at"])) is not None), default=None),
    }


def _lag(topic: TopicState, published: Offsets | None, mirror: _Stored | None, as_of: datetime) -> dict[str, object]:
    """How far the mirror is behind its topic; messages are an upper bound, as offsets can have holes.

    The age of the data is that of the newest change in the mirror: while a long backlog is worked off, the last publish
    is always a moment ago, and what it published can be days old.
    """
    start = published or topic.beginnings
    behind = sum(max(end - start.get(number, topic.beginnings[number]), 0) for number, end in topic.ends.items())
    at = _newest_change(mirror) or _published_at(mirror) if mirror is not None else None
    seconds = None if at is None else (as_of - at).total_seconds()
    return {
        "lag_messages": behind,
        "lag_seconds": 0.0 if behind == 0 else seconds and round(max(seconds, 0.0), 3),
    }


def _newest_change(mirror: _Stored) -> datetime | None:
    """When the source made the newest change that was published; None where it tells no times."""
    times = mirror.marker.times.values() if mirror.marker is not None else ()
    return _EPOCH + timedelta(microseconds=max(times)) if times else None


def as_json(offsets: Mapping[int, int]) -> dict[str, int]:
    """Return offsets by the partition's number as text, as JSON documents have them."""
    return {str(partition): offset for partition, offset in offsets.items()}
