"""`cdcm contract test`: judge history by a contract before it goes live.

The line's own fold and verdict over everything that raw holds, under the contract that is tried; nothing is written.
Every state that a row has had is judged, and not the last of each batch alone: how the log was cut, or will be, decides
which of them readers see. Rules about the whole table are judged on the rows that history ends with. Where no raw table
is there yet, the topic itself is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, rows, verdict
from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.batch.past import Past
from cdc_materializer.changes import model as m
from cdc_materializer.contract import Contract, Rule, load_contract
from cdc_materializer.contract.table_rules import ROW_CHANGE
from cdc_materializer.decode.framing import BLOCK, names_schema, schema_block
from cdc_materializer.decode.told_schema import of_block, of_selector
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.errors import Code, UsageError
from cdc_materializer.fold import fold
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.audit import Result, judge_table
from cdc_materializer.line.checks import check_layout
from cdc_materializer.line.judging import cached, release, without_failing
from cdc_materializer.line.line import Line, marker_of, whole_log
from cdc_materializer.line.renames import told_by
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.progress import landed
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.trial_models import (
    ONE_STATE,
    CodeTrial,
    LimitTrial,
    RuleTrial,
    TableRuleTrial,
    TrialReport,
)
from cdc_materializer.run.contracts import with_key
from cdc_materializer.run.run import RunOptions, open_work, session_for
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session import caching
from cdc_materializer.session.session import beside
from cdc_materializer.source import read_span, state_of
from cdc_materializer.status import configured_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

_NO_SCHEMA = "none"
#: What tells messages apart.
_MESSAGE = (m.TOPIC, m.PARTITION, m.OFFSET)


def choose(config: Config, path: Path | None, name: str | None) -> tuple[str, Path]:
    """Which table a contract is tried on, and which contract.

    Args:
        config: from `load_config`.
        path: the contract's file; the table's own if left out.
        name: the mirror; if left out, the one whose contract the file is, or the only one there is.

    Raises:
        UsageError: that does not say one table and one contract.
    """
    tables = configured_tables(config, [name] if name is not None else ())
    if name is None and path is not None and len(tables) > 1:
        tables = tuple(table for table in tables if table.contract is not None and _same(table.contract, path))
    if len(tables) != 1:
        raise UsageError("Nothing says which table's history to try the contract on.", "Name the mirror with --table.")
    found = path or tables[0].contract
    if found is None:
        raise UsageError(f"{tables[0].mirror} has no contract to try.", "Name a contract's file.")
    return str(tables[0].mirror), found


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def try_contract(
    config: Config, table: str, path: Path, since: datetime | None = None, spark: SparkSession | None = None
) -> TrialReport:
    """Judge the history of a table by a contract.

    Args:
        config: from `load_config`.
        table: the mirror.
        path: the contract's file.
        since: count only messages that were written to the topic from then on.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        ContractInvalid: the contract cannot be followed, or calls key what is not the table's.
        RuleNotJudged: one of its rules that is not only tried fails at a row.
        UsageError: there are no messages, or none that can be read as changes of a row.
        CdcError: the tables, the source or the registry cannot be used.
    """
    contract = load_contract(path, table, config.root)
    # The contract in force plays no part, and may be the very one that has to be mended.
    without = [one.model_copy(update={"contract": None}) for one in config.tables]
    work = open_work(config.model_copy(update={"tables": without}), RunOptions(tables=(table,)))
    contract = with_key(contract, config)
    work = replace(work, contracts={table: contract})
    # Before a first run the topic itself is read, and nobody has counted it.
    with session_for(work, spark, landed(config, work.tables) or None) as session:
        lake = Lake(beside(session, config), config.catalog.name, read_only=True)
        line = Line(config.name, work.tables[0], work.source, work.registry, contract, lake)
        with translated(line.mirror):
            history = _history(line)
            found = _judge(line, contract, history, since)
    return found.model_copy(update={"path": str(path)})


@dataclass(frozen=True)
class _History:
    """What is judged: messages as raw stores them, the mirror that they have made, and raw, if there are these."""

    stored: DataFrame
    span: Span
    mirror: LakeTable | None
    raw: LakeTable | None


def _history(line: Line) -> _History:
    lake, topic = line.lake, line.table.topic
    mirror, raw = line.load_mirror(), lake.load(line.mirror.raw)
    if raw is not None:
        span = batch.whole(Offsets(), marker_of(raw).offsets, topic)
        return _History(lake.rows(raw).where(batch.within(span, "partition", "offset")), span, mirror, raw)
    there = state_of(line.source, topic, line.table.topics)
    if there.beginnings == there.ends:
        raise UsageError(f"{topic} has no messages to try the contract on.", "See `cdcm status`.")
    span = Span(topic, there.beginnings, there.ends)
    return _History(
        rows.raw_rows(read_span(line.source, lake.spark, span, there.topics), "", {}, line.id_bytes),
        span,
        mirror,
        None,
    )


def _judge(line: Line, contract: Contract, history: _History, since: datetime | None) -> TrialReport:
    mirror = history.mirror
    messages = batch.messages(history.stored, None, line.id_bytes)
    line = told_by(line, messages)
    decoders = find_decoders(messages, line.lookup(_untold(mirror, contract)))
    if not decoders.make_a_table:
        what = f"Not one message of {line.table.topic} can be read as a change of a row, so no rule can be judged."
        raise UsageError(what, "Run `cdcm doctor`; JSON without a schema needs a contract with columns and a key.")
    target = decoders.plan.target
    check_layout(line, mirror, target, writes=False)
    recorded = whole_log(mirror, history.span.end)
    landed = marker_of(history.raw) if history.raw is not None else None
    known = marker_of(mirror) if mirror is not None else None
    watch = line.watch(None, landed, history.span.end, of=known)
    past = Past(line.lookup(target), recorded=recorded, truncate=line.table.truncate, marker=known, watch=watch)
    folded = batch.fold_batch(messages, decoders, past)
    try:
        judgement = line.judgement(folded.target, recorded, folded)
        judged, unjudged = without_failing(
            line, folded.states, judgement, lambda by: _counted(folded.states, by, since)
        )
        decided, counted, sums = judged
        found = _broken(counted, history.stored, line.id_bytes) if sums["broken"] else {}
        codes = _codes(counted)
        release(counted)
        of_table = _table_rules(line, contract, decided, target)
    finally:
        folded.release()
    counts = sums.asDict()
    return TrialReport(
        limit=_limit(contract, counts.pop("held"), counts["messages"]),
        pipeline=line.pipeline,
        table=str(line.mirror),
        topic=line.table.topic,
        path="",
        name=contract.name,
        version=contract.version,
        fingerprint=contract.fingerprint,
        in_force=mirror is not None and marker_of(mirror).contract == contract.fingerprint,
        read_from="raw" if history.raw is not None else "topic",
        since=since,
        rules=_rules(contract.of_table(target.key).row_rules, found, unjudged, sums["judged"]),
        table_rules=of_table,
        codes=codes,
        **counts,
    )


def _untold(mirror: LakeTable | None, contract: Contract) -> TableSchema | None:
    """The mirror's key, and its columns of which a tried contract says nothing.

    The others get the types that it asks for, as a replay under it would have them: the mirror's are those of the
    contract in force.
    """
    if mirror is None:
        return None
    told = {column.name.casefold() for column in contract.columns} | marker_of(mirror).masks.keys()
    schema = mirror.schema
    kept = [column for column in schema.columns if column.name in schema.key or column.name.casefold() not in told]
    return TableSchema(tuple(kept), schema.key)


def _limit(contract: Contract, held: int, messages: int) -> LimitTrial | None:
    """How history as one batch fares under the contract's limit; where its batches end is for runs to say."""
    limit = contract.max_quarantined
    if limit is None:
        return None
    share = held / messages if messages else None
    return LimitTrial(
        allows=str(limit), held=held, messages=messages, share=share, blocked=limit.is_exceeded(held, messages)
    )


def _counted(states: DataFrame, judgement: Judgement, since: datetime | None) -> tuple[DataFrame, DataFrame, Row]:
    """The states with their verdicts; what of them counts, cached; and how many messages that are."""
    decided = verdict.decide(states, judgement)
    counted = decided if since is None else decided.where(F.col(m.TIME) >= F.lit(since))
    counted, _ = cached(
        counted.select(
            *[F.col(name) for name in (m.TOPIC, m.PARTITION, m.OFFSET, m.PART, m.TIME, m.KEY)],
            verdict.is_judged().alias("judged"),
            verdict.broken_rules().alias("broken"),
            F.col(verdict.VIOLATIONS),
            (F.col(verdict.OUTCOME) == verdict.QUARANTINED).alias("held"),
        )
    )
    # One message may be several changes.
    of_message = counted.groupBy(*_MESSAGE).agg(
        F.bool_or("judged").alias("judged"),
        F.bool_or(F.size("broken") > 0).alias("broken"),
        F.bool_or("held").alias("held"),
    )
    sums = of_message.agg(
        F.count(F.lit(1)).alias("messages"),
        *[F.count_if(name).alias(name) for name in ("judged", "broken", "held")],
    )
    return decided, counted, sums.collect()[0]


def _broken(counted: DataFrame, stored: DataFrame, id_bytes: int) -> Mapping[str, RuleTrial]:
    """Each rule that something breaks, with how often, where from and where to, and under which schemas."""
    broken = counted.where(F.size("broken") > 0).select("*", F.explode("broken").alias("rule"))
    is_open = F.exists(
        verdict.VIOLATIONS, lambda one: one["rule"].eqNullSafe(F.col("rule")) & (one["status"] == verdict.OPEN)
    )
    place, message = _place(), F.struct(*_MESSAGE)
    sums = broken.groupBy("rule").agg(
        F.count_distinct(message).alias("messages"),
        F.count_distinct(m.KEY).alias("keys"),
        F.count_distinct(F.when(is_open, message)).alias("held"),
        F.min(place).alias("first"),
        F.max(place).alias("last"),
    )
    schemas = _by_schema(broken, stored, id_bytes)
    return {row["rule"]: _trial(row, schemas[row["rule"]]) for row in sums.collect()}


def _by_schema(broken: DataFrame, stored: DataFrame, id_bytes: int) -> Mapping[str, dict[str, int]]:
    """How many messages break each rule, by what their schemas are called; those with a number first."""
    same = (F.col(m.PARTITION) == F.col("partition")) & (F.col(m.OFFSET) == F.col("offset"))
    there = broken.select("rule", *_MESSAGE).distinct().join(stored.drop("topic"), same)
    value, key = (batch.writer(stored, side, id_bytes) for side in ("value", "key"))
    is_values = names_schema(value)
    writer = F.when(is_values, value).when(names_schema(key), key)
    block = F.when(writer.startswith(BLOCK), schema_block(F.when(is_values, F.col("value")).otherwise(F.col("key"))))
    found = there.select("rule", writer.alias("writer"), block.alias("block"))
    sums = found.groupBy("rule", "writer").agg(F.first("block").alias("block"), F.count(F.lit(1)).alias("messages"))
    schemas: dict[str, dict[str, int]] = defaultdict(dict)
    told = [(of_block(row["block"]) if row["block"] else of_selector(row["writer"]), row) for row in sums.collect()]
    for schema, row in sorted(told, key=lambda one: (one[0].number is None, one[0].number or 0, one[0].text or "")):
        known, name = schemas[row["rule"]], schema.text or _NO_SCHEMA
        known[name] = known.get(name, 0) + row["messages"]
    return schemas


def _trial(row: Row, schemas: dict[str, int]) -> RuleTrial:
    counts = {name: row[name] for name in ("rule", "messages", "keys", "held")}
    ends = {name: _end(row[name]) for name in ("first", "last")}
    return RuleTrial(expectation="", action="", severity="", schemas=schemas, **counts, **ends)


def _place() -> Column:
    names = {"timestamp": m.TIME, "topic": m.TOPIC, "partition": m.PARTITION, "offset": m.OFFSET}
    return F.struct(*[F.col(ours).alias(name) for name, ours in names.items()])


def _end(place: Row) -> MessagePlace:
    return MessagePlace(**place.asDict() | {"timestamp": rows.instant(place["timestamp"])})


def _rules(
    rules: Sequence[Rule], found: Mapping[str, RuleTrial], unjudged: Mapping[str, str], judged: int
) -> list[RuleTrial]:
    """All rules of the contract with what was found, those that are broken most first."""
    told = []
    for rule in rules:
        why = unjudged.get(rule.name)
        said = {"column": rule.column, "expectation": rule.expectation, "action": rule.told_action, "why": why}
        known = found.get(rule.name)
        counts = known.model_dump(include=_COUNTED) if known is not None else {}
        share = counts.get("messages", 0) / judged if judged and why is None else None
        told.append(
            RuleTrial(rule=rule.name, severity=rule.severity, states=rule.description, share=share, **said, **counts)
        )
    return sorted(told, key=lambda trial: -trial.messages)


_COUNTED = {"messages", "keys", "held", "first", "last", "schemas"}


def _table_rules(line: Line, contract: Contract, decided: DataFrame, target: TableSchema) -> list[TableRuleTrial]:
    """Whether the rules about the table hold for the rows that history ends with; none of it is staged anywhere."""
    if not contract.table_rules:
        return []
    live = decided.where(F.col(verdict.PUBLISHED) & ~fold.is_delete())
    final = caching.cached(live.select(*[m.column(name).cast(ddl).alias(name) for name, ddl in target.types.items()]))
    alone = [rule for rule in contract.table_rules if rule.expectation != ROW_CHANGE]
    found = judge_table(Result(line.lake, line.mirror, final, target.types, None, target.key), alone)
    caching.release(final)
    why = {one.rule.name: one.why for one in found}
    why |= {rule.name: ONE_STATE for rule in contract.table_rules if rule.expectation == ROW_CHANGE}
    return [
        TableRuleTrial(
            rule=rule.name,
            column=rule.column,
            expectation=rule.expectation,
            action=rule.told_action,
            severity=rule.severity,
            states=rule.description,
            holds=None if why.get(rule.name) else rule.name not in why,
            why=why.get(rule.name),
        )
        for rule in contract.table_rules
    ]


def _codes(counted: DataFrame) -> list[CodeTrial]:
    """What else is wrong with the messages, by code; a contract that declares types has a say in it."""
    every = counted.select("*", F.explode(verdict.VIOLATIONS).alias("violation"))
    others = every.where(F.col("violation.code") != str(Code.CONTRACT))
    found = others.groupBy(F.col("violation.code").alias("code")).agg(
        F.count_distinct(m.PARTITION, m.OFFSET).alias("messages"), F.min(_place()).alias("first")
    )
    return [
        CodeTrial(code=row["code"], messages=row["messages"], first=_end(row["first"]))
        for row in found.orderBy("code").collect()
    ]
