"""Every SQL statement of the package, built from parsed names and nothing else.

Names come as `TableName` and column names, and are quoted here; values never appear in a statement's text, with one
exception that cannot carry data: offsets and positions of a truncate, which are checked for their form first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cdc_materializer.errors import InvariantBroken
from cdc_materializer.fold import Truncate
from cdc_materializer.names import TableName, quote
from cdc_materializer.schema import Column, SchemaPlan, TableSchema

CDC = "__cdc"
#: What a mirror's row says of the message that it comes from (design §4.4).
CDC_STRUCT = "struct<op:string,source_ts:timestamp,position:string,epoch:int,topic:string,partition:int,offset:bigint>"
RAW_SCHEMA = TableSchema(
    (
        Column("topic", "string"),
        Column("partition", "int"),
        Column("offset", "bigint"),
        Column("timestamp", "timestamp"),
        Column("timestamp_type", "int"),
        Column("key", "binary"),
        Column("value", "binary"),
        Column("headers", "array<struct<key:string,value:binary>>"),
        Column("key_schema_id", "int"),
        Column("value_schema_id", "int"),
        Column("batch_id", "string"),
    )
)
QUARANTINE_SCHEMA = TableSchema(
    (
        Column("topic", "string"),
        Column("partition", "int"),
        Column("offset", "bigint"),
        Column("timestamp", "timestamp"),
        Column("key", "string", "The key as JSON text"),
        Column("code", "string"),
        Column("rule", "string"),
        Column("severity", "string"),
        Column("action", "string"),
        Column("status", "string", "open, superseded or released"),
        Column("column", "string"),
        Column("detected_at", "timestamp"),
        Column("batch_id", "string"),
    )
)

_POSITION = re.compile(r"[\w./:~-]{1,200}")
_SORT_FIELD = re.compile(r"(.+?)((?: (?:asc|desc))?(?: nulls (?:first|last))?)", re.IGNORECASE)
_TRANSFORM = re.compile(r"(\w+)\((?:(\d+), *)?([^(),`]+)\)")


def table_path(catalog: str, table: TableName) -> str:
    """The quoted name of a table in a catalog."""
    return ".".join(quote(part) for part in (catalog, *table.namespace, table.name))


def branch_path(catalog: str, table: TableName, branch: str) -> str:
    """The quoted name under which Iceberg reads and writes a branch of a table."""
    return f"{table_path(catalog, table)}.{quote('branch_' + branch)}"


def snapshot_path(catalog: str, table: TableName, snapshot: int) -> str:
    """The quoted name under which Iceberg reads a table as it was at a snapshot."""
    return f"{table_path(catalog, table)}.{quote(f'snapshot_id_{snapshot}')}"


def create_namespace(catalog: str, table: TableName) -> list[str]:
    """Statements that make the table's namespaces, outermost first."""
    parts = [quote(catalog)]
    statements = []
    for part in table.namespace:
        parts.append(quote(part))
        statements.append(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(parts)}")
    return statements


def create_table(
    catalog: str,
    table: TableName,
    schema: TableSchema,
    properties: Mapping[str, str],
    partitioned_by: Sequence[str] = (),
) -> str:
    """A statement that makes an empty table; its key columns are NOT NULL, so that they can be identifier fields."""
    columns = ", ".join(_column(column, required=column.name in schema.key) for column in schema.columns)
    partitions = f" PARTITIONED BY ({', '.join(transform(text) for text in partitioned_by)})" if partitioned_by else ""
    options = ", ".join(f"{_text(name)}={_text(value)}" for name, value in sorted(properties.items()))
    return f"CREATE TABLE {table_path(catalog, table)} ({columns}) USING iceberg{partitions} TBLPROPERTIES ({options})"


def drop_table(catalog: str, table: TableName) -> str:
    """A statement that removes a table which was never finished; no data file belongs to it."""
    return f"DROP TABLE IF EXISTS {table_path(catalog, table)}"


def mirror_schema(schema: TableSchema) -> TableSchema:
    """A mirror's columns: the source's, then ours."""
    return TableSchema((*schema.columns, Column(CDC, CDC_STRUCT)), schema.key)


def finish_mirror(catalog: str, table: TableName, schema: TableSchema, sorted_by: Sequence[str]) -> list[str]:
    """Statements that give a new mirror its identifier fields and its order: by key, unless one is asked for."""
    path = table_path(catalog, table)
    order = ", ".join([_sort_field(text) for text in sorted_by] or [quote(name) for name in schema.key])
    keys = ", ".join(quote(name) for name in schema.key)
    return [f"ALTER TABLE {path} SET IDENTIFIER FIELDS {keys}", f"ALTER TABLE {path} WRITE LOCALLY ORDERED BY {order}"]


def evolve_table(catalog: str, table: TableName, plan: SchemaPlan) -> list[str]:
    """Statements that make the planned changes; new columns stand behind the source's others, before ours."""
    path = table_path(catalog, table)
    names = [column.name for column in plan.target.columns]
    statements = [f"ALTER TABLE {path} ALTER COLUMN {quote(column.name)} TYPE {column.type}" for column in plan.widened]
    for column in plan.added:
        before = names[names.index(column.name) - 1] if names.index(column.name) else None
        place = f"AFTER {quote(before)}" if before else "FIRST"
        statements.append(f"ALTER TABLE {path} ADD COLUMN {_column(column, required=False)} {place}")
    return statements


def delete_all(catalog: str, table: TableName, branch: str) -> str:
    """Delete every row of a branch; Iceberg drops the files and reads none."""
    return f"DELETE FROM {branch_path(catalog, table, branch)}"


def delete_keys(catalog: str, table: TableName, branch: str, keys_view: str, schema: TableSchema) -> str:
    """Delete the rows whose keys are in a view.

    Matched-only, so that Spark broadcasts the view and reads nothing of the mirror but its key columns (design §7).
    Keys have no NULL in them (`KEY_NULL`), so plain equality is exact.
    """
    match = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in schema.key)
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(keys_view)} s ON {match} "
        "WHEN MATCHED THEN DELETE"
    )


def delete_truncated(catalog: str, table: TableName, branch: str, truncate: Truncate) -> str:
    """Delete the rows that a truncate removes: at an earlier position, or without one behind it in its partition."""
    cdc = f"t.{quote(CDC)}"
    behind = f"({cdc}.partition = {int(truncate.partition)} AND {cdc}.offset < {int(truncate.offset)})"
    if truncate.position is None:
        where = behind
    else:
        if not _POSITION.fullmatch(truncate.position):
            what = "A truncate has a position that is none."
            raise InvariantBroken(what, "Report this as a bug; nothing was written.")
        earlier = f"{cdc}.position < '{truncate.position}'"
        where = f"({cdc}.position IS NOT NULL AND {earlier}) OR ({cdc}.position IS NULL AND {behind})"
    return f"DELETE FROM {branch_path(catalog, table, branch)} t WHERE {where}"


def resolve_quarantine(catalog: str, table: TableName, branch: str, view: str) -> str:
    """Give the quarantine rows that a view names (partition, offset, key, code) the status in its column `to`."""
    match = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in ("partition", "offset", "key", "code"))
    match += " AND t.status <> 'released'"
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(view)} s ON {match} "
        f"WHEN MATCHED THEN UPDATE SET status = s.{quote('to')}"
    )


def transform(text: str) -> str:
    """One partition or sort field, `day(placed_at)` or a plain column, with its column quoted."""
    match = _TRANSFORM.fullmatch(text.strip())
    if match is None:
        return quote(text.strip())
    name, width, column = match[1], match[2], match[3]
    return f"{name}({width}, {quote(column.strip())})" if width else f"{name}({quote(column.strip())})"


def _sort_field(text: str) -> str:
    """A field with its direction and the place of its NULLs: `day(placed_at) desc nulls last`."""
    match = _SORT_FIELD.fullmatch(text.strip())
    return transform(match[1]) + match[2].upper() if match is not None else transform(text)


def _column(column: Column, *, required: bool) -> str:
    comment = f" COMMENT {_text(column.doc)}" if column.doc else ""
    return f"{quote(column.name)} {column.type}{' NOT NULL' if required else ''}{comment}"


def _text(value: str) -> str:
    """A string literal; with the backslash escaped first, no value can end it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
