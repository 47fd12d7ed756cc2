"""What a contract promises of a table's age: its service levels' freshness."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation

from open_data_contract_standard.model import OpenDataContractStandard, SchemaObject

from cdc_materializer.contract.document import Findings

#: ODCS calls it latency, many contracts freshness: how old the newest data may be.
_PROPERTIES = frozenset({"freshness", "latency"})
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
}


def read_freshness(document: OpenDataContractStandard, table: SchemaObject, findings: Findings) -> timedelta | None:
    """Return how old the newest change in a table may be while there are newer ones; None where nothing says so.

    Args:
        document: the contract.
        table: the one that is meant; a service level's `element` can name another.
        findings: where problems go.
    """
    promised: list[timedelta] = []
    for index, level in enumerate(document.slaProperties or ()):
        of_another = level.element is not None and level.element.partition(".")[0] != table.name
        if (level.property or "").lower() not in _PROPERTIES or of_another:
            continue
        unit = _UNITS.get((level.unit or "").lower())
        try:
            number = Decimal(str(level.value))
        except InvalidOperation:
            number = Decimal(-1)
        if unit is None:
            message = f"unknown unit {str(level.unit)[:40]!r} of {level.property}."
            findings.add(("slaProperties", index), message, "The units are s, min, h and d.")
        elif isinstance(level.value, bool) or not number.is_finite() or number <= 0:
            findings.add(("slaProperties", index), f"{level.property} is not a number above 0.", "Write such as 4.")
        else:
            try:
                promised.append(unit * float(number))
            except OverflowError:
                message = f"{level.property} is longer than can be counted."
                findings.add(("slaProperties", index), message, "Write such as 4.")
    return min(promised, default=None)
