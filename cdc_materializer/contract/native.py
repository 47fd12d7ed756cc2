"""Rules about the whole table that Great Expectations judges by jobs of its own: medians, quantiles, sets of values."""

from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cdc_materializer.contract.gx import CannotBeJudged, applies, check_arguments, is_met, preload
from cdc_materializer.contract.literals import fit_members
from cdc_materializer.contract.model import Rule
from cdc_materializer.contract.table_expectations import CONDITION_KWARGS, IN_ORDER, TABLE, WHOLE_SETS
from cdc_materializer.contract.types import Family, family
from cdc_materializer.names import ignoring_case, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What a rule's column is called while GX looks at it: a name that it need not quote.
_VALUE, _ABSENT = "value", "absent"


def is_kept(rule: Rule, rows: "DataFrame", types: Mapping[str, str]) -> bool:
    """Whether a table is as a rule says, by GX's own verdict.

    GX is given the rows that the rule's condition selects and of them the columns that it names, no more.

    Args:
        rule: about the table, of an expectation that GX judges itself.
        rows: the table.
        types: the DDL types of its columns, by name.

    Raises:
        CannotBeJudged: GX cannot tell.
    """
    preload()
    known, kwargs = TABLE[rule.expectation], dict(rule.kwargs)
    domain = {key: kwargs.pop(key) for key in CONDITION_KWARGS if key in kwargs}
    if domain:
        rows = rows.where(applies(domain, {quote(name): ddl for name, ddl in types.items()}, rows))
    if not known.columns or rule.expectation == "expect_column_to_exist":
        return is_met(rule.expectation, *_renamed(rule.column, kwargs, rows))
    named: list[str] = [rule.column] if rule.column is not None else list(kwargs.get("column_list", ()))
    own = [f"{_VALUE}_{number}" for number in range(len(named))]
    rows = rows.select([rows[quote(name)].alias(alias) for name, alias in zip(named, own, strict=True)])
    kwargs |= {"column": own[0]} if known.columns == ("column",) else {"column_list": own}
    fitted = _fitted(kwargs, _type_of(rule, types))
    asked = [member for member in kwargs.get("value_set", ()) if member is not None]
    if rule.expectation in WHOLE_SETS and len(fitted["value_set"]) < len(asked):
        return False  # a member that the column cannot hold is among the values of no table
    return is_met(rule.expectation, fitted, rows)


def is_in_order(rule: Rule, rows: "DataFrame", types: Mapping[str, str], key: Sequence[str]) -> bool:
    """Whether a column's values go up, or down, with the rows in the order of their key.

    What GX asks of each row and the one before it. It takes rows in the order in which Spark reads them, which differs
    from run to run, and compares instants by their days; here the key orders them and values are compared as they are.
    NULL and NaN are passed over.

    Args:
        rule: of an expectation that is `IN_ORDER`.
        rows: the table.
        types: the DDL types of its columns, by name.
        key: the columns that identify a row.

    Raises:
        CannotBeJudged: the table has no key.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    preload()
    check_arguments(rule)
    if not key:
        raise CannotBeJudged(rule.expectation)
    domain = {name: rule.kwargs[name] for name in CONDITION_KWARGS if name in rule.kwargs}
    if domain:
        rows = rows.where(applies(domain, {quote(name): ddl for name, ddl in types.items()}, rows))
    value = rows[quote(rule.column or "")]
    known = rows.where(value.isNotNull())
    if _type_of(rule, types) in {"float", "double"}:
        known = known.where(~F.isnan(value))
    before = F.lag(value).over(Window.orderBy(*[rows[quote(name)] for name in key]))
    turned = value < before if IN_ORDER[rule.expectation] == "increasing" else value > before
    broken = (turned | (value == before)) if rule.kwargs.get("strictly") else turned
    found = known.select(F.coalesce(broken, F.lit(False)).alias("broken")).agg(
        F.count_if("broken").alias("broken"), F.count(F.lit(1)).alias("rows")
    )
    sums = found.collect()[0]
    return bool(sums["rows"] - sums["broken"] >= Fraction(str(rule.kwargs.get("mostly", 1))) * sums["rows"])


def _type_of(rule: Rule, types: Mapping[str, str]) -> str | None:
    return {ignoring_case(name): ddl for name, ddl in types.items()}.get(ignoring_case(rule.column or ""))


def _renamed(column: str | None, kwargs: dict[str, Any], rows: "DataFrame") -> tuple[dict[str, Any], "DataFrame"]:
    """What a rule about the columns themselves says, and the table, with names that GX need not quote.

    Case tells no columns apart, as in every other rule.
    """
    names = {ignoring_case(name): f"{_VALUE}_{number}" for number, name in enumerate(rows.columns)}
    told = dict(kwargs) | ({"column": names.get(ignoring_case(column), _ABSENT)} if column is not None else {})
    for key in told.keys() & {"column_list", "column_set"}:
        told[key] = [
            names.get(ignoring_case(str(name)), f"{_ABSENT}_{number}") for number, name in enumerate(told[key])
        ]
    return told, rows.toDF(*names.values())


def _fitted(kwargs: dict[str, Any], ddl: str | None) -> dict[str, Any]:
    """The arguments with the members of a set as Spark gives the column's values: GX compares them in Python."""
    if "value_set" not in kwargs or ddl is None:
        return kwargs
    members = fit_members(kwargs["value_set"], ddl)
    days = [date.fromisoformat(str(day)) for day in members] if family(ddl) is Family.DATE else members
    return {**kwargs, "value_set": days}
