"""The SQL statements of the package, built from parsed names and nothing else; `merge_quarantine` has some more.

Names come as `TableName` and column names, and are quoted here. Values never appear in a statement's text: they are
columns of a view, or parameters that are bound when it is sent (`KeyRanges`, `end_truncated`). Statements that define a
table take none: its properties and the comments of its columns are escaped literals in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from cdc_materializer.changes.model import EXACT_TIMES, PLACE_TYPE, TRANSACTION_TYPE
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.names import TRANSFORM, TableName, quote
from cdc_materializer.order.truncates import Truncate
from cdc_materializer.schema.schema import Column, SchemaPlan, TableSchema

CDC = "__cdc"
#: What a mirror's row says of the message that it comes from (design §4.4).
CDC_STRUCT = "struct<op:string,source_ts:timestamp,position:string,epoch:int,topic:string,partition:int,offset:bigint>"
#: The field of that struct which only mirrors with `deletes: soft` have.
DELETED = "deleted"
#: The field of it which only mirrors have that several source tables feed; NULL: the first of them, see `Marker`.
SOURCE_TABLE = "source_table"
#: The column of a history that says what a change was ordered by; NULL in rows of earlier versions.
PLACE = "place"


@dataclass(frozen=True)
class Origin:
    """That a mirror's rows are from several source tables, and from which one those are that name none."""

    first: str | None


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
        *[Column(f"{side}_schema_id", "int") for side in ("key", "value")],
        Column("batch_id", "string"),
        *[Column(f"{side}_schema_name", "string") for side in ("key", "value")],
    )
)


def history_schema(schema: TableSchema) -> TableSchema:
    """The columns of the history of a mirror that has the given ones."""
    row = f"struct<{','.join(f'{quote(column.name)}:{column.type}' for column in schema.columns)}>"
    return TableSchema(
        (
            Column("op", "string"),
            Column("before", row, "The row as readers saw it before the change"),
            Column("after", row, "The row after it"),
            Column("source_ts", "timestamp"),
            Column("position", "string"),
            Column("epoch", "int"),
            Column("topic", "string"),
            Column("partition", "int"),
            Column("offset", "bigint"),
            Column("timestamp", "timestamp"),
            Column("transaction", TRANSACTION_TYPE),
            Column(SOURCE_TABLE, "string", "The table that was changed, where the message names it"),
            Column(PLACE, PLACE_TYPE, "What the change was ordered by among those of its row"),
        )
    )


_SORT_FIELD = re.compile(r"(.+?)((?: (?:asc|desc))?(?: nulls (?:first|last))?)", re.IGNORECASE)


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


def cdc_struct(*, soft: bool, routed: bool) -> str:
    """The type of a mirror's own column, by whether it keeps deleted rows, and has rows of several source tables."""
    further = {f"{DELETED}:boolean": soft, f"{SOURCE_TABLE}:string": routed}
    return ",".join([CDC_STRUCT.removesuffix(">"), *[name for name, asked in further.items() if asked]]) + ">"


def mirror_schema(schema: TableSchema, *, soft: bool, routed: bool) -> TableSchema:
    """A mirror's columns: the source's, then ours."""
    return TableSchema((*schema.columns, Column(CDC, cdc_struct(soft=soft, routed=routed))), schema.key)


def name_source_tables(catalog: str, table: TableName) -> str:
    """A statement that makes room in a mirror's rows for the source table that each is from."""
    return f"ALTER TABLE {table_path(catalog, table)} ADD COLUMN {quote(CDC)}.{quote(SOURCE_TABLE)} string"


def finish_mirror(catalog: str, table: TableName, schema: TableSchema, sorted_by: Sequence[str]) -> list[str]:
    """Statements that give a new mirror its order, by key unless one is asked for, and then its identifier fields.

    These last: one that has them is finished.
    """
    path = table_path(catalog, table)
    order = ", ".join([_sort_field(text) for text in sorted_by] or [quote(name) for name in schema.key])
    keys = ", ".join(quote(name) for name in schema.key)
    return [f"ALTER TABLE {path} WRITE LOCALLY ORDERED BY {order}", f"ALTER TABLE {path} SET IDENTIFIER FIELDS {keys}"]


def evolve_table(catalog: str, table: TableName, plan: SchemaPlan, inside: str | None = None) -> list[str]:
    """Statements that make the planned changes; new columns stand behind the source's others, before ours.

    With `inside` they are changes of the fields of that struct column.
    """
    alter, within = f"ALTER TABLE {table_path(catalog, table)}", (inside,) if inside else ()
    names = [column.name for column in plan.target.columns]
    statements = []
    for change in plan.changes:
        path = _path(*within, *change.path)
        action = f"ADD COLUMN {path} {change.type}" if change.old is None else f"ALTER COLUMN {path} TYPE {change.type}"
        statements.append(f"{alter} {action}")
    for column in plan.added:
        before = names[names.index(column.name) - 1] if names.index(column.name) else None
        place = f"AFTER {quote(before)}" if before else "FIRST"
        prefix = f"{_path(*within)}." if within else ""
        statements.append(f"{alter} ADD COLUMN {prefix}{_column(column, required=False)} {place}")
    comments = [(quote(column.name), _text(column.doc or "")) for column in plan.documented]
    return statements + [f"{alter} ALTER COLUMN {name} COMMENT {text}" for name, text in comments]


def add_column(catalog: str, table: TableName, column: Column, behind: str) -> str:
    """A statement that adds a column behind another one."""
    added = _column(column, required=False)
    return f"ALTER TABLE {table_path(catalog, table)} ADD COLUMN {added} AFTER {quote(behind)}"


def _path(*names: str) -> str:
    return ".".join(quote(name) for name in names)


def delete_all(catalog: str, table: TableName, branch: str) -> str:
    """Delete every row of a branch; Iceberg drops the files and reads none."""
    return f"DELETE FROM {branch_path(catalog, table, branch)}"


KeyPart = int | Decimal


@dataclass(frozen=True)
class KeyRanges:
    """Where the keys of a batch lie: by these literals Iceberg leaves files of the mirror out (design §7).

    Attributes:
        name: a column of the key, of whole numbers or decimals.
        values: all that it has; empty where `ranges` hold them.
        ranges: from the lowest value of each to its highest; the last one has no end.
    """

    name: str
    values: tuple[KeyPart, ...] = ()
    ranges: tuple[tuple[KeyPart, KeyPart | None], ...] = ()

    @property
    def arguments(self) -> dict[str, KeyPart]:
        """The literals by the names that `condition` gives them: values are bound, and no part of the text."""
        ends = [end for between in self.ranges for end in between if end is not None]
        return {f"key{number}": part for number, part in enumerate((*self.values, *ends))}

    @property
    def condition(self) -> str:
        """Whether a row `t` lies where the keys do."""
        column, names = f"t.{quote(self.name)}", [f":{name}" for name in self.arguments]
        if self.values:
            return f"{column} IN ({', '.join(names)})"
        *closed, last = [names[at : at + 2] for at in range(0, len(names), 2)]
        return " OR ".join([*(f"{column} BETWEEN {low} AND {high}" for low, high in closed), f"{column} >= {last[0]}"])


def delete_keys(
    catalog: str, table: TableName, branch: str, keys_view: str, schema: TableSchema, near: KeyRanges | None = None
) -> str:
    """Delete the rows whose keys are in a view.

    Matched-only, so that Spark broadcasts the view and reads nothing of the mirror but its key columns (design §7).
    Keys have no NULL in them (`KEY_NULL`), so plain equality is exact.

    Args:
        catalog: the catalog's name in the session.
        table: the mirror.
        branch: where to delete.
        keys_view: has the key columns.
        schema: of the mirror.
        near: where the keys lie; its `arguments` go with the statement.
    """
    match = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in schema.key)
    match = f"{match} AND ({near.condition})" if near is not None else match
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(keys_view)} s ON {match} "
        "WHEN MATCHED THEN DELETE"
    )


def end_truncated(
    catalog: str, table: TableName, branch: str, truncate: Truncate, origin: Origin | None, *, soft: bool
) -> tuple[str, dict[str, str | int | None]]:
    """A statement that ends the rows which a truncate removes, and its parameters; with an origin, of its own table.

    They are deleted; with `soft` those that are live are marked as deleted by it, and keep their values.
    """
    path, where, cdc = branch_path(catalog, table, branch), is_truncated(truncate, origin), quote(CDC)
    reached = None if truncate.position is None else reach_of(truncate.position)
    values = {**vars(truncate), "reached": reached, "first": origin.first if origin is not None else None}
    arguments = {f"truncate_{name}": value for name, value in values.items()}
    if not soft:
        return f"DELETE FROM {path} t WHERE {where}", arguments
    told = {
        "op": "'t'",
        "source_ts": "CAST(timestamp_micros(CAST(:truncate_micros AS BIGINT)) AS TIMESTAMP)",
        "position": "CAST(:truncate_position AS STRING)",
        "epoch": "CAST(:truncate_epoch AS INT)",
        "topic": ":truncate_topic",
        "partition": "CAST(:truncate_partition AS INT)",
        "offset": "CAST(:truncate_offset AS BIGINT)",
        DELETED: "true",
    }
    changed = ", ".join(f"t.{cdc}.{quote(name)} = {value}" for name, value in told.items())
    return f"UPDATE {path} t SET {changed} WHERE ({where}) AND NOT t.{cdc}.{DELETED}", arguments


def is_truncated(truncate: Truncate, origin: Origin | None) -> str:
    """Whether a row `t` is one that a truncate ends, of its table and from before it; see `truncated.is_ended`."""
    if origin is None or truncate.table is None:
        return _is_before(truncate)
    table = f"COALESCE(t.{quote(CDC)}.{SOURCE_TABLE}, :truncate_first)"
    return f"{table} = :truncate_table AND ({_is_before(truncate)})"


def _is_before(truncate: Truncate) -> str:
    """Whether a row `t` is from before a truncate: at an earlier position, or if it has none behind its offset."""
    cdc = f"t.{quote(CDC)}"
    behind = f"({cdc}.partition = :truncate_partition AND {cdc}.offset < :truncate_offset)"
    if truncate.position is None:
        return behind
    earlier = f"{cdc}.position < :truncate_position"
    if reach_of(truncate.position) != truncate.position:
        # A row that a snapshot showed is held against the truncate's own place in the log.
        earlier = f"({earlier} OR ({cdc}.op = 'r' AND {cdc}.position < :truncate_reached))"
    return f"({cdc}.position IS NOT NULL AND {earlier}) OR ({cdc}.position IS NULL AND {behind})"


def mark_deleted(catalog: str, table: TableName, branch: str, view: str, schema: TableSchema) -> str:
    """Mark the live rows whose keys are in a view as deleted; the view's `__cdc` says by which message.

    The rows keep their values. A row that was deleted before stays as that delete left it.
    """
    match = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in schema.key)
    cdc = quote(CDC)
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(view)} s ON {match} "
        f"WHEN MATCHED AND NOT t.{cdc}.{DELETED} THEN UPDATE SET t.{cdc} = s.{cdc}"
    )


def forget_changes(catalog: str, table: TableName, branch: str, view: str) -> str:
    """Remove the rows of a history that a view names: where they come from, what was done, and `told`, the rows."""
    match = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in ("topic", "partition", "offset", "op"))
    exact = ", ".join(f"'{name}', {_text(pattern)}" for name, pattern in EXACT_TIMES.items())
    match += f" AND to_json(struct(t.before, t.after), map({exact})) = s.told"
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(view)} s ON {match} WHEN MATCHED THEN DELETE"
    )


def one_number(query: str) -> str:
    """A contract's query as one that can do nothing but read: within a subquery Spark takes no other statement.

    Two rows at most, which is one too many already.
    """
    return first_rows(query, 2)


def first_rows(query: str, count: int) -> str:
    """The first rows that a user's query gives; within a subquery Spark takes nothing that writes."""
    return f"SELECT * FROM (\n{query}\n) LIMIT {int(count)}"


def transform(text: str) -> str:
    """One partition or sort field, `day(placed_at)` or a plain column, with its column quoted."""
    match = TRANSFORM.fullmatch(text.strip())
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
