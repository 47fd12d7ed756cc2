"""Values that only other rows know: the mirror's row for what a batch left out, an old key's row for a new key's."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.changes import source_rows
from cdc_materializer.changes.masking import is_plain_open
from cdc_materializer.changes.positions import is_of_several
from cdc_materializer.fold.fold import (
    CARRIED,
    MISSING_COLUMNS,
    NO_NAMES,
    OPEN_COLUMNS,
    OPENER,
    PROBLEM,
    REBUILT,
    SEGMENT,
    Partial,
    effective,
)
from cdc_materializer.merge import CDC, SOURCE_TABLE
from cdc_materializer.order import owners
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.order.key_order import GROUP, ORDER
from cdc_materializer.order.resends import NUMBERED, REPLAYED
from cdc_materializer.schema.schema import TableSchema

#: Whether the mirror's row of the key is from a message of another partition than this one.
ELSEWHERE = "__cdc_elsewhere"
#: What the halves of a key change have in common, see `link`.
LINK = "__cdc_link"


def with_owners(changes: DataFrame, live: DataFrame | None, target: TableSchema, first: str | None) -> DataFrame:
    """Add `owners.OWNER` to the changes of a mirror that several source tables feed.

    Args:
        changes: in the columns of `changes.model`.
        live: the mirror's live rows, with our own column; None where it has none.
        target: the mirror's columns.
        first: the source table of rows that name none.
    """
    # Materialised, because Spark would decode the messages once more for the second use.
    changes = changes.localCheckpoint()
    if live is None:
        return changes.withColumn(owners.OWNER, F.lit(None).cast("string"))
    owner = source_table_of(live, first).alias(owners.OWNER)
    known = of_keys(live, changes, target).select(m.row_key(target).alias("__cdc_owned"), owner).localCheckpoint()
    return changes.join(known, F.col(m.KEY).eqNullSafe(F.col("__cdc_owned")), "left").drop("__cdc_owned")


def of_keys(live: DataFrame, changes: DataFrame, target: TableSchema) -> DataFrame:
    """The live rows whose keys occur among some changes; these are few, so that a mirror is not shuffled for them."""
    keys = [m.column(name) for name in target.key]
    wanted = F.broadcast(changes.where(F.col(m.KEY).isNotNull()).select(*keys).distinct())
    return live.join(wanted, list(target.key), "left_semi")


def source_table_of(mirror: DataFrame, first: str | None) -> Column:
    """The source table of a mirror's rows: the first one, where they name none or are from before they did."""
    cdc = mirror.schema[CDC].dataType
    names_it = isinstance(cdc, StructType) and SOURCE_TABLE in cdc.names
    return F.coalesce(F.col(CDC)[SOURCE_TABLE] if names_it else F.lit(None), F.lit(first)).cast("string")


def with_elsewhere(states: DataFrame, live: DataFrame | None, target: TableSchema) -> DataFrame:
    """Add ELSEWHERE to the states of a batch.

    Args:
        states: from `fold.states`; cached, because their keys are asked for first.
        live: the mirror's live rows, with our own column; None where it has none.
        target: the mirror's columns.
    """
    if live is None:
        return states.withColumn(ELSEWHERE, F.lit(False))
    shown_in = F.col(CDC)["partition"].alias("__cdc_shown_in")
    shown = of_keys(live, states, target).select(m.row_key(target).alias("__cdc_shown"), shown_in)
    found = states.join(shown, F.col(m.KEY) == F.col("__cdc_shown"), "left")
    is_other = F.coalesce(F.col("__cdc_shown_in") != F.col(m.PARTITION), F.lit(False))
    return found.withColumn(ELSEWHERE, is_other).drop("__cdc_shown", "__cdc_shown_in")


def with_updates(changes: DataFrame) -> DataFrame:
    """Changes of PostgreSQL's, of which inserts whose other halves do not say which row they end are updates.

    Where columns of a REPLICA IDENTITY USING INDEX change, the connector takes the row's key for changed: it sends a
    delete with a key of defaults, which is held (`changes.fillers`), and an insert with the key that the row had and
    has. What that one leaves out is its own row's (changelog-semantics §0.1).
    """
    message = F.concat(F.lit("\u0000"), F.col(m.PARTITION), F.lit(":"), F.col(m.OFFSET))
    is_paired = F.max(m.NAMELESS).over(Window.partitionBy(F.coalesce(F.col(m.POSITION), message)))
    is_update = (F.col(m.OP) == "c") & (F.size(m.UNAVAILABLE) > 0) & is_paired
    return changes.withColumn(m.OP, F.when(is_update, "u").otherwise(F.col(m.OP)))


@built_once
def wants_base() -> Column:
    """Whether a state lacks a value that the mirror's row of the same key may have."""
    lacks = (F.size(OPEN_COLUMNS) > 0) | (F.size(MISSING_COLUMNS) > 0)
    return lacks & (F.col(SEGMENT) == 0) & ~F.col(REBUILT)


def attach_base(folded: DataFrame, base: DataFrame, target: TableSchema, partial: Partial) -> DataFrame:
    """Fill what the batch does not tell from the mirror's rows.

    Args:
        folded: what `fold.states` gave.
        base: rows of the mirror, with KEY, whose keys occur in the batch; without those that a truncate wipes.
        target: the mirror's columns.
        partial: the columns that may be missing.
    """
    carried = [
        name for name in target.types if name in {*partial.absent, *partial.unavailable} and name not in target.key
    ]
    known = base.select(
        F.col(m.KEY).alias("__cdc_base_key"),
        *[m.column(name).alias(f"__cdc_base_{at}") for at, name in enumerate(carried)],
    )
    joined = folded.join(known, (F.col(m.KEY) == F.col("__cdc_base_key")) & wants_base(), "left")
    found = F.col("__cdc_base_key").isNotNull()
    lacking = F.concat(OPEN_COLUMNS, MISSING_COLUMNS)
    values = {
        name: F.when(found & F.array_contains(lacking, name), F.col(f"__cdc_base_{at}")).otherwise(m.column(name))
        for at, name in enumerate(carried)
    }
    return _with_values(joined, folded.columns, values, {OPEN_COLUMNS: found, MISSING_COLUMNS: found})


@built_once
def link() -> Column:
    """What the two halves of a key change have in common and no other does: their position, else their message.

    Where rows share positions, that of the row itself is a part of it, as far as it is told.
    """
    message = F.concat(F.lit("\u0000"), F.col(m.PARTITION), F.lit(":"), F.col(m.OFFSET))
    placed = F.when(F.col(m.POSITION).isNotNull(), F.concat_ws(" ", m.POSITION, m.SOURCE_ROW))
    return F.coalesce(placed, F.when((F.col(m.PART) > 0) | (F.col(m.OP) == "d"), message))


@built_once
def is_moved() -> Column:
    """Whether a message is the insert of a key change that leaves values open; a plain insert always tells them all."""
    return (F.col(m.OP) == "c") & effective() & (F.size(OPEN_COLUMNS) > 0)


def key_changes_without_delete(folded: DataFrame) -> DataFrame:
    """The links (LINK) of key changes whose other half, the delete, is not among the messages."""
    told = {LINK: link(), "__cdc_is_insert": is_moved(), "__cdc_is_half": is_half()}
    # Materialised: a filter would be pushed into the decoding, and write it out once more for each of its columns.
    linked = (
        folded.where(is_half() | is_moved())
        .select(m.PARTITION, m.OFFSET, m.PART, *[column.alias(name) for name, column in told.items()])
        .localCheckpoint()
    )
    is_other = F.col("__cdc_is_half")
    here, before = (F.count_if(is_other).over(window) for window in (Window.partitionBy(LINK, m.PARTITION), _before()))
    elsewhere = F.count_if(is_other).over(Window.partitionBy(LINK)) - here
    known = linked.where(F.col(LINK).isNotNull()).withColumn("__cdc_halves", before + elsewhere)
    return known.where(F.col("__cdc_is_insert") & (F.col("__cdc_halves") == 0)).select(LINK).distinct()


def halves_seen_unmasked(folded: DataFrame) -> DataFrame:
    """The keys (m.KEY) of the rows from which inserts take values that rules see unmasked; the mirror has them masked.

    Args:
        folded: states of a batch, with both halves of these key changes.
    """
    asks = is_moved() & is_plain_open(F.col(OPEN_COLUMNS))
    told = {LINK: link(), "__cdc_asks": asks, "__cdc_is_half": is_half()}
    # Materialised, as in `key_changes_without_delete`.
    linked = (
        folded.where(is_half() | is_moved())
        .select(m.KEY, *[column.alias(name) for name, column in told.items()])
        .localCheckpoint()
    )
    asked = linked.withColumn("__cdc_asked", F.max("__cdc_asks").over(Window.partitionBy(LINK)))
    return asked.where(F.col(LINK).isNotNull() & F.col("__cdc_asked") & F.col("__cdc_is_half")).select(m.KEY)


@built_once
def is_half() -> Column:
    """Whether a message is a delete that may be half of a key change.

    What another server sends again is one too (ADR 8): of its insert, the first server may have sent nothing.
    """
    is_copy = F.col(REPLAYED) & F.col(m.LOG_NUMBER).isNotNull()
    return (F.col(m.OP) == "d") & (effective() | is_copy)


def links_of_inserts(changes: DataFrame) -> DataFrame:
    """The links (LINK) of inserts among changes that leave values out.

    A delete of another row may share the link: which one is an insert's half can be told where all of them are there.
    """
    is_moved = (F.col(m.OP) == "c") & (F.size(m.UNAVAILABLE) > 0)
    # Materialised, as in `key_changes_without_delete`.
    linked = changes.select(F.when(is_moved, link()).alias(LINK)).localCheckpoint()
    return linked.where(F.col(LINK).isNotNull()).distinct()


def links_of_deletes(changes: DataFrame) -> DataFrame:
    """The links (LINK) of deletes among changes, each of which may be half of a key change."""
    # Materialised, as in `key_changes_without_delete`.
    linked = changes.select(F.when(F.col(m.OP) == "d", link()).alias(LINK)).localCheckpoint()
    return linked.where(F.col(LINK).isNotNull()).distinct()


def keys_of_partial_inserts(changes: DataFrame, links: DataFrame) -> DataFrame:
    """The keys (m.KEY), each once, of inserts among changes that leave values out and have one of some links (LINK)."""
    is_moved = (F.col(m.OP) == "c") & (F.size(m.UNAVAILABLE) > 0)
    # Materialised, as in `key_changes_without_delete`.
    linked = changes.select(m.KEY, F.when(is_moved, link()).alias(LINK)).localCheckpoint()
    return linked.join(F.broadcast(links), LINK, "left_semi").select(m.KEY).distinct()


def keys_of_inserts(folded: DataFrame, links: DataFrame) -> DataFrame:
    """The keys (m.KEY) of inserts that leave values out and have some of these links (LINK)."""
    # Materialised, as in `key_changes_without_delete`.
    linked = folded.select(m.KEY, F.when(is_moved(), link()).alias(LINK)).localCheckpoint()
    return linked.join(F.broadcast(links), LINK, "left_semi").select(m.KEY)


def _before() -> WindowSpec:
    """What a partition has of a link ahead of a message."""
    ordered = Window.partitionBy(LINK, m.PARTITION).orderBy(m.OFFSET, m.PART)
    return ordered.rowsBetween(Window.unboundedPreceding, -1)


def graft(folded: DataFrame, target: TableSchema, partial: Partial, recorded: Recorded) -> DataFrame:
    """Fill what a key change left out from the row that it ended (changelog-semantics §0.1, first item).

    A key change is a delete and an insert at one position. An insert never has unavailable values of its own, so the
    ones it shows stand for the old key's, in the delete's row, and go on for as long as the new row's segment does,
    under a writer too that does not have the column any more.
    """
    carried = [name for name in target.types if name in partial.unavailable and name not in target.key]
    wants = (F.size(OPEN_COLUMNS) > 0) | (F.size(MISSING_COLUMNS) > 0)
    moved = (F.col(OPENER) == F.col("__cdc_moved")) & (F.col(SEGMENT) > 0)
    joined = folded.join(_donors(folded, carried, recorded), moved & wants, "left")
    donor = F.col("__cdc_donor")
    lacking = F.concat(OPEN_COLUMNS, F.array_intersect(MISSING_COLUMNS, F.col("__cdc_left_open")))
    filled = F.when(donor.isNotNull(), F.array_except(lacking, donor["open"])).otherwise(F.array().cast(NO_NAMES))
    values = {
        name: F.when(F.array_contains(filled, name), donor[f"value_{at}"]).otherwise(m.column(name))
        for at, name in enumerate(carried)
    }
    inherited = F.filter(
        F.coalesce(donor["codes"], F.array().cast(f"array<{PROBLEM}>")),
        lambda code: F.array_contains(filled, code["column"]),
    )
    return joined.select(
        *[
            values.get(name, m.column(name)).alias(name)
            for name in folded.columns
            if name not in {OPEN_COLUMNS, MISSING_COLUMNS, CARRIED}
        ],
        F.array_except(OPEN_COLUMNS, filled).alias(OPEN_COLUMNS),
        F.array_except(MISSING_COLUMNS, filled).alias(MISSING_COLUMNS),
        F.concat(CARRIED, inherited).alias(CARRIED),
    )


def _donors(folded: DataFrame, carried: Sequence[str], recorded: Recorded) -> DataFrame:
    """The inserts of key changes that leave values open, `__cdc_left_open`, with the rows that these ended.

    `__cdc_moved` names them as OPENER does.

    Rows of one statement can share a position, Oracle's do. In a topic of one partition the delete directly before an
    insert is its other half; in several nothing tells which it is, and what this partition has before it may be
    another row's (golden case 0640), but where they tell their row (m.SOURCE_ROW, golden case 0777). Of other sources a
    delete in another partition is that half if either is the only one.
    """
    row = [m.column(name).alias(f"value_{at}") for at, name in enumerate(carried)]
    ended = F.struct(F.col(OPEN_COLUMNS).alias("open"), F.col(CARRIED).alias("codes"), *row)
    own = F.when(is_half() & effective(), ended)
    linked = folded.withColumn(LINK, link()).where(F.col(LINK).isNotNull() & (is_half() | is_moved()))
    # A delete that another server sends again has ended what it ended when it came first.
    same = Window.partitionBy(GROUP, *NUMBERED).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    first = F.coalesce(F.last(own, ignorenulls=True).over(same), own)
    is_own = F.col(m.LOG_NUMBER).isNull() | (F.size(own["open"]) == 0)
    linked = linked.withColumn("__cdc_ended", F.when(is_half(), F.when(is_own, own).otherwise(first)))
    donor = F.col("__cdc_ended")
    of_link, here = Window.partitionBy(LINK), Window.partitionBy(LINK, m.PARTITION)
    before = F.last(donor, ignorenulls=True).over(_before())
    is_elsewhere = (F.count(donor).over(of_link) == 1) & (F.count(donor).over(here) == 0)
    is_elsewhere = is_elsewhere & (F.count_if(is_moved()).over(of_link) == 1)
    alone = F.when(is_elsewhere, F.first(donor, ignorenulls=True).over(of_link))
    is_known = recorded.was_alone_in_topic(F.col(m.PARTITION), F.col(m.OFFSET)) | ~is_of_several(F.col(m.POSITION))
    is_known = is_known | source_rows.is_told()
    donors = F.when(F.coalesce(is_known, F.lit(True)), F.coalesce(before, alone))
    found = linked.withColumn("__cdc_donor", donors).where(is_moved())
    # Cut off from its plan, because Spark finds a cached frame only once in a plan and would compute the other use
    # anew.
    left_open = F.col(OPEN_COLUMNS).alias("__cdc_left_open")
    return found.select(F.col(OPENER).alias("__cdc_moved"), left_open, "__cdc_donor").localCheckpoint()


def _with_values(
    frame: DataFrame, names: Sequence[str], values: dict[str, Column], emptied: dict[str, Column]
) -> DataFrame:
    nothing = F.array().cast(NO_NAMES)
    columns = values | {name: F.when(test, nothing).otherwise(F.col(name)) for name, test in emptied.items()}
    return frame.select(*[columns.get(name, m.column(name)).alias(name) for name in names])
