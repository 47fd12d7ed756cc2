"""Rules -> Spark condition columns, asked from Great Expectations' own metric providers.

GX is the engine of record: for each rule its expectation class names a map metric, the registry has that metric's
provider for Spark, and the provider builds the *unexpected condition*, a Spark column, from a column name and the
rule's arguments. Run natively GX would then start jobs for each rule; here the conditions of all rules are evaluated
in the one pass that reads the rows anyway. Which rows a rule looks at at all (`row_condition`, `ignore_row_if`) is
asked from GX too: its engine filters a stand-in for the rows that only writes down what it was filtered by.

Where GX and the exact answer differ, the exact value decides:

- Bounds and set members are exact literals of the column's own type (see ``literals``). GX compares decimals with
  fractions as doubles, and passes bounds through a float.
- A null in a `value_set` is left out. In GX it makes `x IN (…, NULL)` unknown, and then no value outside the set fails.

Nulls are as in GX: a map expectation ignores them, except not_be_null and be_null. A condition that is unknown (SQL
null) is no failure, in GX's counts as here; so ``failed`` is never null.

Great Expectations takes seconds to import. Nothing here imports it before ``preload`` or ``compile_rules`` is called.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_materializer.causes import java_causes
from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.gx import check_arguments, preload, unexpected
from cdc_materializer.contract.literals import Misfit, Side, decimal_shape, fit_bound, fit_members
from cdc_materializer.contract.model import Rule, Scope
from cdc_materializer.contract.types import DECIMAL_PRECISION_MAX, family
from cdc_materializer.errors import ContractInvalid
from cdc_materializer.names import nearest, quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["COMPILED", "CompiledRule", "compile_rules", "compile_to_judge", "empty_rows", "preload"]

#: Expectations that are compiled; the parity test runs each of them both ways.
COMPILED = frozenset(ROW)

#: GX casts whole numbers to decimal(38,0) before it adds; Spark then keeps at most six places of the others.
_SCALE_KEPT_BESIDE_INTEGERS = 6


#: Where an error's own sentences end: Spark's state number, a plan, a caret line.
_AFTERTHOUGHT = re.compile(r"(?<!\s)\s*SQLSTATE|\n\n|\n?== SQL|; line \d|\^")


@dataclass(frozen=True)
class CompiledRule:
    """A rule, which rows break it, and which rows it looks at at all; neither column is ever null."""

    rule: Rule
    failed: "Column"
    looked_at: "Column"


def compile_rules(
    rules: Sequence[Rule], columns: Mapping[str, str], file: str | None = None
) -> tuple[CompiledRule, ...]:
    """Return one condition a rule, checked against the row's columns by Spark's analyser; no job runs.

    Args:
        rules: row rules of a contract.
        columns: the row's columns, name to Spark DDL type.
        file: the name of the contract's file, for errors.

    Raises:
        ContractInvalid: for a rule that cannot be compiled: a missing column, a type that it cannot judge, a bound
            that does not fit, an expectation without a Spark condition, a broken pattern. Never let through.
    """
    compiled, refused = _compiled(rules, columns, file)
    for error in refused.values():
        raise error
    return compiled


def compile_to_judge(
    rules: Sequence[Rule], columns: Mapping[str, str], file: str | None = None
) -> tuple[tuple[CompiledRule, ...], Mapping[str, str]]:
    """Do as `compile_rules`, but leave out what is only tried and cannot be compiled: it holds nothing up.

    Returns:
        The compiled rules, and of each that is left out why.

    Raises:
        ContractInvalid: a rule that is in force cannot be compiled.
    """
    compiled, refused = _compiled(rules, columns, file)
    for rule in rules:
        if rule.name in refused and not rule.shadow:
            raise refused[rule.name]
    return compiled, {name: error.what for name, error in refused.items()}


def _compiled(
    rules: Sequence[Rule], columns: Mapping[str, str], file: str | None
) -> tuple[tuple[CompiledRule, ...], Mapping[str, ContractInvalid]]:
    if not rules:
        return (), {}
    preload()
    rows, compiled, refused = empty_rows(columns), list[CompiledRule](), dict[str, ContractInvalid]()
    for rule in rules:
        try:
            compiled.append(_Compiler(rule, columns, rows, file).compiled())
        except ContractInvalid as error:
            refused[rule.name] = error
    return tuple(compiled), refused


def empty_rows(columns: Mapping[str, str]) -> "DataFrame":
    """Return a frame without rows that has the columns; what it can resolve, the batch can."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.active()
    return spark.range(0).select(*(F.lit(None).cast(ddl).alias(name) for name, ddl in columns.items()))


class _Compiler:
    """Compiles one rule; every refusal names the rule and where the file states it."""

    def __init__(self, rule: Rule, columns: Mapping[str, str], rows: "DataFrame", file: str | None) -> None:
        self.rule = rule
        self.file = file
        self.columns = columns
        self.rows = rows

    def compiled(self) -> CompiledRule:
        """Return the compiled rule."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        known = ROW.get(self.rule.expectation)
        if known is None or self.rule.scope is not Scope.ROW:
            raise self.invalid(f"{self.rule.expectation} has no condition for single rows")
        try:
            domain, values = self._arguments()
            check_arguments(self.rule)
            failed, looked_at = unexpected(self.rule.expectation, domain, values, self._names(), self.rows)
            # Analysed now, so that no running batch meets the mistake.
            self.rows.select(failed.alias("failed"), looked_at.alias("looked_at"))
        except (Misfit, PySparkException, Py4JError) as error:
            raise self.invalid(_reason(error)) from error
        except ContractInvalid:
            raise
        except Exception as error:  # GX raises all kinds; whatever it is, the rule must not pass unnoticed
            raise self.invalid(f"Great Expectations refuses it ({type(error).__name__}: {_reason(error)})") from error
        return CompiledRule(self.rule, failed, looked_at)

    def invalid(self, why: str) -> ContractInvalid:
        """Return the error that refuses this rule."""
        line = f":{self.rule.line}" if self.rule.line else ""
        at = f"Contract {self.file}{line}: the" if self.file else "The"
        return ContractInvalid(
            f"{at} rule {self.rule.name} cannot be applied: {why}.",
            "Mend the rule, check it with `cdcm contract lint` and try it with `cdcm contract test --table TABLE`.",
        )

    def _names(self) -> dict[str, str]:
        """Quoted names of the row's columns with their types, as GX's metrics list them."""
        return {quote(name): ddl for name, ddl in self.columns.items()}

    def _resolve(self, name: object) -> str:
        """Return the row's own spelling of a column that the rule names; Spark ignores case."""
        spelled = str(name)
        if spelled in self.columns:
            return spelled
        for column in self.columns:
            if column.casefold() == spelled.casefold():
                return column
        near = nearest(spelled, self.columns)
        also = f" (there is {near})" if near else ""
        raise self.invalid(f"the table has no column {spelled[:80]!r}{also}")

    def _arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split the rule's arguments into GX's domain (which rows, which columns) and values, made exact."""
        given, known = dict(self.rule.kwargs), ROW[self.rule.expectation]
        if given.pop("mostly", 1) != 1:
            raise self.invalid("with mostly below 1 it speaks of the whole table")
        if known.columns == ("column",):
            given["column"] = self.rule.column
        domain: dict[str, Any] = {
            key: given.pop(key) for key in ("row_condition", "condition_parser", "ignore_row_if") if key in given
        }
        named: list[str] = []
        for key in known.columns:
            value = given.pop(key, None)
            own = [self._resolve(name) for name in value] if isinstance(value, list) else [self._resolve(value)]
            named += own
            domain[key] = [quote(name) for name in own] if isinstance(value, list) else quote(own[0])
        self._check_families(named)
        return domain, self._exact(given, [self.columns[name] for name in named])

    def _check_families(self, named: Iterable[str]) -> None:
        known, found = ROW[self.rule.expectation], {family(self.columns[name]) for name in named}
        if wrong := found - (known.families or found):
            raise self.invalid(f"it cannot judge columns of kind {', '.join(sorted(wrong))}")
        if len(found) > 1:
            raise self.invalid(f"columns of different kinds ({', '.join(sorted(found))}) cannot be compared")
        shapes = [shape for name in named if (shape := decimal_shape(self.columns[name]))]
        if shapes and max(whole for whole, _ in shapes) + max(scale for _, scale in shapes) > DECIMAL_PRECISION_MAX:
            raise self.invalid("its columns together need more than 38 digits, so Spark would round before comparing")

    def _exact(self, values: dict[str, Any], types: Sequence[str]) -> dict[str, Any]:
        """Replace bounds, members and totals with exact literals of the columns' types."""
        kind, ddl = self.rule.expectation, types[0]
        if kind == "expect_column_values_to_be_between":
            for key, strict, out, inwards in (
                ("min_value", "strict_min", Side.DOWN, Side.UP),
                ("max_value", "strict_max", Side.UP, Side.DOWN),
            ):
                if values.get(key) is not None:
                    values[key] = fit_bound(values[key], ddl, out if values.get(strict) else inwards)
        elif "value_set" in values:
            values["value_set"] = self._members(fit_members(values["value_set"], ddl))
        elif "value_pairs_set" in values:
            values["value_pairs_set"] = self._members(_fit_pairs(values["value_pairs_set"], types))
        elif "sum_total" in values:
            values["sum_total"] = self._total(values["sum_total"], types)
        for pattern in (values.get("regex"), *(values.get("regex_list") or ())):
            if pattern is not None:
                _compile_pattern(pattern)
        return values

    def _members(self, fitted: list[Any]) -> list[Any]:
        if not fitted:
            raise self.invalid("no member of its set can be a value of the column; nulls are never judged by a set")
        return fitted

    def _total(self, total: object, types: Sequence[str]) -> object:
        """Return the sum as a literal; refuse sums that Spark could not form exactly or at all."""
        shapes = [decimal_shape(ddl) for ddl in types]
        if any(shape is None for shape in shapes):  # a float among them: the sum is a float
            return fit_bound(total, "double", Side.UP)
        whole, scale = max(shape[0] for shape in shapes if shape), max(shape[1] for shape in shapes if shape)
        beside_integers = any(ddl.partition("(")[0] != "decimal" for ddl in types)
        if whole + scale + len(types) - 1 > DECIMAL_PRECISION_MAX or (
            beside_integers and scale > _SCALE_KEPT_BESIDE_INTEGERS
        ):
            raise self.invalid("the sum of its columns can need more than 38 digits")
        fitted = fit_members([total], f"decimal({DECIMAL_PRECISION_MAX},{scale})")
        if not fitted:
            raise self.invalid("no sum of its columns can be sum_total")
        return fitted[0]


def _fit_pairs(pairs: Iterable[Sequence[object]], types: Sequence[str]) -> list[tuple[object, object]]:
    """Return the pairs that two columns can hold; here a null is a value (GX compares null-safe)."""
    fitted: list[tuple[object, object]] = []
    for pair in pairs:
        sides = [[None] if value is None else fit_members([value], ddl) for value, ddl in zip(pair, types, strict=True)]
        if all(sides):
            fitted.append((sides[0][0], sides[1][0]))
    return fitted


def _compile_pattern(pattern: str) -> None:
    """Let Java read a pattern now: Spark would only do so with the first row of a running batch."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - none on Spark Connect, where the server finds out
    if context is not None and context._jvm is not None:  # noqa: SLF001
        context._jvm.java.util.regex.Pattern.compile(pattern)  # noqa: SLF001


def _reason(error: Exception) -> str:
    """Return what a reader of the contract needs of a library's error: its first sentences, without plan or stack."""
    java = next(java_causes(error), None)
    text = str(java.getMessage()) if java is not None else str(error)
    return " ".join(_AFTERTHOUGHT.split(text, maxsplit=1)[0].split())[:300].rstrip(". ")
