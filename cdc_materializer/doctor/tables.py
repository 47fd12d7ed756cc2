"""The part of `cdcm doctor` that looks at one table: raw, mirror, quarantine, history, their markers and the topic."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.catalog.catalog import Tables, snapshots_of
from cdc_materializer.catalog.local_table import partition_field
from cdc_materializer.config import TableConfig
from cdc_materializer.config.readers import who_cannot_read
from cdc_materializer.contract.model import Limit
from cdc_materializer.errors import (
    EXIT_BLOCKED,
    EXIT_LAKE,
    EXIT_REWOUND,
    EXIT_USAGE,
    MAX_QUARANTINED,
    UNJUDGED,
    Code,
    Handling,
    InvariantBroken,
    SourceRewound,
)
from cdc_materializer.invariants import broken_between, broken_in, foreign, lost_quarantine
from cdc_materializer.marker.marker import GENESIS_TAG, Marker
from cdc_materializer.names import TableName, nearest, ordered_column, recovery, shown
from cdc_materializer.progress import asked_again, plan_reading
from cdc_materializer.report.groups import OPEN
from cdc_materializer.report.setup_models import DoctorCheck
from cdc_materializer.report.wording import quantity
from cdc_materializer.source import Source, TopicState

if TYPE_CHECKING:
    import pyarrow as pa


def check_table(
    pipeline: str,
    table: TableConfig,
    lake: Tables,
    topic: TopicState | None,
    limit: Limit | None = None,
    source: Source | None = None,
) -> Iterator[DoctorCheck]:
    """Look at a mirror and the tables beside it.

    Args:
        pipeline: the pipeline's name.
        table: the table's settings.
        lake: the catalog.
        topic: where the topic begins and ends; None where it cannot be asked.
        limit: how much of a batch the contract lets be held; None: any.
        source: where the topic is asked again if a run has landed more of it since; None where it cannot be.

    Raises:
        LakeUnavailable: a table cannot be read.
    """
    name = str(table.mirror)
    # Raw last: beside a follower, which lands before it publishes, an earlier look at raw is behind the mirror.
    mirror_faults, mirror = _marker(lake, table.mirror, name)
    held_faults, held = _marker(lake, table.mirror.quarantine, name)
    history_faults, history = _marker(lake, table.mirror.history, name)
    raw_faults, raw = _marker(lake, table.mirror.raw, name)
    faults = [*raw_faults, *mirror_faults, *held_faults, *history_faults]
    faults += _invariants(table, lake, raw, mirror, {table.mirror.quarantine: held, table.mirror.history: history})
    if not faults and raw is None and mirror is None:
        yield DoctorCheck(name="tables", outcome="ok", message="Not there yet; the first run makes them.", table=name)
        return
    faults += _origin(pipeline, table, raw, mirror)
    faults += _not_there(table, lake)
    faults += _laid_out_otherwise(table, lake)
    faults += _made_otherwise(table, lake)
    lost = [*_losses(table, topic, raw, source)]
    stops = list(_stops(lake, table, limit))
    faults += lost or stops
    if not any(fault.outcome == "problem" for fault in stops):
        faults += _near(limit, mirror, name)
    if not any(fault.outcome == "problem" for fault in faults):
        message = f"Raw got to {_reached(raw)}, the mirror to {_reached(mirror)}."
        yield DoctorCheck(name="tables", outcome="ok", message=message, table=name)
    yield from faults


def check_rows(table: TableConfig, lake: Tables) -> Iterator[DoctorCheck]:
    """Look through the keys of a mirror's rows: each has to be there once, and whole.

    Reads the key columns of all rows into memory, and nothing else.

    Args:
        table: the table's settings.
        lake: the catalog.

    Raises:
        LakeUnavailable: the mirror cannot be read.
    """
    name = str(table.mirror)
    mirror = lake.load(table.mirror)
    key = sorted(mirror.schema().identifier_field_names()) if mirror is not None else []
    if mirror is None or not key:
        return
    keys = lake.rows(mirror, key)
    nulls, doubled = _faults(keys) if len(keys) else (0, 0)
    if doubled:
        do = f"`cdcm verify --table {name} --repair` puts them right, and says what else differs."
        yield _broken(f"More than one row: {quantity(doubled, 'key')} of {name}.", do, name)
    if nulls:
        do = f"Another program wrote them: `cdcm replay {name} --publish` rebuilds the mirror from raw."
        yield _broken(f"No whole key: {quantity(nulls, 'row')} of {name}.", do, name)
    if not doubled and not nulls:
        message = f"{quantity(len(keys), 'row')}, each with a key of its own."
        yield DoctorCheck(name="rows", outcome="ok", message=message, table=name)


def _faults(keys: pa.Table) -> tuple[int, int]:
    """How many rows lack a part of their key, and how many keys have more than one row."""
    import pyarrow.compute as pc

    lacking = functools.reduce(pc.or_, [pc.is_null(column) for column in keys.columns])
    counts = keys.group_by(keys.column_names).aggregate([([], "count_all")])["count_all"]
    return pc.sum(lacking).as_py(), pc.sum(pc.greater(counts, 1)).as_py()


def _marker(lake: Tables, table: TableName, name: str) -> tuple[list[DoctorCheck], Marker | None]:
    """The marker of a table, and what is wrong with it: unreadable, missing, or followed by another writer's rows."""
    lines = lake.lines_of(table)
    try:
        marker = lake.marker_of(table)
    except InvariantBroken as error:
        return [_broken(f"The marker of {table} cannot be read: {error.what}", error.do, name)], None
    if marker is None:
        if not foreign(lines):
            return [], None
        what = f"{table} has rows and no marker: something else wrote them, or the snapshot that had it was expired."
        do = recovery(table)
        return [_broken(what, do, name)], None
    others = foreign(lines)
    if others:
        commits, by = quantity(len(others), "commit"), shown(others[0].summary.get("engine-name", "an unnamed engine"))
        what = f"{table} was changed by {commits} of another program, the last {others[0].at:%Y-%m-%d %H:%M} by {by}."
        rebuild = f"`cdcm replay {name} --publish`"
        do = f"Stop the other writer, then compare with `cdcm verify`; {rebuild} rebuilds the mirror from raw."
        return [DoctorCheck(name="tables", outcome="warning", message=what, do=do, table=name)], marker
    return [], marker


def _invariants(
    table: TableConfig,
    lake: Tables,
    raw: Marker | None,
    mirror: Marker | None,
    beside: Mapping[TableName, Marker | None],
) -> Iterator[DoctorCheck]:
    """What must hold and does not; of a table whose marker cannot be read that was said."""
    name = str(table.mirror)
    found = [*broken_between(name, lake.uuid_of(table.mirror.raw), raw, mirror)]
    for one, marker in {table.mirror.raw: raw, table.mirror: mirror, **beside}.items():
        if marker is not None:
            begun = _begun_at(lake, one) if one == table.mirror.raw else None
            found += broken_in(str(one), lake.lines_of(one), is_raw=one == table.mirror.raw, begun=begun)
    do = (
        "Restore raw from a snapshot or a backup, and compare with `cdcm verify`; the mirror can be made from raw anew."
    )
    yield from (_broken(what, do, name) for what in found)
    do = f"Bring it back, or find in raw again what is held: `cdcm replay {name} --publish`."
    lost = lost_quarantine(name, lake.uuid_of(table.mirror.quarantine), mirror)
    yield from (_broken(what, do, name) for what in lost)


def _begun_at(lake: Tables, raw: TableName) -> Mapping[int, int] | None:
    """The offsets that a raw table was begun at, by the tag that keeps its first snapshot; None without it."""
    stored = lake.load(raw)
    kept = stored.metadata.refs.get(GENESIS_TAG) if stored is not None else None
    if stored is None or kept is None:
        return None
    first = next((one for one in snapshots_of(stored) if one.snapshot_id == kept.snapshot_id), None)
    marker = Marker.from_summary(first.summary) if first is not None else None
    return marker.offsets if marker is not None else None


def _origin(pipeline: str, table: TableConfig, raw: Marker | None, mirror: Marker | None) -> Iterator[DoctorCheck]:
    """Whether raw and mirror belong to this pipeline and topic."""
    name = str(table.mirror)
    for marker in (raw, mirror):
        if marker is None:
            continue
        for told, known, noun in ((marker.pipeline, pipeline, "pipeline"), (marker.topic, table.topic, "topic")):
            if told != known:
                what = f"The table was written by the {noun} {told}, and the file says {known}."
                do = f"Give the table another `mirror`, or the {noun} its earlier name."
                yield DoctorCheck(name="tables", outcome="warning", message=what, do=do, table=name)
                return


def _not_there(table: TableConfig, lake: Tables) -> Iterator[DoctorCheck]:
    """Names in `always_known` that are no column of the mirror: what they were to say of one is not done."""
    name = str(table.mirror)
    found = lake.columns_of(table.mirror) if table.always_known else None
    if found is None:
        return
    for one in table.always_known:
        if one not in found[0]:
            near = nearest(one, found[0])
            what = f"`always_known` names {shown(one)}, and {name} has no column of that name."
            do = f"Did you mean {near}?" if near else "Leave it out, or write it as the mirror does."
            yield DoctorCheck(name="settings", outcome="warning", message=what, do=do, table=name)


def _laid_out_otherwise(table: TableConfig, lake: Tables) -> Iterator[DoctorCheck]:
    """Whether the mirror is partitioned otherwise than the file says, which only a new mirror follows."""
    asked = [partition_field(text) for text in table.partitioned_by]
    found = lake.partitions_of(table.mirror) if asked else None
    if found is None or [one.casefold() for one in found] == [one.casefold() for one in asked]:
        return
    name, by = str(table.mirror), f"by {', '.join(found)}" if found else "by nothing"
    what = f"{name} is partitioned {by}, and `partitioned_by` says {', '.join(asked)}."
    do = "It holds for a new mirror only. Change the table's partition fields by SQL (`ALTER TABLE`), or the file."
    yield DoctorCheck(name="settings", outcome="warning", message=what, do=do, table=name)


def _made_otherwise(table: TableConfig, lake: Tables) -> Iterator[DoctorCheck]:
    """Whether the mirror was made for other readers, in another order or with other properties than the file says."""
    is_asked = table.readers or table.properties or table.sorted_by
    mirror = lake.load(table.mirror) if is_asked else None
    if mirror is None:
        return
    name, made = str(table.mirror), {**mirror.properties, "format-version": str(mirror.format_version)}
    unable = who_cannot_read(table.readers, made)
    if unable:
        what = f"{name} was made in a way that {', '.join(unable)} cannot read, and `readers` names them."
        do = "Mirror the topic under another `mirror` name, which is made for them, or take them out of `readers`."
        yield DoctorCheck(name="settings", outcome="problem", message=what, do=do, table=name, exit_code=EXIT_USAGE)
    others = sorted(option for option, value in table.properties.items() if made.get(option) != value)
    if others:
        what = f"{name} has other values of {', '.join(others)} than `properties` says."
        do = "It holds for a new mirror only. Change the table by SQL (`ALTER TABLE … SET TBLPROPERTIES`), or the file."
        yield DoctorCheck(name="settings", outcome="warning", message=what, do=do, table=name)
    ordered = [str(mirror.schema().find_column_name(field.source_id)) for field in mirror.sort_order().fields]
    asked = [ordered_column(text) for text in table.sorted_by]
    if asked and [one.casefold() for one in ordered] != [one.casefold() for one in asked]:
        by = f"by {', '.join(ordered)}" if ordered else "by nothing"
        what = f"{name} is sorted {by}, and `sorted_by` says {', '.join(asked)}."
        do = "It holds for a new mirror only. Change the table by SQL (`ALTER TABLE … WRITE ORDERED BY`), or the file."
        yield DoctorCheck(name="settings", outcome="warning", message=what, do=do, table=name)


def _losses(
    table: TableConfig, topic: TopicState | None, raw: Marker | None, source: Source | None
) -> Iterator[DoctorCheck]:
    """Whether the topic still has what raw waits for."""
    if topic is None or raw is None:
        return
    try:
        plan_reading(table, topic if source is None else asked_again(source, table, topic, raw), raw)
    except SourceRewound as loss:
        yield DoctorCheck(
            name="topic",
            outcome="problem",
            message=f"{loss.code}: {loss.what}",
            do=loss.do,
            table=str(table.mirror),
            exit_code=loss.exit_code,
        )


def _stops(lake: Tables, table: TableConfig, limit: Limit | None) -> Iterator[DoctorCheck]:
    """Stops that are open in quarantine, and what else it holds."""
    rows = lake.values_of(table.mirror.quarantine, ["code", "status", "action", "rule"]) or []
    waiting = [row for row in rows if row["status"] == OPEN]
    name = str(table.mirror)
    rules = {str(row["rule"]): row["action"] for row in waiting if _blocks(row)}
    for rule, action in rules.items():
        is_unjudged = action == UNJUDGED
        blocks = "cannot be judged and blocks" if is_unjudged else "blocks"
        what = f"The contract's rule {rule} {blocks} the newest batch; nothing of it is published."
        if rule == MAX_QUARANTINED:
            allowed = f" ({limit})" if limit is not None else ""
            what = f"The newest batch would hold more of its messages than the contract allows{allowed}."
        mend = "mend the rule" if is_unjudged else "mend the data or the rule"
        do = f"See `cdcm report --table {name}`, {mend}, and run again."
        yield DoctorCheck(name="quarantine", outcome="problem", message=what, do=do, table=name, exit_code=EXIT_BLOCKED)
    codes = [row["code"] for row in waiting if not _blocks(row)]
    for code in dict.fromkeys(code for code in codes if _is_stop(code)):
        accepted = code != Code.DUPLICATE_COLUMN
        do = f"Decide, then `cdcm adopt {name}`." if accepted else "Rename a column in the source, then `cdcm run`."
        yield DoctorCheck(
            name="quarantine",
            outcome="problem",
            message=f"{code} has stopped the table. {Code(code).explanation}",
            do=do,
            table=name,
            exit_code=EXIT_REWOUND if accepted else EXIT_USAGE,
        )
    held = [code for code in codes if not _is_stop(code)]
    if held:
        message = f"Open violations: {', '.join(f'{code} × {count}' for code, count in sorted(Counter(held).items()))}."
        yield DoctorCheck(name="quarantine", outcome="warning", message=message, do="See `cdcm report`.", table=name)


def _blocks(row: Mapping[str, Any]) -> bool:
    """Whether a row tells that a rule about a batch or the table blocks it."""
    return bool(row["code"] == Code.CONTRACT and row["action"] in {"stop", UNJUDGED})


def _near(limit: Limit | None, mirror: Marker | None, name: str) -> Iterator[DoctorCheck]:
    """Say that the newest batch held more than half of what its contract allows."""
    counts = mirror.counts if mirror is not None else {}
    held, read = counts.get("quarantined", 0), counts.get("read", 0)
    if limit is None or not held or not limit.is_exceeded(2 * held, read):
        return
    message = f"The newest batch held {held} of its {quantity(read, 'message')}; with more than {limit} it stops."
    do = f"See `cdcm report --table {name}` for what is held and why."
    yield DoctorCheck(name="quarantine", outcome="warning", message=message, do=do, table=name)


def _is_stop(code: str) -> bool:
    return code in set(Code) and Code(code).handling is Handling.STOP


def _broken(what: str, do: str, name: str) -> DoctorCheck:
    return DoctorCheck(name="tables", outcome="problem", message=what, do=do, table=name, exit_code=EXIT_LAKE)


def _reached(marker: Marker | None) -> str:
    """Where a table goes on, as partition/offset."""
    return ", ".join(f"{p}/{offset}" for p, offset in (marker.offsets.items() if marker else ())) or "nothing yet"
