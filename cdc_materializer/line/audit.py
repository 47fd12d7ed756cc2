"""Rules about a whole table, judged on what is staged: the rows that readers would see, before they see them.

What can be counted is counted in one pass over the columns that the rules name; rules about duplicates, other mirrors,
queries, and what Great Expectations has to judge itself take jobs of their own. A contract without such rules costs
nothing. A rule that cannot be judged blocks the batch whatever it says of itself, unless it is only tried; and then
quarantine is told: it never passes unseen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import life
from cdc_materializer.changes import model as m
from cdc_materializer.contract import Rule
from cdc_materializer.contract import table_rules as said
from cdc_materializer.contract.counted import Counted, counted
from cdc_materializer.contract.gx import CannotBeJudged, applies, preload
from cdc_materializer.contract.native import is_in_order, is_kept
from cdc_materializer.contract.table_expectations import CONDITION_KWARGS, IN_ORDER
from cdc_materializer.errors import ContractInvalid, TableRuleBroken
from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.lake.reads import readings
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line.line import Line
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import first_rows, one_number, table_path
from cdc_materializer.names import TableName, quote, shown
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.table_names import renamed, view_names

_log = logging.getLogger(__name__)
_VIEW = "__cdc_result"
_NO_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
#: With it no name is taken for one that begins with the catalog.
_NO_CATALOG = ""
#: Which parameter of Spark's conditions is a name that the contract has written.
_NAMING = {
    _NO_TABLE: "relationName",
    "FIELD_NOT_FOUND": "fieldName",
    "PARSE_SYNTAX_ERROR": "error",
    "UNRESOLVED_COLUMN": "objectName",
    "UNRESOLVED_ROUTINE": "routineName",
}


@dataclass(frozen=True)
class Audited:
    """A rule that the table is not as it says, or that nobody can tell of: then `why` names what went wrong."""

    rule: Rule
    why: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether nothing of the batch may be published."""
        return not self.rule.shadow and (self.rule.enforces or self.why is not None)


@dataclass(frozen=True)
class Remarks:
    """What is found of the rules that do not block: the names of those that are broken, and of those not judged."""

    broken: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    def on(self, marker: Marker, before: Marker | None) -> Marker:
        """A batch's marker with these, and with what of them quarantine is to be told.

        Args:
            marker: what is known of the batch without them.
            before: that of the batch before.
        """
        marker = replace(marker, untried=(*marker.untried, *self.untried))
        untold = [rule for rule in marker.untold(before) if rule in self.untried]
        return replace(marker, warned=(*marker.warned, *self.broken, *untold))


@dataclass(frozen=True)
class Result:
    """The table as a batch would leave it.

    Attributes:
        lake: where it is.
        mirror: its name.
        rows: its rows, in their columns.
        types: the DDL types of these, by name.
        before: its rows as readers see them, to be counted; None where there are none yet.
        key: the columns that identify a row.
    """

    lake: Lake
    mirror: TableName
    rows: DataFrame
    types: Mapping[str, str]
    before: DataFrame | None
    key: tuple[str, ...] = ()


def audit(line: Line, stage: Stage, target: TableSchema) -> Remarks:
    """Judge what is staged by the contract's rules about the table.

    On a replay's branch, which nobody reads, none blocks: all are judged once it is rebuilt (`broken_by`).

    Args:
        line: the table's way.
        stage: the branch of the mirror, with everything that the batch writes.
        target: the mirror's columns.

    Returns:
        What is to be said of the rules that do not block.

    Raises:
        TableRuleBroken: others are broken, or cannot be judged; nothing is published.
    """
    contract = line.contract
    rules = contract.table_rules if contract is not None else ()
    if line.replays:
        rules = tuple(rule for rule in rules if not rule.enforces)
    if contract is None or not rules:
        return Remarks()
    # A replay is compared with what it is to replace, not with its own beginning.
    main = replace(stage.lake, branch=MAIN, read_only=True)
    live = main.load(line.mirror) if line.replays else stage.base
    before = None if live is None else _counted_rows(stage.lake, live)
    found = judge_table(_result(stage.lake, line.mirror, stage.rows(), target, before), rules)
    if not line.replays:
        refused = refusal(line, found)
        if refused is not None:
            raise refused
    # On a replay's branch others may be unjudged, which its end says (`broken_by`).
    untried = [one for one in found if one.why is not None and one.rule.shadow]
    for one in untried:
        _log.warning("%s: the rule %s, which is only tried, cannot be judged (%s)", line.mirror, one.rule.name, one.why)
    broken = tuple(one.rule.name for one in found if one.why is None)
    return Remarks(broken, tuple(one.rule.name for one in untried))


def broken_by(line: Line, table: LakeTable, replaced: LakeTable | None = None) -> list[Audited]:
    """Judge a mirror as it is by the contract's rules about the table.

    Args:
        line: the way to it.
        table: the mirror, as it was loaded.
        replaced: what it is to take the place of; None where that is nothing, so that its number of rows is no change.

    Returns:
        The rules that it breaks, and those that cannot be judged.
    """
    rules = line.contract.table_rules if line.contract is not None else ()
    if not rules:
        return []
    before = None if replaced is None else _counted_rows(replace(line.lake, branch=MAIN, read_only=True), replaced)
    result = _result(line.lake, table.name, line.lake.rows(table), table.schema, before)
    return judge_table(result, rules)


def refusal(line: Line, found: Sequence[Audited]) -> TableRuleBroken | None:
    """The error of a table that may not be published for what was found; None for one that may."""
    blocking = [one for one in found if one.blocks]
    if line.contract is None or not blocking:
        return None
    broken = tuple(one.rule.name for one in blocking if one.why is None)
    unjudged = {one.rule.name: f"{one.why}; {line.contract.place(one.rule)}" for one in blocking if one.why}
    return TableRuleBroken(str(line.mirror), broken, unjudged, "replay" if line.replays else "batch")


def _result(lake: Lake, name: TableName, rows: DataFrame, target: TableSchema, before: DataFrame | None) -> Result:
    live = life.live_rows(rows, target).select(*[m.column(column) for column in target.types])
    return Result(lake, name, live, target.types, before, target.key)


def _counted_rows(lake: Lake, table: LakeTable) -> DataFrame | None:
    """The rows of a table in its own columns, which a replay may be about to change: they are only counted."""
    return None if table.is_empty else life.without_deleted(lake.rows(table))


def judge_table(result: Result, rules: Sequence[Rule]) -> list[Audited]:
    """Return the rules that the table is not as they say, and those that cannot be judged."""
    found: dict[str, Audited] = {}
    counting: list[Counted] = []
    for number, rule in enumerate(rules):
        try:
            one = counted(rule, result.types, result.rows, f"r{number}_")
        except Exception as failure:  # noqa: BLE001 - GX raises all kinds; whatever it is, no rule passes unjudged
            found[rule.name] = Audited(rule, _reason(failure))
            continue
        if one is not None:
            counting.append(one)
        elif (outcome := _alone(result, rule)) is not None:
            found[rule.name] = outcome
    found |= {one.rule.name: one for one in _together(result, counting)}
    return [found[rule.name] for rule in rules if rule.name in found]


def _together(result: Result, counting: Sequence[Counted]) -> list[Audited]:
    """Judge what is counted in one pass; each alone where one of them ends it, to find out which."""
    if not counting:
        return []
    try:
        inputs = {name: column for one in counting for name, column in one.inputs.items()}
        frame = result.rows.select(*[column.alias(name) for name, column in inputs.items()])
        sums = {name: column for one in counting for name, column in one.sums(frame).items()}
        totals = frame.agg(F.count(F.lit(1)).alias("rows"), *[sums[name].alias(name) for name in sums]).collect()[0]
        return [Audited(one.rule) for one in counting if not one.holds(totals.asDict(), totals["rows"])]
    except Exception as failure:  # noqa: BLE001 - as above
        if len(counting) == 1:
            return [Audited(counting[0].rule, _reason(failure))]
        return [outcome for one in counting for outcome in _together(result, [one])]


def _alone(result: Result, rule: Rule) -> Audited | None:
    judges: dict[str, Callable[[Result, Rule], bool]] = {
        said.DUPLICATES: _are_duplicates_kept,
        said.ROW_CHANGE: _is_change_kept,
        said.REFERENCES: _refers,
        said.SQL: _is_answer_kept,
        **dict.fromkeys(IN_ORDER, lambda result, rule: is_in_order(rule, result.rows, result.types, result.key)),
        "unexpected_rows_expectation": _are_no_rows,
    }
    judge = judges.get(rule.expectation)
    try:
        kept = judge(result, rule) if judge is not None else is_kept(rule, result.rows, result.types)
        return None if kept else Audited(rule)
    except Exception as failure:  # noqa: BLE001 - as above
        return Audited(rule, _reason(failure))


def _are_duplicates_kept(result: Result, rule: Rule) -> bool:
    """Whether as many rows have the values of another one as may; NULL is no value.

    Rows are told apart by their key, so none has another's values where it is among the columns: nothing is counted.
    """
    named = {name.casefold() for name in rule.kwargs["columns"]}
    if result.key and named >= {name.casefold() for name in result.key}:
        return said.holds(rule, 0, _rows_of(result, rule))
    columns = [m.column(name) for name in rule.kwargs["columns"]]
    known = result.rows
    for column in columns:
        known = known.where(column.isNotNull())
    # Not `count()`, whose column a table may have as well.
    several = known.groupBy(*columns).agg(F.count(F.lit(1)).alias("__cdc_rows")).where(F.col("__cdc_rows") > 1)
    found = several.agg(F.coalesce(F.sum("__cdc_rows"), F.lit(0)).alias("rows")).collect()[0]["rows"]
    return said.holds(rule, found, _rows_of(result, rule))


def _is_change_kept(result: Result, rule: Rule) -> bool:
    """Whether the number of rows changes as much as it may; the first rows of a table change nothing."""
    if result.before is None:
        return True
    before = result.before.count()
    return before == 0 or said.holds(rule, result.rows.count() - before, before)


def _refers(result: Result, rule: Rule) -> bool:
    """Whether all values are those of a live row of another mirror; where one of several is NULL, they are none."""
    other = said.other_table(rule, result.mirror)
    there = result.rows if other == result.mirror else _other(result.lake, other)
    own, known = result.rows, there
    pairs = []
    for number, (name, target) in enumerate(zip(rule.kwargs["columns"], rule.kwargs["to"], strict=True)):
        own = own.withColumn(f"__cdc_from_{number}", m.column(name)).where(m.column(name).isNotNull())
        known = known.withColumn(f"__cdc_to_{number}", m.column(target))
        pairs.append(F.col(f"__cdc_from_{number}") == F.col(f"__cdc_to_{number}"))
    own = own.select([f"__cdc_from_{number}" for number in range(len(pairs))])
    known = known.select([f"__cdc_to_{number}" for number in range(len(pairs))])
    return own.join(known, pairs, "left_anti").isEmpty()


def _other(lake: Lake, name: TableName) -> DataFrame:
    return life.without_deleted(lake.spark.table(table_path(lake.catalog, name)))


def _is_answer_kept(result: Result, rule: Rule) -> bool:
    """Whether the one number that a query gives is as the rule says."""
    column = quote(rule.column) if rule.column is not None else None
    answer = _answer(result, result.rows, one_number, said.query_of(rule, quote(_VIEW), column))
    rows = answer.collect()
    value: Any = rows[0][0] if len(rows) == 1 and len(answer.columns) == 1 else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise CannotBeJudged(rule.name)
    return said.holds(rule, value, _rows_of(result, rule))


def _are_no_rows(result: Result, rule: Rule) -> bool:
    """Whether a query of GX's finds not one row that breaks the rule; the query can only read."""
    preload()
    domain = {key: rule.kwargs[key] for key in CONDITION_KWARGS if key in rule.kwargs}
    names = {quote(name): ddl for name, ddl in result.types.items()}
    rows = result.rows.where(applies(domain, names, result.rows)) if domain else result.rows
    query = said.rows_query_of(rule, quote(_VIEW))
    return _answer(result, rows, lambda asked: first_rows(asked, 1), query).isEmpty()


def _answer(result: Result, rows: DataFrame, reading: Callable[[str], str], query: str) -> DataFrame:
    """What a contract's query gives.

    Names are what they are to Spark. Where it has no such table they are those of pipeline.yaml: of other mirrors what
    readers see, of the mirror itself what the batch would leave, because a rule about what readers see already would
    let pass what it is there for. Where the lake is the session's own catalog Spark knows the mirror by its name too,
    which stands for what the batch would leave all the same.

    Args:
        result: the table.
        rows: those of its rows that the query is about.
        reading: makes a query one that can only read.
        query: with the view's name in the places that stand for the table.
    """
    rows.createOrReplaceTempView(_VIEW)
    catalog, views = result.lake.spark.catalog, view_names([result.mirror], query)
    own, before = {*views.values(), result.mirror.name}, catalog.currentCatalog()
    meant = before
    try:
        answer = result.lake.answer(reading(query))
        if not _is_of_readers(result, answer):
            return answer
    except AnalysisException as unknown:
        if unknown.getCondition() != _NO_TABLE:
            raise
        meant = result.lake.catalog
    try:
        for view in own:
            rows.createOrReplaceTempView(quote(view))
        catalog.setCurrentCatalog(meant)
        # In full the mirror's name is that of what readers see.
        return result.lake.answer(reading(renamed(query, views, _NO_CATALOG)))
    finally:
        catalog.setCurrentCatalog(before)
        for view in own:
            catalog.dropTempView(view)


def _is_of_readers(result: Result, answer: DataFrame) -> bool:
    """Whether a query reads the mirror as readers see it."""
    read = readings(answer, result.lake.catalog, (_VIEW,))
    return any(one.behind(result.mirror) == () for one in read)


def _rows_of(result: Result, rule: Rule) -> int:
    """How many rows a percentage is of."""
    return result.rows.count() if rule.kwargs.get("unit") == said.PERCENT else 0


def _reason(failure: Exception) -> str:
    """What went wrong, without a word of what stands in the rows."""
    if isinstance(failure, ContractInvalid):  # of the rule and the columns' types; no row was looked at
        return failure.what.rstrip(".")
    condition: str | None = failure.getCondition() if isinstance(failure, PySparkException) else None
    told = condition or type(failure).__name__
    # Before it runs, Spark knows of the query alone: what it names then is what the contract has written.
    name = _named(failure, told) if isinstance(failure, AnalysisException) else None
    return f"{told}: {name}" if name else told


def _named(failure: AnalysisException, condition: str) -> str | None:
    """The column, table or function of a query that is not there, or the word at which its syntax breaks."""
    parameter = _NAMING.get(condition.partition(".")[0])
    found = (failure.getMessageParameters() or {}).get(parameter) if parameter is not None else None
    return shown(found.replace(f"{quote(_VIEW)}.", "").replace(quote(_VIEW), "{table}")) if found else None
