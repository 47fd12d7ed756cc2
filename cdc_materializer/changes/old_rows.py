"""What messages say of the rows that they change, as those were before."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes.fillers import is_from_postgresql, names_other_columns
from cdc_materializer.changes.formats import Said
from cdc_materializer.changes.image import Image, image, typed
from cdc_materializer.changes.options import Options
from cdc_materializer.changes.parts import row_of
from cdc_materializer.changes.signatures import image_hash
from cdc_materializer.decode.writers import Writer
from cdc_materializer.names import quote
from cdc_materializer.schema.schema import TableSchema


def configured(target: TableSchema, options: Options) -> tuple[str, ...]:
    """The configured key; none of a table whose columns are not known yet, because nothing of a row was read."""
    return options.key if target.columns else ()


def old_key_type(target: TableSchema, options: Options) -> str:
    """The type of `old_key`."""
    return struct_ddl({name: target.types[name] for name in configured(target, options)} or {"none": "string"})


def struct_ddl(fields: dict[str, str]) -> str:
    """A struct's type, of its fields' names and types; names may be anything."""
    return "struct<" + ",".join(f"{quote(name)}:{ddl}" for name, ddl in fields.items()) + ">"


def old_key(said: Said, writer: Writer, target: TableSchema, options: Options) -> Column:
    """The configured key of the row before a change; NULL where it is not told."""
    if not configured(target, options) or said.before is None:
        return F.lit(None).cast(old_key_type(target, options))
    return typed(said.before, row_of(writer, options), options.key, options.reader(writer), target, options)


def elsewhere(said: Said, writer: Writer, target: TableSchema, options: Options) -> Column:
    """Whether the row before a change of PostgreSQL's tells nothing but an index beside the key; if that is asked."""
    if not options.doubtful_keys or said.before is None or not is_from_postgresql(writer.wire):
        return F.lit(False)
    keys = [name for key in target.key for name in target.column(key).wire_names]
    row, reader = row_of(writer, options), options.reader(writer)
    told = names_other_columns(said.before, row, keys, reader, knows_nulls=not writer.is_plain)
    return told & said.source["lsn"].isNotNull()


def was(said: Said, writer: Writer, names: Column | None, target: TableSchema, options: Options) -> Column:
    """A hash of the row before a change; NULL where it is not asked for."""
    if not options.exact or said.was is None:
        return F.lit(None).cast("bigint")
    before = image(Image(said.was, row_of(writer, options), names), options.reader(writer), target, options)
    return image_hash(before, target)
