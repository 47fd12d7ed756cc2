"""How a column's times are counted where JSON has them as numbers: by the type's precision, or as the contract says.

Debezium's default counts a time without a zone in the coarsest of milliseconds, microseconds and nanoseconds that holds
the type's precision. Only where that is one and the same in all databases that know the spelling is it taken from it.
"""

from collections.abc import Mapping

from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.types import column_type, physical_type, spelling
from cdc_materializer.decode.units import DeclaredType, TimeUnit

PROPERTY = "time_unit"
_STATED = tuple(str(unit) for unit in TimeUnit if unit is not TimeUnit.UNSETTLED)

#: Zone-less types, with the digits behind the second that they have where none are written. MySQL's `datetime` has none
#: and SQL Server's three, which Debezium counts alike; `timestamp` is an instant in MySQL, which comes as a text, and
#: has six digits in PostgreSQL, Oracle and Db2.
_MOMENTS: Mapping[str, int | None] = {
    "datetime": 3,
    "smalldatetime": 0,
    "datetime2": 7,
    "timestamp_without_time_zone": 6,
    "timestamp": None,
    "timestamp_ntz": None,
}
#: Times of day: MySQL's are microseconds whatever their digits, and SQL Server's have seven where none are written.
_CLOCKS = frozenset({"time", "time_without_time_zone"})
_CLOCK_DIGITS = 6
_MILLIS_DIGITS, _MICROS_DIGITS = 3, 6


def read_time_unit(declared: SchemaProperty, here: Place, findings: Findings) -> TimeUnit | None:
    """How a column's times are counted; None for what is no moment and no time of day.

    Notes a `time_unit` that is none, or that a column has which is no time.
    """
    found = _by_type(declared)
    for index, entry in enumerate(declared.customProperties or ()):
        if entry.property != PROPERTY:
            continue
        at = (*here, "customProperties", index)
        if found is None:
            findings.add(at, f"{PROPERTY} stands at a column that is no time.", "Remove it, or give the column's type.")
        elif entry.value in _STATED:
            return TimeUnit(str(entry.value))
        else:
            findings.add(at, f"unknown {PROPERTY} {str(entry.value)[:40]!r}.", f"The units are {', '.join(_STATED)}.")
    return found


def declared_type(declared: SchemaProperty, line: int | None) -> DeclaredType | None:
    """What values are read as that a source sends in another type; None where the contract gives no type.

    A unit is what `time_unit` says and nothing else: a plain number has none of a connector's rules behind it.
    """
    ddl = column_type(declared)
    if ddl is None:
        return None
    stated = [str(entry.value) for entry in declared.customProperties or () if entry.property == PROPERTY]
    unit = TimeUnit(stated[-1]) if stated and stated[-1] in _STATED else None
    return DeclaredType(ddl, unit, is_clock=ddl == "bigint" and _by_type(declared) is not None, line=line)


def _by_type(declared: SchemaProperty) -> TimeUnit | None:
    physical = declared.physicalType or ""
    base, parameters = spelling(" ".join(physical.split())) if physical_type(physical) else ("", [])
    if base in _CLOCKS or (not base and declared.logicalType == "time"):
        return _of_clock(base, parameters)
    if column_type(declared) not in {"timestamp", "timestamp_ntz"}:
        return None
    digits = int(parameters[0]) if parameters and parameters[0].isdigit() else None
    if base not in _MOMENTS:
        return TimeUnit.UNSETTLED
    return _of_digits(_MOMENTS[base] if digits is None else digits)


def _of_clock(base: str, parameters: list[str]) -> TimeUnit:
    digits = int(parameters[0]) if parameters and parameters[0].isdigit() else None
    if base == "time_without_time_zone":
        return _of_digits(_CLOCK_DIGITS if digits is None else digits)
    # Up to three digits are microseconds in MySQL, and milliseconds elsewhere.
    return TimeUnit.UNSETTLED if digits is None or digits <= _MILLIS_DIGITS else _of_digits(digits)


def _of_digits(digits: int | None) -> TimeUnit:
    if digits is None:
        return TimeUnit.UNSETTLED
    if digits <= _MILLIS_DIGITS:
        return TimeUnit.MILLISECONDS
    return TimeUnit.MICROSECONDS if digits <= _MICROS_DIGITS else TimeUnit.NANOSECONDS
