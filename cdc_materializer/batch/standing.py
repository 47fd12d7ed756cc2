"""What readers have of a row though today's rules would hold it: a contract judges what comes, not what is there.

Keys whose past matters are folded from their first message, and those states are judged with the batch's own. A state
that was published under an earlier contract would be passed over there, and an older one take its place.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch.life import in_columns
from cdc_materializer.changes import model as m
from cdc_materializer.digests import comparable
from cdc_materializer.fold.fold import CURRENT, REBUILT, STANDS, WAITS
from cdc_materializer.masks import PLAIN
from cdc_materializer.merge import CDC
from cdc_materializer.schema.schema import TableSchema

_SHOWN = "__cdc_shown_row"
#: What message the mirror's row is from: struct<partition,offset>; and those of rows that are alike.
_PLACE, _PLACES = "__cdc_shown_place", "__cdc_shown_places"


def with_standing(folded: DataFrame, mirror: DataFrame, target: TableSchema, held: DataFrame | None) -> DataFrame:
    """Add WAITS, and STANDS: whether an earlier message has left its row as the mirror has it, a deleted one too.

    By value, and not by the message that the mirror's row is from: what has become known since may have changed what
    that message makes of the row, and then the rules of today decide. A message that is held has shown nobody anything,
    though its row may look like the mirror's: by a column that is masked or dropped there, or like a deleted one. But
    the mirror's row may be from it, where a run was killed before quarantine was told, and the contract has changed.

    Args:
        folded: states of a batch, with the past of the keys that are REBUILT.
        mirror: the mirror's rows.
        target: the columns of the states.
        held: as `with_waiting` takes them.
    """
    past = F.col(REBUILT) & ~F.col(CURRENT)
    folded = with_waiting(folded, held, WAITS, past)
    asked = {name: f"__cdc_asked_{at}" for at, name in enumerate(target.key)}
    wanted = folded.where(past).select(*[m.column(name).alias(short) for name, short in asked.items()]).distinct()
    place = F.struct(F.col(CDC)["partition"], F.col(CDC)["offset"]).alias(_PLACE)
    rows = mirror.select(*in_columns(mirror, target), place)
    # The mirror is many times what is asked for.
    found = rows.join(F.broadcast(wanted), [m.column(name) == F.col(short) for name, short in asked.items()])
    # Each once: a row that another engine has doubled doubles no state.
    shown = found.groupBy(*asked.values(), _row(target).alias(_SHOWN)).agg(F.collect_set(_PLACE).alias(_PLACES))
    match = [m.column(name) == F.col(short) for name, short in asked.items()]
    joined = folded.join(shown, [past, *match, F.col(_SHOWN).eqNullSafe(_row(target))], "left")
    here = F.struct(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset"))
    is_from_it = F.array_contains(_PLACES, here)
    stands = F.col(_SHOWN).isNotNull() & (~F.col(WAITS) | F.coalesce(is_from_it, F.lit(False)))
    return joined.select(*[m.column(name) for name in folded.columns], stands.alias(STANDS))


def with_waiting(states: DataFrame, held: DataFrame | None, name: str, among: Column) -> DataFrame:
    """Add whether a state is of a message that is held.

    Args:
        states: of a batch, or of the past of its keys.
        held: the open held messages: key (as m.KEY), partition, offset; None where there are none.
        name: of the column that tells it.
        among: which states it is asked of; it is false of all others.
    """
    if held is None:
        return states.withColumn(name, F.lit(False))
    places = held.distinct().select(*[F.col(part).alias(f"held_{part}") for part in held.columns])
    here = [
        F.col(at) == F.col(f"held_{part}")
        for at, part in zip((m.KEY, m.PARTITION, m.OFFSET), ("key", "partition", "offset"), strict=True)
    ]
    found = states.join(F.broadcast(places), [*here, among], "left")
    return found.withColumn(name, F.col("held_offset").isNotNull()).drop(*places.columns)


def _row(target: TableSchema) -> Column:
    """A row as readers see it: rules may see columns unmasked beside it."""
    shown = [(name, ddl) for name, ddl in target.types.items() if not name.startswith(PLAIN)]
    return F.struct(*[comparable(m.column(name), ddl).alias(f"at_{at}") for at, (name, ddl) in enumerate(shown)])
