"""Where the source says a change happened, as text that sorts as the database orders (changelog-semantics §2.1).

Numbers are padded, so that comparing texts compares numbers: `99` stands before `100`.
A connector that is not listed gives NULL: its changes are ordered by Kafka offset alone.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The parts of Debezium's `source` block that are read, with the types in which they are wanted.
SOURCE_FIELDS = {
    "connector": "string",
    "snapshot": "string",
    "sequence": "string",
    "lsn": "bigint",
    "file": "string",
    "pos": "bigint",
    "row": "bigint",
    "ts_ms": "bigint",
    "ts_us": "bigint",
    "schema": "string",
    "db": "string",
    "table": "string",
}

_LONG_DIGITS = 20
_ROW_DIGITS = 10


def position(source: Column) -> Column:
    """The position of a change from its `source` block, a struct of `SOURCE_FIELDS`."""
    connector = source["connector"]
    return F.when(connector == "postgresql", _postgresql(source)).when(
        connector.isin("mysql", "mariadb"), _binlog(source)
    )


def _postgresql(source: Column) -> Column:
    # sequence = ["<LSN of the last commit before>", "<LSN of the change>"]; transactions arrive in commit order while
    # their LSNs interleave, so the first decides (§2.1).
    commit = F.get_json_object(source["sequence"], "$[0]")
    lsn = F.coalesce(F.get_json_object(source["sequence"], "$[1]"), source["lsn"].cast("string"))
    first = _padded(F.coalesce(commit, lsn), _LONG_DIGITS)
    return F.when(lsn.isNotNull(), F.concat(first, F.lit("/"), _padded(lsn, _LONG_DIGITS)))


def _binlog(source: Column) -> Column:
    # The file's number is compared as a number: mysql-bin.999999 comes before mysql-bin.1000000.
    base = F.regexp_extract(source["file"], "^(.*)\\.(\\d+)$", 1)
    number = F.regexp_extract(source["file"], "^(.*)\\.(\\d+)$", 2)
    parts = [
        base,
        _padded(number, _ROW_DIGITS),
        _padded(source["pos"].cast("string"), _LONG_DIGITS),
        _padded(F.coalesce(source["row"], F.lit(0)).cast("string"), _ROW_DIGITS),
    ]
    return F.when(number != "", F.concat(parts[0], F.lit("."), parts[1], F.lit("/"), parts[2], F.lit("/"), parts[3]))


def _padded(digits: Column, width: int) -> Column:
    return F.lpad(digits, width, "0")
