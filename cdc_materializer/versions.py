"""Type-2 tables: the versions of each row, each with the time in which it was the row, from a `__history` table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_materializer.changes.model import PLACE_TYPE
from cdc_materializer.errors import InvalidName
from cdc_materializer.merge import PLACE, SOURCE_TABLE
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HISTORY_VIEW = "__cdc_history"
#: The columns that a type-2 table has besides the row's.
COLUMNS = ("valid_from", "valid_to", "is_current")
#: The columns of a history by which changes are ordered, and a truncate is held against them.
_KEPT = ("op", "epoch", "position", "topic", "partition", "offset", "timestamp", SOURCE_TABLE, PLACE)


def type_2_query(history: str, key: Sequence[str], columns: Sequence[str], mark: str = "`") -> str:
    """A query that makes a type-2 table of a history: each version of a row with the time in which it was the row.

    It is plain SQL for any engine that reads the history. Order is that of the fold, see `in_order`. Times only rise
    along it: a snapshot's row has the time at which it was read, which can be later than that of a change behind it. A
    version that ended in the moment in which it began was never seen and is left out. A truncate ends the rows of its
    own source table, where it and they name theirs.

    Args:
        history: the quoted name under which the engine knows the history. One that an earlier version made has no
            `source_table` or no `place` until a run has appended changes.
        key: the key columns.
        columns: the row's columns that are wanted.
        mark: the engine's quotation mark for names: a backtick for Spark and Hive, a double quote for the others.

    Raises:
        InvalidName: a column has the name of one that the table adds.
    """
    taken = [column for column in columns if column.lower() in COLUMNS]
    if taken:
        what = f"The row has a column `{taken[0]}`, a name that a type-2 table gives to a column of its own."
        raise InvalidName(what, "Leave it out of `columns`.")
    after = _quoted("after", mark)
    shown = ", ".join(f"{after}.{_quoted(column, mark)} AS {_quoted(column, mark)}" for column in columns)
    events, ordered = in_order(history, key, mark)
    return f"""
WITH {events}, __cdc_timed AS (
  SELECT *, MAX(__cdc_at) OVER ({ordered} ROWS UNBOUNDED PRECEDING) AS valid_from FROM __cdc_events_of_row
), __cdc_versions AS (
  SELECT *, LEAD(valid_from) OVER ({ordered}) AS valid_to FROM __cdc_timed
)
SELECT {shown}, valid_from, valid_to, valid_to IS NULL AS is_current
FROM __cdc_versions
WHERE {after} IS NOT NULL AND (valid_to IS NULL OR valid_from < valid_to)
""".strip()


def in_order(history: str, key: Sequence[str], mark: str) -> tuple[str, str]:
    """What happened to each row of a history, and in which order.

    A source's epoch comes first. Then decides `place`: what the fold sorted by, or the highest position that the key
    has shown in the change's partition where it had offsets alone (or an earlier version wrote the row). Both only rise
    within a partition. The record's timestamp, offset and number in its message are last. As in the fold, a truncate
    comes behind the rows of snapshots that were read before it by its own place in the log, whatever batches had them,
    and leaves rows of other partitions that have no position, and rows from behind it: then it was sent again.

    Args:
        history: as in `type_2_query`.
        key: the key columns.
        mark: the engine's quotation mark for names.

    Returns:
        Named subqueries of a query, of which `__cdc_events_of_row` has the events; and the window that orders them.
    """
    names = (*_KEPT, "before", "after", "source_ts", "sort", "time", "part", "reach")
    name = {text: _quoted(text, mark) for text in names}
    keys = [_quoted(f"__cdc_key_{at}", mark) for at in range(len(key))]
    of_key = [
        f"COALESCE({name['after']}.{_quoted(column, mark)}, {name['before']}.{_quoted(column, mark)}) AS {alias}"
        for column, alias in zip(key, keys, strict=True)
    ]
    kept = [name[text] for text in _KEPT]
    happened = f"COALESCE({name['source_ts']}, {name['timestamp']}) AS __cdc_at"
    event = ", ".join([name["before"], name["after"], happened, "0 AS __cdc_empties", *kept])
    none = [f"NULL AS {name[image]}" for image in ("before", "after")]
    nothing = ", ".join([*none, happened, "1 AS __cdc_empties", *kept])
    row, each = ", ".join(keys), ", ".join([*keys, *[name[text] for text in ("epoch", "topic", "partition")]])
    sort, time, part, reach = (f"{name['place']}.{name[field]}" for field in ("sort", "time", "part", "reach"))
    so_far = f"OVER (PARTITION BY {each} ORDER BY {name['offset']}, {part} ROWS UNBOUNDED PRECEDING)"
    of_change = f"OVER (PARTITION BY {row}, __cdc_change)"
    last = [name[text] for text in ("offset", "partition", "topic")]
    ordered = f"PARTITION BY {row} ORDER BY " + ", ".join(
        [name["epoch"], "__cdc_place", "__cdc_time", *last, f"COALESCE({part}, 0)"]
    )
    events = f"""__cdc_changes AS (
  SELECT {", ".join(of_key)}, {event} FROM {history} WHERE {name["op"]} <> 't'
), __cdc_events AS (
  SELECT {row}, {", ".join([name["before"], name["after"], "__cdc_at", "__cdc_empties", *kept])} FROM __cdc_changes
  UNION ALL
  SELECT k.*, t.* FROM (SELECT DISTINCT {row} FROM __cdc_changes) k
  CROSS JOIN (SELECT {nothing} FROM {history} WHERE {name["op"]} = 't') t
), __cdc_reached AS (
  SELECT *, MIN(CASE WHEN {reach} IS NOT NULL THEN {name["position"]} END)
    OVER (PARTITION BY {row} ORDER BY COALESCE({reach}, {name["position"]}), __cdc_empties DESC
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS __cdc_truncate
  FROM __cdc_events
), __cdc_placed AS (
  SELECT *, MAX(CASE WHEN {name["op"]} = 'r' AND __cdc_truncate <= {name["position"]} THEN __cdc_truncate || ' 0'
      ELSE COALESCE({sort}, {name["position"]}, '') END) {so_far} AS __cdc_place,
    MAX(COALESCE({time}, {name["timestamp"]})) {so_far} AS __cdc_time
  FROM __cdc_reached
), __cdc_counted AS (
  SELECT *, SUM(1 - __cdc_empties) OVER ({ordered} ROWS UNBOUNDED PRECEDING) AS __cdc_change FROM __cdc_placed
), __cdc_owned AS (
  SELECT *, MAX(CASE WHEN __cdc_empties = 0 THEN {name["source_table"]} END) {of_change} AS __cdc_table,
    MAX(CASE WHEN __cdc_empties = 0 AND {name["position"]} IS NULL THEN {name["partition"]} END)
      {of_change} AS __cdc_home,
    MAX(CASE WHEN __cdc_empties = 0 THEN {name["position"]} END) {of_change} AS __cdc_shown,
    MAX(CASE WHEN __cdc_empties = 0 AND {name["op"]} = 'r' THEN 1 END) {of_change} AS __cdc_read
  FROM __cdc_counted
), __cdc_events_of_row AS (
  SELECT * FROM __cdc_owned WHERE __cdc_empties = 0
    OR (COALESCE(__cdc_table = {name["source_table"]}, TRUE) AND COALESCE(__cdc_home = {name["partition"]}, TRUE)
      AND COALESCE(__cdc_shown <= CASE WHEN __cdc_read = 1 THEN {reach} ELSE {name["position"]} END, TRUE))
)"""
    return events, ordered


def _quoted(name: str, mark: str) -> str:
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def type_2(history: DataFrame, key: Sequence[str], columns: Sequence[str] | None = None) -> DataFrame:
    """Make a type-2 table of a history: each version of a row, and the time in which it was the row.

    Versions of one row never overlap; a delete or a truncate ends the last one. See `type_2_query` for how times
    are found; it gives the same as SQL for other engines.

    Args:
        history: rows of a `__history` table, all or those of some keys; leave truncates in.
        key: the row's key columns.
        columns: the row's columns that are wanted; all for None.

    Returns:
        The columns, then `valid_from` and `valid_to` (timestamps; NULL for the row as it is now), and `is_current`.

    Raises:
        InvalidName: a column has one of these names.
    """
    row = history.schema["after"].dataType
    names = columns if columns is not None else row.names if isinstance(row, StructType) else ()
    # A run adds the columns of later versions with the next changes that it appends.
    later = {SOURCE_TABLE: "string", PLACE: PLACE_TYPE}.items()
    history = history.withColumns({name: F.lit(None).cast(ddl) for name, ddl in later if name not in history.columns})
    history.createOrReplaceTempView(_HISTORY_VIEW)
    return history.sparkSession.sql(type_2_query(quote(_HISTORY_VIEW), key, names))
