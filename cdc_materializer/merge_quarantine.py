"""The SQL statements that change a quarantine table, built as those of `merge` are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc_materializer.errors import TRIED_UNJUDGED
from cdc_materializer.merge import branch_path
from cdc_materializer.names import TableName, quote
from cdc_materializer.schema.schema import Column, TableSchema

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
#: What tells two violations of one key apart.
VIOLATION_ID = ("topic", "partition", "offset", "code", "rule", "column")
#: The actions of rows that hold nothing back, and tell of what is published.
REMARKS = ("report", "warn", "shadow", TRIED_UNJUDGED)


def resolve_quarantine(catalog: str, table: TableName, branch: str, view: str) -> str:
    """Give the quarantine rows that a view names the status in its column `to`.

    Args:
        catalog: of the table.
        table: the quarantine table.
        branch: where it is changed.
        view: partition, offset, key, code, rule and column of each row.
    """
    named = ("partition", "offset", "key", "code", "rule", "column")
    match = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in named)
    match += " AND t.status <> 'released'"
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(view)} s ON {match} "
        f"WHEN MATCHED THEN UPDATE SET status = s.{quote('to')}"
    )


def hold_again(catalog: str, table: TableName, branch: str, view: str) -> str:
    """Put a view's violations into quarantine; of those that are there, one that had ended is open, and acts as now.

    What is remarked of a message is a row of its own beside what held it: that it was held is not forgotten where the
    rule only warns by now. One that was held before any table told how keys are read has none, and gets that of the
    only one (`named`).
    """
    names = [quote(column.name) for column in QUARANTINE_SCHEMA.columns]
    same = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in VIOLATION_ID)
    is_key = "(t.key <=> s.key OR (t.key IS NULL AND s.named AND t.batch_id <> ''))"
    is_remark = f"coalesce(t.action, '') IN ({_listed(REMARKS)})"
    is_kind = f"CASE WHEN s.status = 'released' THEN t.action <=> s.action ELSE NOT {is_remark} END"
    return (
        f"MERGE INTO {branch_path(catalog, table, branch)} t USING {quote(view)} s "
        f"ON {same} AND {is_key} AND {is_kind} "
        "WHEN MATCHED AND (NOT t.key <=> s.key OR s.status = 'open' AND (t.status <> 'open' OR t.action <> s.action)) "
        "THEN UPDATE SET key = s.key, status = s.status, action = s.action "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def forget_remarks(catalog: str, table: TableName, branch: str, reached: Mapping[int, int]) -> str:
    """Remove what quarantine remarks of messages that no batch has published; `unpublished_remarks` says which."""
    return f"DELETE FROM {branch_path(catalog, table, branch)} t WHERE {unpublished_remarks(reached)}"


def unpublished_remarks(reached: Mapping[int, int]) -> str:
    """The condition of what quarantine (`t`) remarks of messages from an offset of each partition on.

    What no message carries lies where its batch has ended, so what lies at the offset is of one that was published.

    Args:
        reached: how far the mirror has got, by partition; of others nothing was published.
    """
    places = [
        f"t.partition = {p} AND (t.offset < {at} OR t.offset = {at} AND t.batch_id = '')" for p, at in reached.items()
    ]
    published = " OR ".join(f"({place})" for place in places) or "false"
    return f"t.status = 'released' AND t.action IN ({_listed(REMARKS)}) AND NOT ({published})"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts)
