"""What a line's tables are refused for before anything is read: what they say would not fit what is done to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cdc_materializer.config.readers import who_cannot_read
from cdc_materializer.errors import ConfigError, ContractInvalid, LakeUnavailable, SchemaRefused
from cdc_materializer.invariants import cut_in
from cdc_materializer.lake.columns import REBUILT_PREFIX
from cdc_materializer.lake.commit import newest_marker
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import snapshots_of
from cdc_materializer.lake.metadata import columns_by_id, derived_partitions, format_of
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.names import LAYOUT_FIELD, same_name
from cdc_materializer.schema.keys import paths_inside
from cdc_materializer.schema.schema import TableSchema

#: The columns of raw that a table of an earlier version lacks: none of its messages had a schema that a header names.
_OF_LATER_VERSIONS = frozenset({"key_schema_name", "value_schema_name"})

_MOMENTS = ("timestamp", "timestamp_ntz")
_WHOLE_OR_TEXT = ("int", "bigint", "decimal", "string", "binary")
#: The types that Iceberg's transforms take; a column by itself may have any that has no parts.
_UNITS = ("years", "months", "days", "hours")
_TAKEN: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNITS, ("date", *_MOMENTS)),
    "hours": _MOMENTS,
    "truncate": _WHOLE_OR_TEXT,
    "bucket": (*_WHOLE_OR_TEXT, "date", *_MOMENTS),
}
#: What it puts behind a column's name to call a partition field.
_ENDINGS = {unit: unit.removesuffix("s") for unit in _UNITS} | {"truncate": "trunc", "bucket": "bucket"}


def check_pair(tables: Tables) -> None:
    """Refuse a mirror that says more than raw, that another raw table was folded into, or whose quarantine is gone.

    Raises:
        LakeUnavailable: raw was replaced, emptied or rolled back since, or quarantine was dropped or replaced.
        ConfigError: the history lacks what was published while it was switched off.
    """
    if tables.mirror is None or tables.mirror.marker is None:
        return
    marker, raw = tables.mirror.marker, tables.raw
    do = "Nothing was written. Bring raw back, or move the mirror away: the next run makes it again from what raw has."
    if raw is None or marker.raw_table not in (None, raw.uuid):
        raise LakeUnavailable(f"{tables.mirror.name} was folded from a raw table that is gone.", do)
    reached = marker_of(raw).offsets
    ahead = [partition for partition, offset in marker.offsets.items() if offset > reached.get(partition, 0)]
    if ahead:
        what = f"{tables.mirror.name} has messages of partition {ahead[0]} that {raw.name} has not: raw went back."
        raise LakeUnavailable(what, do)
    if marker.held_table not in (None, tables.quarantine.uuid if tables.quarantine is not None else ""):
        name = tables.mirror.name
        what = f"{name.quarantine} is gone, or another table, and nothing else tells what is held of {name}."
        raise LakeUnavailable(
            what,
            f"Nothing was written. Bring it back, or find in raw again what is held: `cdcm replay {name} --publish`.",
        )
    # One that was switched on just now begins where the mirror is, and a killed batch leaves it ahead.
    if tables.history is not None and marker.unkept and marker.offsets.is_ahead_of(marker_of(tables.history).offsets):
        name = tables.history.name
        what = f"{name} was switched off for a while, and lacks what became of the rows meanwhile. Nothing was written."
        raise ConfigError(what, f"Set `history: false`, or rename {name} or drop it: then another one begins.")


def check_whole(line: Line, raw: LakeTable) -> None:
    """Refuse to fold a raw table of which another program has taken messages: the result would not be what was sent.

    Raises:
        LakeUnavailable: says which snapshot has them still.
    """
    cut = cut_in(snapshots_of(line.lake.iceberg(raw.name), raw.head))
    if cut is not None:
        raise LakeUnavailable(*cut.told(str(raw.name)))


def check_raw(raw: LakeTable) -> None:
    """Refuse to land in a raw table that another program has taken columns from.

    Begun anew (`raw_columns`) they would be empty: every message that is there would be a tombstone to a replay.

    Raises:
        LakeUnavailable: says which columns, and what to do.
    """
    lost = [name for name in raw.dropped if name not in _OF_LATER_VERSIONS]
    if lost:
        what = f"Another program has dropped or renamed {', '.join(lost)} of {raw.name}. Nothing was written."
        do = "Give a renamed one its name back. What was dropped is in the table's metadata from before: register that."
        raise LakeUnavailable(what, do)


def check_deletes(line: Line, mirror: LakeTable | None) -> None:
    """Refuse a mirror that was made under the other setting of `deletes`: it would hold one kind of row for a while."""
    if mirror is None or mirror.keeps_deleted == line.is_soft:
        return
    made, asked = ("soft", "hard") if mirror.keeps_deleted else ("hard", "soft")
    what = f"{line.mirror} was made with `deletes: {made}`, and pipeline.yaml says `{asked}`. Nothing was written."
    raise ConfigError(what, f"Set `deletes: {made}`, or mirror the topic under another `mirror` name.")


def check_columns(mirror: LakeTable | None, wanted: TableSchema) -> None:
    """Refuse to fill a column that another program has dropped or renamed: all rows from before would show NULL in it.

    Args:
        mirror: the mirror as it is; None where there is none.
        wanted: the columns that it would have after the batch.

    Raises:
        LakeUnavailable: says which columns, and what to do.
    """
    there = {name.casefold() for column in wanted.columns for name in (column.name, *column.former)}
    there |= {".".join(path).casefold() for path in paths_inside(wanted)}
    if mirror is not None:
        check_dropped(mirror, [name for name in mirror.dropped if name.casefold() in there])


def check_layout(line: Line, mirror: LakeTable | None, wanted: TableSchema, *, writes: bool = True) -> None:
    """Refuse a mirror that cannot be what its contract and its settings say of its key, readers and layout.

    With a `partitioned_by` or `sorted_by` that its columns do not allow it would be half made.

    Args:
        line: the table's way.
        mirror: the mirror as it is; None where there is none, and one that is there keeps its layout.
        wanted: the columns that it has after the batch.
        writes: whether the batch is to be published, rather than judged alone.

    Raises:
        ConfigError: names the readers that cannot read the mirror that is there.
        SchemaRefused: names the setting, and each field that the table cannot have; or new columns that are called as
            fields of its partitions are.
        ContractInvalid: names the primary key, in which values may come twice.
    """
    _check_key(line, wanted)
    if mirror is not None:
        if writes:
            _check_readers(line, mirror)
        _check_new_columns(line, mirror, wanted)
        return
    if not wanted.key:
        return
    partitions = line.table.partitioned_by
    for setting, fields in (("partitioned_by", partitions), ("sorted_by", line.table.sorted_by)):
        wrong = [fault for text in fields if (fault := _fault(text, wanted)) is not None]
        wrong += _partition_faults(fields, wanted) if fields is partitions else []
        if wrong:
            what = f"`{setting}` asks for what {line.mirror} cannot have: {'; '.join(wrong)}. Nothing was made."
            raise SchemaRefused(what, f"Mend `{setting}` in pipeline.yaml; `cdcm run --plan` shows the columns.")


def _check_readers(line: Line, mirror: LakeTable) -> None:
    """Refuse a mirror that was made for other readers: these cannot read in what way its rows are deleted."""
    if not line.table.readers:
        return
    unable = who_cannot_read(line.table.readers, format_of(line.lake.iceberg(mirror.name)))
    if unable:
        what = f"{mirror.name} was made in a way that {', '.join(unable)} cannot read, and `readers` names them."
        do = (
            "Mirror the topic under another `mirror` name, which is made for them, or take them out of `readers`. The "
            "mirror was not changed; raw keeps the messages."
        )
        raise ConfigError(what, do)


def _check_new_columns(line: Line, mirror: LakeTable, wanted: TableSchema) -> None:
    """Refuse columns of whose names Iceberg has made names of partition fields: it takes none of these."""
    added = wanted.types.keys() - mirror.schema.types.keys()
    taken = sorted(added & derived_partitions(line.lake.iceberg(mirror.name))) if added else []
    if taken:
        what = (
            f"{mirror.name} is partitioned by fields that Iceberg calls {', '.join(taken)}, as new columns are called."
        )
        do = (
            "Rename them in the source, leave them out with the connector's `column.exclude.list`, or mirror the topic "
            "under another `mirror` name with another `partitioned_by`. Nothing was published; raw keeps the messages."
        )
        raise SchemaRefused(what, do)


def _check_key(line: Line, wanted: TableSchema) -> None:
    """Refuse a primary key of the contract that is without a column of the key: two rows could have one value of it."""
    contract, key = line.contract, line.table.key_in_rows(wanted.key)
    if contract is None or not contract.lacks_of_key(key):
        return
    stated = [column for column in contract.columns if column.primary_key]
    place = contract.path.name if stated[0].line is None else f"{contract.path.name}:{stated[0].line}"
    what = (
        f"Contract {place}: the primary key is {', '.join(column.name for column in stated)}, and {line.mirror} tells "
        f"rows apart by {', '.join(key)}: what the contract calls a key may come twice. The mirror was not "
        "changed; raw keeps the messages."
    )
    do = "Mark every column of the table's key with primaryKey; say of what is unique besides that it is `unique`."
    raise ContractInvalid(what, do)


def _fault(text: str, wanted: TableSchema) -> str | None:
    found = LAYOUT_FIELD.fullmatch(text)
    transform, name = found.groups() if found is not None else (None, text)
    ddl = next((one.type for one in wanted.columns if same_name(one.name, name)), None)
    if ddl is None:
        return f"there is no column `{name}`"
    taken = _TAKEN.get(transform or "")
    kind = ddl.partition("<")[0].partition("(")[0]
    if "<" in ddl or (taken is not None and kind not in taken):
        return f"`{text}`, of a column of type {kind}"
    return None


def _partition_faults(fields: Sequence[str], wanted: TableSchema) -> list[str]:
    """What Iceberg refuses of fields together: two of one name, two units of time, one that is called as a column."""
    found: list[str] = []
    names: set[str] = set()
    for text in fields:
        match = LAYOUT_FIELD.fullmatch(text)
        transform, column = match.groups() if match is not None else (None, text)
        column = next((one for one in wanted.types if same_name(one, column)), column)
        ending = _ENDINGS.get(transform or "")
        name = f"{column}_{ending}" if ending else column
        kind = f"{column} by time" if transform in _UNITS else name
        if ending and name in wanted.types:
            found.append(f"`{text}`, which Iceberg calls `{name}` as there is a column of that name")
        elif names & {kind.lower(), name.lower()}:
            found.append(f"`{text}` beside another one like it")
        names |= {kind.lower(), name.lower()}
    return found


def check_dropped(mirror: LakeTable, lost: Collection[str]) -> None:
    """Refuse a mirror of which another program has dropped or renamed columns that the log still has.

    Raises:
        LakeUnavailable: says which columns, and what to do.
    """
    if lost:
        what = f"Another program has dropped or renamed {', '.join(lost)} of {mirror.name}, and the log still has it."
        do = (
            "Nothing was published. Give a renamed one its name back, or fill it again with "
            f"`cdcm replay {mirror.name} --publish`; for a mirror without it, give it `drop` in the contract first."
        )
        raise LakeUnavailable(what, do)


def check_masks(line: Line, mirror: LakeTable | None) -> None:
    """Refuse a mirror whose rows were masked otherwise: some of them would be hidden, and some would not.

    Raises:
        ContractInvalid: says which columns, and what to do; also where a renamed column would lose its mask.
    """
    line.masks.check_renamed(line.evolution.renames)
    if mirror is None:
        return
    types, stored = mirror.schema.types, line.masks.stored(mirror.schema).types
    retyped = sorted(name for name, ddl in types.items() if stored[name] != ddl)
    if retyped:
        what = f"The contract masks {', '.join(retyped)} as text, and {line.mirror} has another type. Nothing was read."
        do = f"`cdcm replay {line.mirror} --publish` rebuilds it; a mask of `null` keeps the type."
        raise ContractInvalid(what, do)
    changed = masked_otherwise(line, mirror)
    if changed:
        what = f"The rows of {line.mirror} were masked otherwise than the contract says: {', '.join(changed)}."
        raise ContractInvalid(what, f"`cdcm replay {line.mirror} --publish` rebuilds it; until then only raw goes on.")


def check_masks_then(line: Line, snapshot: int | None) -> None:
    """Refuse an earlier state of a mirror that shows what the contract hides by now; of the newest `check_masks` tells.

    Args:
        line: the table's way.
        snapshot: the state; None for all that are kept.

    Raises:
        ContractInvalid: says which columns, and what to do.
    """
    if not line.masks.methods:
        return
    table = line.lake.iceberg(line.mirror)
    newest = table.currentSnapshot()
    for state in table.snapshots() if snapshot is None else [table.snapshot(snapshot)]:
        if state is None or state.snapshotId() == newest.snapshotId():
            continue
        marker = newest_marker(table, state)
        schema = table.schemas()[state.schemaId()]
        columns = [name.removeprefix(REBUILT_PREFIX) for name in columns_by_id(schema).values()]
        shown = line.masks.unhidden(marker.masks if marker is not None else {}, columns, line.evolution.renames)
        if shown:
            of = f"{', '.join(shown)} in snapshot {state.snapshotId()}"
            what = f"{line.mirror} did not mask {of} as the contract says now."
            raise ContractInvalid(what, "Ask for a later state; `cdcm maintain` lets go of those that are old enough.")


def masked_otherwise(line: Line, state: LakeTable) -> list[str]:
    """The columns that a state of the mirror stores otherwise than the contract masks them."""
    # Under a name of ours the rows of a rebuilt column were written, masked as the column is.
    then = {name: old.removeprefix(REBUILT_PREFIX) for name, old in state.stored.then.items()}
    return line.masks.changed(marker_of(state).masks, state.schema.types, then)
