"""The columns of a mirror, and how they may change.

Pure: a schema is a tuple of names and Spark DDL types (`bigint`, `decimal(12,2)`, `array<string>`), so that a plan can
be computed, compared and shown without Spark. Which type takes the values of which is told in `schema.types`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_materializer.errors import SchemaRefused
from cdc_materializer.names import check_apart, shown
from cdc_materializer.schema.keys import check_table, key_of
from cdc_materializer.schema.types import (
    TYPE_WORD,
    becomes,
    entry_of,
    fields_of,
    item_of,
    merge_types,
    type_word,
    widest,
)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: as the source spells it, or as `renames` does.
        type: its Spark DDL type.
        doc: the source's comment, if there is one.
        beside: the column beside which it stands for the values that that one's type cannot hold; None for others.
        former: the names that writers had for it before it was renamed.
        retyped: whether it was rebuilt with another type, so that it takes values of its former one (`decode.fit`).
        sent: of a writer's, the type that it sends by itself, where the contract's holds all of its values; else None.
        spare: of a writer's, the type of what stands beside the column where its type does not hold a value; else None.
    """

    name: str
    type: str
    doc: str | None = None
    beside: str | None = None
    former: tuple[str, ...] = ()
    retyped: bool = False
    sent: str | None = None
    spare: str | None = None

    @property
    def wire_names(self) -> tuple[str, ...]:
        """The names under which writers may tell it."""
        return (self.beside or self.name, *self.former)


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table in source order, and the names of those that identify a row."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """DDL type by column name."""
        return {column.name: column.type for column in self.columns}

    def column(self, name: str) -> Column:
        """A column by its name."""
        return next(column for column in self.columns if column.name == name)

    def beside(self, name: str, writer_type: str) -> str | None:
        """The column that takes what a writer of some type sends and a column cannot hold; None where there is none."""
        found = beside_name(name, writer_type)
        return next((column.name for column in self.columns if (column.name, column.beside) == (found, name)), None)


@dataclass(frozen=True)
class Evolution:
    """What a table's settings say of how its columns change.

    Attributes:
        new_columns: whether values that do not fit a column go into one beside it (`incompatible_schema: new_column`).
        renames: the name that a column has by the name that it had; the last one, where it was renamed again.
        aliases: whether aliases of registered schemas have told some of them.
    """

    new_columns: bool = False
    renames: Mapping[str, str] = field(default_factory=dict)
    aliases: bool = False

    @property
    def _says(self) -> str:
        return "By `renames` or aliases of registered schemas" if self.aliases else "`renames` says that"

    @property
    def _or_ignore(self) -> str:
        return ", or set `aliases: ignore`" if self.aliases else ""

    def former(self, name: str) -> tuple[str, ...]:
        """The names that a column had before."""
        return tuple(old for old, new in self.renames.items() if new == name)

    def of_writer(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """A writer's columns under the names that they have in the table.

        Raises:
            SchemaRefused: the writer has a column under two of its names, so it was not renamed.
            DuplicateColumn: two of its own names differ in case alone: a message of it could not be read.
        """
        check_apart([column.name for column in columns])
        names = {column.name: self.renames.get(column.name, column.name) for column in columns}
        both = [(old, new) for old, new in names.items() if old != new and list(names.values()).count(new) > 1]
        if both:
            what = f"{self._says} {_pairs(both)}, and there are messages that have both."
            do = f"Take that out of `renames` in pipeline.yaml{self._or_ignore}: they are two columns."
            raise SchemaRefused(what, do)
        named = [replace(column, name=names[column.name]) for column in columns]
        return tuple(replace(column, former=self.former(column.name)) for column in named)

    def of_table(self, schema: TableSchema) -> TableSchema:
        """A table's columns, each with the names that it had and whether it stands beside another."""
        names = [column.name for column in schema.columns]
        marked = [replace(column, former=self.former(column.name), beside=None) for column in schema.columns]
        for at, column in enumerate(marked if self.new_columns else ()):
            mains = [name for name in names if name not in schema.key and column.name.startswith(f"{name}__")]
            main = next((name for name in mains if beside_name(name, column.type) == column.name), None)
            if main is not None:
                marked[at] = replace(column, beside=main, former=self.former(main))
        return replace(schema, columns=tuple(marked))

    def pending(self, schema: TableSchema) -> tuple[tuple[str, str], ...]:
        """The columns of a table that are to be renamed, those beside them too: old and new name.

        Raises:
            SchemaRefused: the table has both already, or the column is one of its key.
        """
        names = {column.name for column in schema.columns}
        found = tuple((old, new) for old, new in self.renames.items() if old in names)
        both = [(old, new) for old, new in found if new in names]
        if both:
            what = f"{self._says} {_pairs(both)}, and the table has both columns. Nothing was written."
            do = "Drop the later one in the lake; a run renames the other, `cdcm replay TABLE --publish` fills it."
            raise SchemaRefused(what, do)
        keys = [(old, new) for old, new in found if old in schema.key]
        if keys:
            # Quarantine names rows by their keys, the columns' names in them.
            what = f"{self._says} {_pairs(keys)}, a column of the rows' key. Nothing was written."
            do = f"Take it out of `renames`{self._or_ignore}, or mirror the topic under another `mirror` name."
            raise SchemaRefused(what, do)
        besides = self.of_table(schema).columns if found else ()
        moved = [(one.name, beside_name(new, one.type)) for old, new in found for one in besides if one.beside == old]
        # The column last: those beside it are known by its name, also by a run that ends what was killed between.
        return (*moved, *found)

    def untold(self, names: Mapping[str, str | None], schema: TableSchema) -> dict[str, str | None]:
        """Of columns that were dropped or renamed those that were not renamed as is said here; what is beside them too.

        Args:
            names: the names that they have by now, by those that they had; None where they are gone.
            schema: the table's columns.
        """
        last = dict(self.renames)
        there = [column.type for column in schema.columns if self.new_columns and column.name in names.values()]
        for ddl in there:
            last |= {beside_name(old, ddl): beside_name(new, ddl) for old, new in self.renames.items()}
        return {old: now for old, now in names.items() if now is None or last.get(old, old) != last.get(now, now)}


def _pairs(renames: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{shown(old)}` is `{shown(new)}`" for old, new in renames)


def renamed(schema: TableSchema, pairs: Sequence[tuple[str, str]]) -> TableSchema:
    """A schema with some columns, none of its key, renamed from old to new."""
    names = dict(pairs)
    columns = [replace(column, name=names.get(column.name, column.name)) for column in schema.columns]
    return TableSchema(tuple(columns), schema.key)


@dataclass(frozen=True)
class Misfit:
    """A column that some writers give a type which the table's column cannot take in place.

    `becomes` is the column beside it that takes what does not fit; None where such values are held, or stop the table.
    """

    column: str
    table_type: str
    writer_type: str
    becomes: str | None = None


@dataclass(frozen=True)
class Change:
    """One change of a column or of a field inside one: its path, its type, and the one it had; None: it is added."""

    path: tuple[str, ...]
    type: str
    old: str | None = None


@dataclass(frozen=True)
class SchemaPlan:
    """What has to change before rows of the given writers can be stored; nothing when `is_empty`.

    Attributes:
        target: the columns as they are to be.
        added: those that are not there.
        widened: those whose type changes, with the type that they get.
        documented: those whose comment changes.
        misfits: what some writers send and the target does not hold in the column of that name.
        changes: what `widened` comes to, field by field.
    """

    target: TableSchema
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    documented: tuple[Column, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table already is as it has to be."""
        return not (self.added or self.widened or self.documented)


def plan_schema(
    current: TableSchema | None,
    writers: Sequence[TableSchema],
    evolution: Evolution | None = None,
    docs: Mapping[str, str] | None = None,
) -> SchemaPlan:
    """The schema that holds the current columns and those of every writer, in order of first appearance.

    Args:
        current: the table's columns now, None where the table is yet to be made.
        writers: one schema a writer, in the order in which their first messages stand in the log, so that any cut of
            the log into batches leads to the same types.
        evolution: the table's settings.
        docs: the newest comment of each column that has one.

    Raises:
        SchemaRefused: two columns differ only in case, a name is reserved, a key column is a floating-point number, or
            the writers' rows have other key columns than each other or than the table.
    """
    rules = evolution or Evolution()
    known = rules.of_table(current) if current is not None else TableSchema(())
    columns = {column.name: column for column in known.columns}
    misfits: dict[tuple[str, str], Misfit] = {}
    for column in (column for writer in writers for column in writer.columns):
        found = columns.get(column.name)
        if found is None:
            columns[column.name] = replace(column, sent=None, spare=None)
            continue
        # Where the column cannot become what the contract prefers, values are what their writer sends (`image`).
        asked = column.type if column.sent is None or becomes(found.type, column.type) else column.sent
        wider, fits = merge_types(found.type, asked)
        if wider != found.type:
            columns[column.name] = replace(found, type=wider)
        if not fits:
            misfits[column.name, asked] = Misfit(column.name, found.type, asked)
        if column.spare is not None:
            misfits[column.name, column.spare] = Misfit(column.name, wider, column.spare)
    key = key_of(current, writers, tuple(columns))
    if rules.new_columns:
        _check_kept(writers, columns)
        misfits = {at: _placed(misfit, columns, key) for at, misfit in misfits.items()}
        columns = _in_order(columns)
    target = TableSchema(tuple(_documented(column, docs or {}) for column in columns.values()), key)
    check_table(target, current, writers)
    return _plan(known, target, tuple(misfits.values()))


def _plan(known: TableSchema, target: TableSchema, misfits: tuple[Misfit, ...]) -> SchemaPlan:
    before = {column.name: column for column in known.columns}
    kept = [column for column in target.columns if column.name in before]
    widened = tuple(column for column in kept if column.type != before[column.name].type)
    return SchemaPlan(
        target,
        added=tuple(column for column in target.columns if column.name not in before),
        widened=widened,
        misfits=misfits,
        documented=tuple(column for column in kept if column.doc != before[column.name].doc),
        changes=tuple(
            change
            for column in widened
            for change in type_changes((column.name,), before[column.name].type, column.type)
        ),
    )


def _documented(column: Column, docs: Mapping[str, str]) -> Column:
    """A column with the source's newest comment; one that the source takes away stays, for it may be a reader's own."""
    return replace(column, doc=docs.get(column.name, column.doc)) if column.beside is None else column


def type_changes(path: tuple[str, ...], old: str, new: str) -> list[Change]:
    """The single changes that make one type of another: fields that are added, and parts that are widened."""
    before, after = fields_of(old), fields_of(new)
    if before is not None and after is not None:
        found = []
        for name, ddl in after.items():
            inside = (*path, name)
            found += type_changes(inside, before[name], ddl) if name in before else [Change(inside, ddl)]
        return found
    items, entries = (item_of(old), item_of(new)), (entry_of(old), entry_of(new))
    if items[0] is not None and items[1] is not None:
        return type_changes((*path, "element"), items[0], items[1])
    if entries[0] is not None and entries[1] is not None:
        return type_changes((*path, "value"), entries[0][1], entries[1][1])
    return [] if old == new else [Change(path, new, old)]


# --- columns beside others
# --------------------------------------------------------------------------------------------------------


def beside_name(column: str, writer_type: str) -> str:
    """The column beside `column` that takes what a writer of some type sends: `amount__decimal_38_4`.

    Of the widest type of its kind, so that it never changes, and named by that: whatever the order of writers, the same
    values stand in the same column.
    """
    return f"{column}__{type_word(widest(writer_type))}"


def _placed(misfit: Misfit, columns: dict[str, Column], key: Sequence[str]) -> Misfit:
    """Make the column that takes what does not fit; a row's key has one form only, so there is none beside it."""
    if misfit.column in key:
        return misfit
    name = beside_name(misfit.column, misfit.writer_type)
    main = columns[misfit.column]
    doc = f"Values that do not fit {misfit.column}"
    beside = Column(name, widest(misfit.writer_type), doc, beside=main.name, former=main.former)
    # A column of that name and another type is none of ours.
    return replace(misfit, becomes=name) if columns.setdefault(name, beside).beside == main.name else misfit


def _in_order(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns, each followed by those beside it."""
    mains = [column for column in columns.values() if column.beside is None]
    beside: dict[str, list[Column]] = {}
    for column in columns.values():
        if column.beside is not None:
            beside.setdefault(column.beside, []).append(column)
    ordered = [one for main in mains for one in (main, *beside.get(main.name, []))]
    return {column.name: column for column in ordered}


def _check_kept(writers: Sequence[TableSchema], columns: Mapping[str, Column]) -> None:
    """Refuse a source's column with a name that a column beside another may need."""
    names = {column.name for writer in writers for column in writer.columns}
    kept = sorted(
        name for name in names for main in columns if name.startswith(f"{main}__") and _is_word(name[len(main) + 2 :])
    )
    if kept:
        what = f"The source has columns with names that `incompatible_schema: new_column` keeps: {', '.join(kept)}."
        raise SchemaRefused(what, "Set `incompatible_schema: quarantine`, or rename them in the source.")


def _is_word(text: str) -> bool:
    return TYPE_WORD.fullmatch(text) is not None
