"""The tables that a contract's relationships and queries name: whether they and their columns are there; no Spark."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import reveal
from cdc_materializer.config.connections import CATALOG_NAME
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.model import Contract
from cdc_materializer.contract.table_rules import REFERENCES, other_table
from cdc_materializer.errors import CdcError, InvalidName
from cdc_materializer.names import TableName, nearest

if TYPE_CHECKING:
    from cdc_materializer.config import Config

#: The columns that a table has; None for no such table, none at all where they are not known.
ColumnsOf = Callable[[TableName], Collection[str] | None]
#: First parts of names in Spark's SQL that are no namespaces of a catalog, whatever that has.
_OF_SPARK = frozenset({"builtin", "global_temp", "information_schema", "session", "spark_catalog", "system"})
_CATALOGS = "spark.sql.catalog."
#: The parts of a name that has a namespace of one part.
_WITHOUT_CATALOG = 2


@dataclass(frozen=True)
class Elsewhere:
    """What a contract depends on in its pipeline: the tables beside its own, and whether there is a key for hashes.

    Attributes:
        columns_of: the columns of one.
        catalog: the name of the catalog.
        foreign: other first parts of names, of which only Spark knows what they are, in lower case.
        is_flat: whether a name without a namespace may be one of a table.
        has_key: whether the pipeline has a key for hashes.
    """

    columns_of: ColumnsOf
    catalog: str = CATALOG_NAME
    foreign: frozenset[str] = _OF_SPARK
    is_flat: bool = False
    has_key: bool = True

    def named(self, parts: tuple[str, ...]) -> Collection[str] | None:
        """The columns of a table by its name in a query: with the catalog before it, or a table of Iceberg's behind."""
        is_full = len(parts) > 1 and parts[0].casefold() == self.catalog.casefold()
        own = parts[1:] if is_full else parts
        # A name of three parts may be of a catalog that the caller's Spark has.
        if (not is_full and (parts[0].casefold() in self.foreign or len(parts) > _WITHOUT_CATALOG)) or (
            len(own) == 1 and (is_full or self.is_flat)
        ):
            return ()
        if len(own) == 1:
            return None
        columns = self._columns_of(own)
        is_of_table = columns is None and len(own) > _WITHOUT_CATALOG and self._columns_of(own[:-1]) is not None
        return () if is_of_table else columns

    def _columns_of(self, parts: tuple[str, ...]) -> Collection[str] | None:
        try:
            return self.columns_of(TableName.parse(".".join(parts)))
        except InvalidName:  # such as one of ours beside a mirror
            return ()


def columns_elsewhere(config: "Config", mirrors: Iterable[TableName]) -> Elsewhere:
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

    of_spark = {
        name.removeprefix(_CATALOGS).partition(".")[0].casefold() for name in config.spark if name.startswith(_CATALOGS)
    }
    properties = reveal(config.catalog.properties)
    is_flat = "default-namespace" in properties or properties.get("type") == "hadoop"
    return Elsewhere(columns_of, config.catalog.name, _OF_SPARK | of_spark, is_flat, has_key=config.masks is not None)


def check_references(contract: Contract, own: TableName, elsewhere: Elsewhere, findings: Findings) -> None:
    """Note relationships to tables or columns that there are none of: such a rule cannot be judged, and blocks."""
    for rule in (rule for rule in contract.table_rules if rule.expectation == REFERENCES):
        there = other_table(rule, own)
        columns = elsewhere.columns_of(there)
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
