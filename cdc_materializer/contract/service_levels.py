"""What a contract promises of a table's age: its service levels' freshness."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation

from open_data_contract_standard.model import OpenDataContractStandard, SchemaObject

from cdc_materializer.contract.document import Findings
from cdc_materializer.names import nearest

#: ODCS calls it latency, many contracts freshness: how old the newest data may be.
_PROPERTIES = frozenset({"freshness", "latency"})
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
    **dict.fromkeys(("y", "yr", "year", "years"), timedelta(days=365)),
}


def read_freshness(
    document: OpenDataContractStandard, table: SchemaObject, findings: Findings, *, lints: bool
) -> timedelta | None:
    """Return how old the newest change in a table may be while there are newer ones; None where nothing says so.

    Args:
        document: the contract.
        table: the one that is meant; a service level's `element` can name others.
        findings: where problems go.
        lints: whether an element that the contract does not have is one; no run is refused for it.
    """
    promised: list[timedelta] = []
    for index, level in enumerate(document.slaProperties or ()):
        if (level.property or "").lower() not in _PROPERTIES:
            # ODCS lets a service level have any name; this is not one of its own.
            if lints and (near := nearest(level.property or "", sorted(_PROPERTIES))):
                message = f"unknown service level {(level.property or '')[:40]!r}, of which nothing is told."
                findings.add(("slaProperties", index), message, f"Did you mean {near}?")
            continue
        named = [element.strip() for element in (level.element or "").split(",") if element.strip()]
        meant = [_is_meant(element, document, table) for element in named]
        for element in [one for one, found in zip(named, meant, strict=True) if found is None and lints]:
            message = f"{level.property} is promised of {element[:80]!r}, which the contract does not have."
            do = "Name a table of the contract, or a column behind its table's name and a dot."
            findings.add(("slaProperties", index, "element"), message, do)
        if named and True not in meant:
            continue
        unit = _UNITS.get((level.unit or "").lower())
        try:
            number = Decimal(str(level.value))
        except InvalidOperation:
            number = Decimal(-1)
        if unit is None:
            message = f"unknown unit {str(level.unit)[:40]!r} of {level.property}."
            findings.add(("slaProperties", index), message, "The units are s, min, h, d and y.")
        elif isinstance(level.value, bool) or not number.is_finite() or number <= 0:
            findings.add(("slaProperties", index), f"{level.property} is not a number above 0.", "Write such as 4.")
        else:
            try:
                promised.append(unit * float(number))
            except OverflowError:
                message = f"{level.property} is longer than can be counted."
                findings.add(("slaProperties", index), message, "Write such as 4.")
    return min(promised, default=None)


def _is_meant(element: str, document: OpenDataContractStandard, table: SchemaObject) -> bool | None:
    """Whether an element of a service level is a table or of it; None where it is of no table of the contract."""
    tables = document.schema_ or []
    # Behind the name of a namespace too, as mirrors have it.
    for named in (element.casefold(), element.casefold().partition(".")[2]):
        found = [one for one in tables if _is_within(named, one)]
        if found:
            return any(one is table for one in found)
    # Of the only table a column needs no name before it.
    columns = {name.casefold() for one in table.properties or () for name in (one.name, one.physicalName) if name}
    return True if len(tables) == 1 and element.casefold().partition(".")[0] in columns else None


def _is_within(named: str, table: SchemaObject) -> bool:
    names = [name.casefold() for name in (table.name, table.physicalName) if name]
    return any(named == name or named.startswith(f"{name}.") for name in names)
