"""`cdcm verify --repair`: put the rows of a mirror right that are not what the fold of raw gives, and no other.

What is written is the fold that `verify` compares with, staged, audited by the contract's rules about the table, and
published like any batch, with the marker where it is. Quarantine and history stay as they are: a repair is no change of
the source. So it is refused where quarantine says something else of these rows than the fold does.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.differences import Difference, is_unequal, joined_rows, sides_of
from cdc_materializer.errors import Code, UsageError
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line import audit, ledger, quarantine
from cdc_materializer.line.line import Line, marker_of, reload
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import delete_keys
from cdc_materializer.offsets import Span, batch_id
from cdc_materializer.schema.schema import SchemaPlan, TableSchema

_KEYS_VIEW = "__cdc_wrong_keys"
_KEY = "__cdc_wrong_key"


def repair(line: Line, mirror: LakeTable, decided: DataFrame, expected: DataFrame, difference: Difference) -> LakeTable:
    """Publish the differing rows as they should be, and return the mirror as it is then.

    Args:
        line: the table's way, through a lake that is written to.
        mirror: the mirror as it was compared.
        decided: the fold's states.
        expected: the rows that the mirror should hold.
        difference: what was found to differ.

    Raises:
        UsageError: quarantine does not say of these rows what the fold says.
        TableRuleBroken: the repaired table breaks a rule that blocks; nothing was published.
        CommitConflict: another writer was faster.
    """
    keys = _wrong_keys(line, mirror, expected, difference)
    _check_held(line, mirror, decided, keys)
    if mirror.pending:
        mirror = line.lake.evolve(mirror, SchemaPlan(mirror.schema))
    target, known = mirror.schema, marker_of(mirror)
    wrong = difference.missing + difference.unexpected + difference.different
    kept = ledger.of_rows(expected, target) if line.table.ledger else None
    marker = replace(known, batch=_id_of(line, mirror), counts={"read": 0, "repaired": wrong}, ledger=kept)
    # Rules about rows judge none of them anew.
    marker = replace(marker, settles=None, warned=(), untried=_of_rows(line, known))
    wrong_rows = expected.join(F.broadcast(keys.drop(_KEY)), list(target.key), "left_semi")
    right = wrong_rows.select(*map(m.column, expected.columns))
    audited: list[Marker] = []

    def stage_and_audit(stage: Stage) -> None:
        stage.name(_KEYS_VIEW, keys.drop(_KEY))
        stage.execute(delete_keys(stage.lake.catalog, mirror.name, stage.branch, _KEYS_VIEW, target))
        stage.append(right)
        audited.append(audit.audit(line, stage, target).on(marker, known))
        if audited[-1] != marker:
            stage.tell(audited[-1])

    line.lake.publish(mirror, marker, stage_and_audit)
    if audited[-1].warned:
        quarantine.warn_of(line, audited[-1].warned, audited[-1])
    return reload(line, line.mirror)


def _of_rows(line: Line, known: Marker) -> tuple[str, ...]:
    """The rules about rows that the newest batch could not judge."""
    of_rows = {rule.name for rule in (line.contract.row_rules if line.contract is not None else ())}
    return tuple(rule for rule in known.untried if rule in of_rows)


def seal(line: Line, mirror: LakeTable, expected: DataFrame) -> None:
    """Write the ledger of a mirror that was just found to be right, where it should keep one and has not this one."""
    known = marker_of(mirror)
    kept = ledger.of_rows(expected, mirror.schema) if line.table.ledger else None
    if kept == known.ledger or mirror.pending:
        return
    sealed = replace(known, batch=_id_of(line, mirror), counts={}, ledger=kept, settles=None, warned=())
    line.lake.publish(mirror, sealed, lambda _stage: None)


def _id_of(line: Line, mirror: LakeTable) -> str:
    """The id of what is put right next: quarantine is told by it what of that it was told."""
    known = marker_of(mirror)
    here = Span(known.topic, known.offsets, known.offsets)
    return batch_id(line.pipeline, mirror.uuid, here, f"repair {known.state}")


def _wrong_keys(line: Line, mirror: LakeTable, expected: DataFrame, difference: Difference) -> DataFrame:
    """The keys that differ, each once: their columns, and the key as JSON text."""
    target = mirror.schema
    joined = joined_rows(sides_of(line, expected, mirror), target, difference.buckets).where(is_unequal())
    text = F.coalesce("right_key", "left_key").alias(_KEY)
    found = joined.select(*[_of_either(name, target).alias(name) for name in target.key], text).distinct()
    # Cut off from its plan: it is used more than once, and the mirror that it was read from is about to change.
    return found.localCheckpoint()


def _of_either(name: str, target: TableSchema) -> Column:
    value = F.coalesce(F.col("found")[name], F.col("expected")[name])
    return value.cast(target.types[name])


def _check_held(line: Line, mirror: LakeTable, decided: DataFrame, keys: DataFrame) -> None:
    """Refuse to publish rows about which quarantine would be wrong afterwards.

    Raises:
        UsageError: says what to do instead.
    """
    names = ("partition", "offset", "code", "rule")
    wanted = F.broadcast(keys.select(_KEY))
    # A delete that names no row says nothing of the one whose key it was filled with; quarantine holds it under none.
    named = decided.where(~F.col(m.NAMELESS))
    broken = named.join(wanted, F.col(m.KEY) == F.col(_KEY), "left_semi").select(
        F.col(m.PARTITION).alias("partition"),
        F.col(m.OFFSET).alias("offset"),
        F.inline(F.filter(verdict.VIOLATIONS, lambda found: found["status"] == verdict.OPEN)),
    )
    # Of a message that waits for its schema, whether others came first says nothing of it.
    rule = F.when(F.col("code") != str(Code.SCHEMA_UNKNOWN), F.col("rule")).alias("rule")
    told = (*names[:-1], rule)
    sides = broken.select(*told).distinct().withColumn("side", F.lit(1))
    table = line.lake.load(line.mirror.quarantine)
    if table is not None:
        is_held = (F.col("status") == verdict.OPEN) & ~quarantine.is_noted() & batch.published(marker_of(mirror))
        held = line.lake.rows(table).where(is_held).join(wanted, F.col("key") == F.col(_KEY), "left_semi")
        sides = sides.unionByName(held.select(*told).distinct().withColumn("side", F.lit(-1)))
    if sides.groupBy(*names).agg(F.sum("side").alias("sides")).where(F.col("sides") != 0).isEmpty():
        return
    what = f"Quarantine does not hold of {line.mirror}'s differing rows what today's contract and settings hold."
    do = f"They have changed since: `cdcm replay {line.mirror} --publish` rebuilds mirror and quarantine together."
    raise UsageError(f"{what} Nothing was repaired.", do)
