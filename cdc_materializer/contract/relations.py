"""The tables that a contract's relationships refer to: whether they are there, and have the columns; without Spark."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from cdc_materializer.catalog import open_tables
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.model import Contract
from cdc_materializer.contract.table_rules import REFERENCES, other_table
from cdc_materializer.errors import CdcError
from cdc_materializer.names import TableName, nearest

if TYPE_CHECKING:
    from cdc_materializer.config import Config

#: The columns that a table has; None for no such table, none at all where they are not known.
ColumnsOf = Callable[[TableName], Collection[str] | None]


def columns_elsewhere(config: "Config", mirrors: Iterable[TableName]) -> ColumnsOf:
    """Ask for the columns of tables: some mirrors, made or yet to be made, and whatever is in the catalog.

    Args:
        config: from `load_config`.
        mirrors: those of the pipeline.
    """
    names = {str(mirror).casefold(): mirror for mirror in mirrors}

    def columns_of(table: TableName) -> Collection[str] | None:
        mirror = names.get(str(table).casefold())
        with suppress(CdcError):
            found = open_tables(config.catalog).columns_of(mirror or table)
            return found[0].keys() if found is not None else (() if mirror is not None else None)
        return ()

    return columns_of


def check_references(contract: Contract, own: TableName, columns_of: ColumnsOf, findings: Findings) -> None:
    """Note relationships to tables or columns that there are none of: such a rule cannot be judged, and blocks."""
    for rule in (rule for rule in contract.table_rules if rule.expectation == REFERENCES):
        there = other_table(rule, own)
        columns = columns_of(there)
        if columns is None:
            do = "Mend its name, mirror it too, or take the action away: the relationship only describes then."
            findings.add(("schema",), f"{rule.name} refers to {there}, and there is no such table.", do, rule.line)
            continue
        # Its own new columns come with the batch that is judged.
        known = {name.casefold() for name in columns} if there != own else set()
        for name in rule.kwargs["to"] if known else ():
            if name.casefold() not in known:
                near = nearest(name, columns)
                do = f"Did you mean {near}?" if near else "Mend its name, or take the action away."
                what = f"{rule.name} refers to {there}.{name}, and {there} has no such column."
                findings.add(("schema",), what, do, rule.line)
