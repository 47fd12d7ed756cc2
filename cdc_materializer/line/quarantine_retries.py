"""What quarantine holds for want of its schema: where it lies, and what of it can be read by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.readable import as_told
from cdc_materializer.decode.framing import UNASKED, names_schema
from cdc_materializer.decode.refusals import MANY_SCHEMAS
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.decoders.selectors import MAY_WAIT, selectors_of
from cdc_materializer.errors import Code
from cdc_materializer.line.line import marker_of
from cdc_materializer.marker.marker import is_unsettled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.decoders.decoders import Lookup
    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.line.line import Line, Tables
    from cdc_materializer.offsets import Span

#: Of the messages that wait for a schema, those that do so themselves; of others a value waits that they carry.
_ITSELF = "__cdc_itself"
#: Of those: whether not even the key is known.
_KEYLESS = "__cdc_keyless"
_SELECTORS = ("value_writer", "key_writer")


def find_retries(line: Line, raw: LakeTable, tables: Tables, *, whole: bool = False) -> DataFrame | None:
    """Raw's rows that were held for a schema which is known by now; None where there are none.

    Where they have too many schemas, some are looked up (`decoders.selectors`), and others the next time.

    Args:
        line: the table's way.
        raw: the raw table.
        tables: mirror and quarantine.
        whole: whether all of them are looked up, and not some.
    """
    if tables.mirror is None or tables.quarantine is None or tables.quarantine.is_empty:
        return None
    held = _held(line, tables.quarantine)
    # Without a registry only schemas that messages bring along can be known, and raw is not to be read for others.
    if line.registry is None and held.where(F.col("rule") == MANY_SCHEMAS).isEmpty():
        return None
    waiting = line.lake.rows(raw).join(F.broadcast(_places(held)), ["partition", "offset"])
    selectors = {f"{side}_writer": batch.writer(waiting, side, line.id_bytes) for side in ("value", "key")}
    waiting = as_told(waiting.withColumns(selectors), line.options)
    lookup = line.lookup(tables.mirror.schema)
    # A replay is to read all that was ever read.
    named = waiting if whole or line.replays else waiting.withColumn(MAY_WAIT, F.col(_ITSELF))
    pairs = selectors_of(named, lookup, turn_of(line))
    if not pairs:
        return None
    waits = {}
    for side in ("value", "key"):
        names = {row[f"{side}_writer"] for row in pairs} - {None, UNASKED}
        known = sorted(name for name in names if not lookup.is_unknown(side, name))
        waits[side] = _waits(F.col(f"{side}_writer"), known)
    ready = waiting.where(~waits["value"])
    if line.options.key:
        doubtful = _held_still(line, ready.where(waits["key"]), lookup)
        ready = ready.join(F.broadcast(doubtful), ["partition", "offset"], "left_anti")
    else:
        ready = ready.where(~waits["key"])
    return None if ready.where(_ITSELF).isEmpty() else ready.drop(_ITSELF, *_SELECTORS)


def turn_of(line: Line) -> int:
    """Whose turn it is to be looked up: another one's each time."""
    return int(line.now().timestamp() * 1_000_000)


def _waits(selector: Column, known: list[str]) -> Column:
    """Whether a schema is not known yet; without one nothing is (`isin` of nothing is false of NULL too)."""
    return names_schema(selector) & selector.isNotNull() & ~selector.isin(*known)


def _held_still(line: Line, rows: DataFrame, lookup: Lookup) -> DataFrame:
    """Where those lie that would be held for their key's schema again: their value does not tell the columns of `key:`.

    Read once more, they would be so in every batch from now on.
    """
    messages = batch.messages(rows, None, line.id_bytes).withColumn(MAY_WAIT, F.lit(True))
    decoders = find_decoders(messages, lookup, may_be_blind=True)
    changes = to_changes(messages, decoders.writers, decoders.folded, line.options)
    held = changes.where(F.col(m.CODE) == str(Code.SCHEMA_UNKNOWN))
    return held.select(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset")).distinct()


def limited(line: Line, messages: DataFrame, before: Span) -> DataFrame:
    """A batch's messages with `MAY_WAIT`: not those from before its span, whose schemas are known; in a replay none."""
    # It is to read all that was ever read.
    return messages if line.replays else messages.withColumn(MAY_WAIT, ~batch.within(before, "partition", "offset"))


def as_waiting(line: Line, messages: DataFrame, mirror: LakeTable | None, quarantine: LakeTable | None) -> DataFrame:
    """Messages with their selectors, of which those that quarantine holds for a schema name none that can be known.

    The registry may know theirs by now. They are changes of their keys once they are read (`find_retries`), and neither
    the past of another change nor of the mirror before that. Until quarantine is told what the mirror's newest batch
    has ended, all are as they are: some of what it holds was read.
    """
    known = [marker_of(table) if table is not None else None for table in (mirror, quarantine)]
    if quarantine is None or quarantine.is_empty or is_unsettled(*known):
        return messages
    held = _held(line, quarantine).where(F.col("column").isNull()).groupBy("partition", "offset")
    places = held.agg(F.bool_and(F.col("key").isNull()).alias(_KEYLESS))
    joined = messages.join(F.broadcast(places), ["partition", "offset"], "left")
    # Where it tells a key, it is the value that waits.
    waits = {"value": F.col(_KEYLESS).isNotNull(), "key": F.coalesce(F.col(_KEYLESS), F.lit(False))}
    return joined.withColumns({f"{side}_writer": _unasked(side, waits[side]) for side in waits}).drop(_KEYLESS)


def _unasked(side: str, waits: Column) -> Column:
    selector = F.col(f"{side}_writer")
    return F.when(waits & names_schema(selector), F.lit(UNASKED)).otherwise(selector)


def waiting(line: Line, quarantine: LakeTable) -> DataFrame:
    """Where messages are that wait for a schema (partition, offset), each once."""
    return _places(_held(line, quarantine)).select("partition", "offset")


def _held(line: Line, quarantine: LakeTable) -> DataFrame:
    """What quarantine has of messages that wait for a schema."""
    # Those that a later row has superseded too: a column that only they told is the row's once they can be read.
    is_waiting = (F.col("status") != verdict.RELEASED) & (F.col("code") == str(Code.SCHEMA_UNKNOWN))
    return line.lake.rows(quarantine).where(is_waiting)


def _places(held: DataFrame) -> DataFrame:
    """Where such messages are (partition, offset), and whether the schema is their own (_ITSELF)."""
    # A value that was carried out of such a message is known once that one is read, and not before.
    return held.groupBy("partition", "offset").agg(F.max(F.col("column").isNull()).alias(_ITSELF))
