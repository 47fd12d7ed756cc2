"""What a contract calls a column's type twice: ODCS's logicalType, and the physicalType, which counts.

Only pairs are told of which no value can be both. A text can be anything, for a connector may send anything as one; a
whole number can be a flag, an instant or a day; and a `string` is what tools write that know no better.
"""

import re
from collections.abc import Mapping

from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.contract.types import Family, family, physical_type

_TIMES = frozenset({Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ})
_NO_TIME = frozenset({Family.BOOLEAN, Family.NESTED})
_FLAT = frozenset(Family) - {Family.TEXT, Family.NESTED, Family.BINARY}
#: Kinds of physical types that a logical one cannot have.
_NEVER: Mapping[str, frozenset[Family]] = {
    "boolean": _TIMES | {Family.NESTED},
    "integer": _TIMES | {Family.BOOLEAN, Family.NESTED},
    "number": _TIMES | {Family.BOOLEAN, Family.NESTED},
    "date": _NO_TIME,
    "timestamp": _NO_TIME,
    "time": _NO_TIME | {Family.DATE},
    **dict.fromkeys(("array", "object", "map", "vector"), _FLAT),
}
#: Logical types whose values, as numbers, are whole.
_WHOLE = frozenset({"boolean", "date"})
_FRACTION = re.compile(r"float|double|decimal\(\d+,[1-9]\d*\)")


def contradiction(declared: SchemaProperty) -> str | None:
    """Say which two types of a property cannot both be its own; None where they can, or one of them is not known."""
    logical, physical = declared.logicalType, declared.physicalType
    ddl = physical_type(physical) if physical else None
    if ddl is None or logical is None:
        return None
    is_never = family(ddl) in _NEVER.get(logical, frozenset())
    if is_never or (logical in _WHOLE and _FRACTION.fullmatch(ddl)):
        return f"logicalType {logical} and physicalType {str(physical)[:40]!r} cannot both be: no value is one of each."
    return None
