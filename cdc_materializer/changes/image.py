"""A row image as a writer sent it, in the columns of the table: each value present, NULL, absent or unavailable.

What the contract masks leaves here masked, in the one place where values come from messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.masking import masked
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.fit import fit, fit_judged
from cdc_materializer.decode.reading import SPARE, Reading
from cdc_materializer.decode.texts import any_of
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer
from cdc_materializer.errors import Code
from cdc_materializer.masks import PLAIN, source_name
from cdc_materializer.names import quote
from cdc_materializer.schema.schema import Column as TableColumn
from cdc_materializer.schema.schema import TableSchema

PROBLEMS_TYPE = "array<struct<column:string,code:string>>"
_NAMES_TYPE = "array<string>"


@dataclass(frozen=True)
class Image:
    """The record that holds a row, its type, and its names where the message itself says which it has.

    `changes` says whether the row was there before: what an update leaves out is what it had, and not known where the
    value before it is not. What a row leaves out that comes whole is NULL. Where `unchanged` is true, so is what an
    update leaves out: by a NULL that `before`, the record as it was, has too; or without that, by its names.
    """

    record: Column
    wire: WireType
    names: Column | None = None
    changes: Column | None = None
    before: Column | None = None
    unchanged: Column | None = None

    @property
    def is_silent(self) -> Column:
        """Whether `names` leaves out what an update did not change, rather than what its writer does not have."""
        if self.before is not None or self.unchanged is None:
            return F.lit(False)
        return F.coalesce(self.unchanged, F.lit(False))

    def tells(self, names: Sequence[str]) -> Column:
        """Whether the message has a column, by any of its names."""
        return F.lit(True) if self.names is None else F.arrays_overlap(self.names, F.array(*map(F.lit, names)))

    def value(self, told: Sequence[str]) -> Column:
        """The wire value of a column that may have any of some names: of the first that the message has."""
        found = self.record[told[-1]]
        for name in reversed(told[:-1]):
            has = F.array_contains(self.names, name) if self.names is not None else F.lit(None)
            # Of a row that tells all of its columns, one that is NULL under this name may have a value under another.
            has = F.coalesce(has, self.record[name].isNotNull())
            found = F.when(has, self.record[name]).otherwise(found)
        return found


def _never_told(source: Image, column: TableColumn) -> list[Column]:
    """The name of a column of which a row has no value, where it does not have the column itself either."""
    nulls = [name for name in column.wire_names if name in source.wire.nulls]
    if not nulls:
        return [F.lit(column.name)]
    if source.names is None:
        return []
    return [F.when(~F.arrays_overlap(source.names, F.array(*map(F.lit, nulls))), F.lit(column.name))]


def _left_out(source: Image, names: Sequence[str], reading: Reading, on_wire: Column) -> list[Column]:
    """Tests for what an update leaves out, so that it says nothing of a column."""
    tests = []
    if reading.absent is not None:
        is_change = F.coalesce(source.changes if source.changes is not None else F.lit(None), F.lit(False))
        tests.append(is_change & reading.absent(on_wire))
    if source.before is not None and source.unchanged is not None:
        was = replace(source, record=source.before).value(names)
        tests.append(F.coalesce(source.unchanged, F.lit(False)) & on_wire.isNull() & was.isNull() & source.tells(names))
    elif source.names is not None and source.unchanged is not None:
        tests.append(~source.tells(names) & source.is_silent)
    return tests


def image_type(target: TableSchema) -> str:
    """The DDL type of the struct that `image` gives."""
    row = ",".join(f"{quote(column.name)}:{column.type}" for column in target.columns)
    names = f"absent:{_NAMES_TYPE},unavailable:{_NAMES_TYPE}"
    return f"struct<present:boolean,row:struct<{row}>,{names},problems:{PROBLEMS_TYPE}>"


def image(source: Image, reader: Reader, target: TableSchema, options: Options) -> Column:
    """Whether there is an image, its row, and which columns are absent, unavailable or do not fit, as a struct."""
    masks = options.masks
    present = source.record.isNotNull()
    values, missing, unavailable, problems = [], [], [], []
    kinds, is_whole = dict(source.wire.fields), options.format.has_whole_rows(source.wire, target.key)
    for column in target.columns:
        mask = masks.of(column.beside or column.name)
        if mask is not None and (mask.hides_all or column.beside is not None):
            # Values that do not fit a masked column are texts, as all of its values are: nothing stands beside it.
            values.append(F.lit(None).cast(column.type).alias(column.name))
            continue
        names = told_names(source.wire, column)
        if not names:
            values.append(F.lit(None).cast(column.type).alias(column.name))
            # What a whole row leaves out of its key, the message's key tells.
            missing += _never_told(source, column) if not is_whole or column.name in target.key else []
            continue
        read = reader.read_key if column.name in options.key else reader.read
        reading, on_wire = read(kinds[names[0]]), source.value(names)
        is_known = (column.beside or source_name(column.name)) in options.always_known
        marks = None if is_known else reading.unavailable
        unknown = F.coalesce(marks(on_wire), F.lit(False)) if marks is not None else None
        if column.name.startswith(PLAIN):
            value, misfit = fit_judged(reading.apply(on_wire), reading.ddl, column.type)
        elif mask is None:
            value, misfit = _placed(column, reading, on_wire, target)
        else:
            value, misfit = masked(reading.apply(on_wire), reading.ddl, mask, masks.key), None
        values.append((F.when(~unknown, value) if unknown is not None else value).alias(column.name))
        if unknown is not None:
            unavailable.append(F.when(unknown, F.lit(column.name)))
        if source.names is not None and (not is_whole or column.name in target.key):
            missing.append(F.when(~source.tells(names) & ~source.is_silent, F.lit(column.name)))
        unavailable += [F.when(test, F.lit(column.name)) for test in _left_out(source, names, reading, on_wire)]
        if column.beside is None:
            problems += _problems(column.name, reading, on_wire, misfit, unknown, reader)
    return F.struct(
        present.alias("present"),
        F.struct(*values).alias("row"),
        F.when(present, m.listed(missing, _NAMES_TYPE)).alias("absent"),
        F.when(present, m.listed(unavailable, _NAMES_TYPE)).alias("unavailable"),
        _listed(problems, present).alias("problems"),
    )


def _listed(problems: Sequence[tuple[Column, Column]], present: Column) -> Column:
    """The problems whose tests are true; NULL where there is no row.

    The tests are asked outside of any branch, so that what they have in common with the values is evaluated once.
    """
    found, empty = any_of(test for test, _ in problems), F.array().cast(PROBLEMS_TYPE)
    if found is None:
        return F.when(present, empty)
    told = F.array_compact(F.array(*[F.when(test, problem) for test, problem in problems]))
    return F.when(present & found, told).when(present, empty)


def names_by_message(writer: Writer, options: Options) -> Column | None:
    """The names of the columns that a message's writer had, where the decoder alone does not tell; else None."""
    chosen = F.col("value_writer")
    if writer.is_plain:
        told = options.format.names(F.col("value").cast("string"))
        return F.when(chosen.isin(*writer.selectors), told) if told is not None else None
    rows: dict[tuple[str, ...], list[str]] = {}
    for member in writer.members:
        row = options.row(member)
        columns = (*dict(row.fields), *row.nulls) if row is not None else ()
        rows.setdefault(columns, []).append(member.selector)
    if len(rows) <= 1:
        return None
    found = F.lit(None).cast("array<string>")
    for names, selectors in rows.items():
        listed = F.array(*[F.lit(name) for name in names])
        found = F.when(chosen.isin(*selectors), listed).otherwise(found)
    return found


def told_names(wire: WireType, column: TableColumn) -> tuple[str, ...]:
    """The names under which a writer tells a column: none where it does not have it.

    More than one only where the messages alone show which they have (`Writer.is_plain`).
    """
    return tuple(name for name in column.wire_names if wire.get(name) is not None)


def typed(
    record: Column, wire: WireType, names: Sequence[str], reader: Reader, target: TableSchema, options: Options
) -> Column:
    """The named columns of a key in the table's types; NULL for one that does not fit, is unavailable or not there."""
    parts = [] if names else [F.lit(None).cast("string").alias("none")]
    kinds = dict(wire.fields)
    for name in names:
        column = target.column(name)
        told = told_names(wire, column)
        if not told:
            parts.append(F.lit(None).cast(column.type).alias(name))
            continue
        reading, on_wire = reader.read_key(kinds[told[0]]), F.coalesce(*[record[one] for one in told])
        fitted, _ = fit(reading.apply(on_wire), reading.ddl, column.type, retyped=column.retyped)
        if reading.unavailable is not None and name not in options.always_known:
            fitted = F.when(~F.coalesce(reading.unavailable(on_wire), F.lit(False)), fitted)
        parts.append(fitted.alias(name))
    return F.struct(*parts)


def is_beyond(record: Column, wire: WireType, names: Sequence[str], reader: Reader, target: TableSchema) -> Column:
    """Whether a named column of a key has a value of which no exact one can be made."""
    kinds, tests = dict(wire.fields), []
    for told in filter(None, (told_names(wire, target.column(name)) for name in names)):
        test = reader.read_key(kinds[told[0]]).invalid
        tests += [F.coalesce(test(F.coalesce(*[record[one] for one in told])), F.lit(False))] if test else []
    found = any_of(tests)
    return found if found is not None else F.lit(False)


def _placed(
    column: TableColumn, reading: Reading, on_wire: Column, target: TableSchema
) -> tuple[Column, Column | None]:
    """What a column gets of a wire value, and a test that is true where the value has no place in the row at all.

    What does not fit its column goes into the one beside it that is for its type, and is NULL in all others.

    Args:
        column: the column, or one beside it.
        reading: how the wire value is read.
        on_wire: the wire value.
        target: the table.
    """
    main = target.column(column.beside) if column.beside is not None else column
    read = reading.apply(on_wire)
    fitted, misfit = fit(read, reading.ddl, main.type, retyped=main.retyped)
    if reading.spare is not None and misfit is None:
        text, place = reading.spare(on_wire), target.beside(main.name, SPARE)
        if column.beside is None:
            return fitted, text.isNotNull() if place is None else None
        return (text if place == column.name else F.lit(None)).cast(column.type), None
    beside = target.beside(main.name, reading.ddl) if misfit is not None else None
    if column.beside is None:
        return fitted, None if beside is not None else misfit
    if misfit is None or beside != column.name:
        return F.lit(None).cast(column.type), None
    return F.when(misfit, read).cast(column.type), None


def _problems(
    name: str, reading: Reading, on_wire: Column, misfit: Column | None, unknown: Column | None, reader: Reader
) -> list[tuple[Column, Column]]:
    """What may be wrong with a value: tests, each with its problem."""
    tests = [
        (misfit, Code.SCHEMA_INCOMPATIBLE),
        (reading.foreign(on_wire) if reading.foreign else None, Code.SCHEMA_INCOMPATIBLE),
        (reading.invalid(on_wire) if reading.invalid else None, Code.OUT_OF_RANGE),
    ]
    if reader.special_values == "stop" and reading.special is not None:
        tests.append((reading.special(on_wire), Code.OUT_OF_RANGE))
    known = ~unknown if unknown is not None else F.lit(True)
    return [
        (test & known, F.struct(F.lit(name).alias("column"), F.lit(str(code)).alias("code")))
        for test, code in tests
        if test is not None
    ]
