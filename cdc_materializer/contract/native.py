"""Rules about the whole table that Great Expectations judges by jobs of its own: medians, quantiles, sets of values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.contract.gx import applies, is_met, preload
from cdc_materializer.contract.literals import fit_members
from cdc_materializer.contract.model import Rule
from cdc_materializer.contract.table_expectations import CONDITION_KWARGS, TABLE
from cdc_materializer.names import quote

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
    return is_met(rule.expectation, _fitted(kwargs, types.get(rule.column or "")), rows)


def _renamed(column: str | None, kwargs: dict[str, Any], rows: "DataFrame") -> tuple[dict[str, Any], "DataFrame"]:
    """What a rule about the columns themselves says, and the table, with names that GX need not quote."""
    names = {name: f"{_VALUE}_{number}" for number, name in enumerate(rows.columns)}
    told = dict(kwargs) | ({"column": names.get(column, _ABSENT)} if column is not None else {})
    for key in told.keys() & {"column_list", "column_set"}:
        told[key] = [names.get(name, f"{_ABSENT}_{number}") for number, name in enumerate(told[key])]
    return told, rows.toDF(*names.values())


def _fitted(kwargs: dict[str, Any], ddl: str | None) -> dict[str, Any]:
    """The arguments with the members of a set as exact values of the column's type: 0.1 is no double."""
    if "value_set" not in kwargs or ddl is None:
        return kwargs
    return {**kwargs, "value_set": fit_members(kwargs["value_set"], ddl)}
