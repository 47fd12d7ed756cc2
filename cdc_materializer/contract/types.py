"""Column types: what a contract may write and what Spark calls it, in one table; and what kind of type it is.

The targets are those of the changelog semantics, section 3: what a Debezium connector's value of that database type
becomes in the lake. Where one word means different things in different systems the table says which is meant.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.schema.types import field_list

#: Spark's and Iceberg's largest decimal precision.
DECIMAL_PRECISION_MAX = 38

#: How deeply arrays and objects may nest.
NESTING_MAX = 32

#: Types without parameters, in lower case and single-spaced -> Spark DDL type.
#: `timestamp` alone is Spark's and MySQL's, an instant; PostgreSQL writes its zone-less one in full.
#: `float` alone is Spark's and MySQL's, 32 bits. `numeric` alone is PostgreSQL's, whose scale differs from value to
#: value and is kept as text; `decimal` alone is decimal(10,0), as in Spark and MySQL. Times of day are microseconds.
PLAIN: Mapping[str, str] = {
    name: spark
    for spark, names in {
        "boolean": "boolean bool",
        "int": "int integer int4 int2 smallint tinyint byte short mediumint serial serial4 smallserial year "
        "smallint_unsigned tinyint_unsigned mediumint_unsigned",
        "bigint": "bigint int8 long bigserial serial8 oid int_unsigned integer_unsigned time time_without_time_zone",
        "decimal(20,0)": "bigint_unsigned int8_unsigned",
        "decimal(10,0)": "decimal dec",
        "decimal(19,2)": "money",
        "float": "float real float4",
        "double": "double double_precision float8 binary_double",
        "string": "string text varchar character_varying char character bpchar nchar nvarchar nvarchar2 varchar2 "
        "tinytext mediumtext longtext clob nclob citext name uuid uniqueidentifier json jsonb xml enum set "
        "inet cidr macaddr macaddr8 interval ltree tsvector numeric number timetz time_with_time_zone",
        "binary": "binary varbinary bytea blob tinyblob mediumblob longblob image raw bytes varbit bit_varying",
        "date": "date",
        "timestamp": "timestamp timestamptz timestamp_ltz timestamp_with_time_zone datetimeoffset "
        "timestamp_with_local_time_zone",
        "timestamp_ntz": "timestamp_ntz timestamp_without_time_zone datetime datetime2 smalldatetime",
        "map<string,string>": "hstore",
    }.items()
    for name in names.split()
}

#: Types whose parameters only limit length or precision that Spark does not carry.
SIZED = frozenset(
    word
    for words in (
        "varchar character_varying char character bpchar nchar nvarchar nvarchar2 varchar2 text enum set interval",
        "binary varbinary raw blob varbit bit_varying",
        "timestamp timestamptz timestamp_ltz timestamp_ntz timestamp_with_time_zone timestamp_without_time_zone",
        "timestamp_with_local_time_zone",
        "datetime datetime2 datetimeoffset time timetz time_with_time_zone time_without_time_zone",
        "int integer bigint smallint mediumint tinyint year double double_precision",
        "int_unsigned integer_unsigned bigint_unsigned int8_unsigned smallint_unsigned mediumint_unsigned",
        "tinyint_unsigned int8",
    )
    for word in words.split()
)

_PARAMETERS = re.compile(r"\(([^()]*)\)")
_DIGITS = re.compile(r"(\d{1,4}|\*)(,-?\d{1,4})?", re.ASCII)
_ARRAY_SUFFIX = re.compile(r"\s*\[\s*\d*\s*\]$")
_FLOAT_BITS_SINGLE = 24
_DECIMALS = frozenset({"numeric", "decimal", "dec", "number"})
#: Types that are the same without their sign: no value of theirs is larger.
_SIGNLESS = _DECIMALS | {"float", "double", "double_precision", "real"}
_UNSIGNED, _ZEROFILL = "_unsigned", "_zerofill"
_UNSIGNED_LONGS = frozenset({"bigint_unsigned", "int8_unsigned"})


class Family(StrEnum):
    """Types whose values can be compared with each other without a cast."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    BINARY = "binary"
    NESTED = "nested"


_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal", "float", "double"), Family.NUMBER),
    "string": Family.TEXT,
    "boolean": Family.BOOLEAN,
    "date": Family.DATE,
    "timestamp": Family.TIMESTAMP,
    "timestamp_ntz": Family.TIMESTAMP_NTZ,
    "binary": Family.BINARY,
}

#: What a logicalType can be.
LOGICAL_TYPES = (
    *("string", "boolean", "integer", "number", "date", "timestamp", "time"),
    *("array", "vector", "object", "map"),
)
#: Formats of the logicalType `integer` -> Spark DDL type.
INTEGER_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("i8", "i16", "i32", "u8", "u16"), "int"),
    **dict.fromkeys(("i64", "u32"), "bigint"),
    "u64": "decimal(20,0)",
    **dict.fromkeys(("i128", "u128"), "decimal(38,0)"),
}


def family(ddl: str) -> Family:
    """Return the family of a Spark DDL type; arrays, structs, maps and what is unknown are nested."""
    return _FAMILIES.get(re.split(r"[(<]", ddl.strip().lower(), maxsplit=1)[0].strip(), Family.NESTED)


def physical_type(text: str) -> str | None:
    """Return the Spark DDL type of a database's or Spark's own spelling; None for a type that is not in the table."""
    spelled = " ".join(text.split())
    if _ARRAY_SUFFIX.search(spelled):
        element = physical_type(_ARRAY_SUFFIX.sub("", spelled))
        return f"array<{element}>" if element else None
    if spelled.startswith("_") and (element := physical_type(spelled[1:])):  # PostgreSQL's own name of an array type
        return f"array<{element}>"
    if "<" in spelled:
        return _generic(spelled)
    return _plain(*spelling(spelled))


def spelling(text: str) -> tuple[str, list[str]]:
    """A type without parts, in lower case and with `_` for blanks, and its parameters."""
    lowered = text.lower()
    parameters = [part.strip() for found in _PARAMETERS.findall(lowered) for part in found.split(",")]
    return "_".join(_PARAMETERS.sub(" ", lowered).split()), parameters


def _plain(base: str, parameters: list[str]) -> str | None:
    base = _without_sign(base)
    if not parameters:
        return "boolean" if base == "bit" else PLAIN.get(base)
    if base in _DECIMALS:
        return _decimal(parameters)
    if base == "bit":
        return "boolean" if parameters == ["1"] else "binary"
    if base == "float":
        return "float" if parameters[0].isdigit() and int(parameters[0]) <= _FLOAT_BITS_SINGLE else "double"
    return PLAIN.get(base) if base in SIZED else None


def _without_sign(base: str) -> str:
    """A type of MySQL's with its sign only where that makes another type of it; `zerofill` is unsigned too."""
    if base.endswith(_ZEROFILL):
        base = base.removesuffix(_ZEROFILL).removesuffix(_UNSIGNED) + _UNSIGNED
    stem = base.removesuffix(_UNSIGNED)
    return stem if stem in _SIGNLESS else base


def _decimal(parameters: list[str]) -> str | None:
    if not _DIGITS.fullmatch(",".join(parameters)):
        return None
    # Oracle's `*` is as many digits as there are, and a negative scale so many zeros before the point.
    precision = DECIMAL_PRECISION_MAX if parameters[0] == "*" else int(parameters[0])
    scale = int(parameters[1]) if len(parameters) > 1 else 0
    precision, scale = (precision - scale, 0) if scale < 0 else (precision, scale)
    fits = 1 <= precision <= DECIMAL_PRECISION_MAX and scale <= precision
    return f"decimal({precision},{scale})" if fits else None


def _generic(spelled: str) -> str | None:
    """Read ``array<…>``, ``map<…,…>`` and ``struct<name:…>``, whose fields are called as written: JSON tells case."""
    kind, _, rest = spelled.partition("<")
    kind = kind.strip().lower()
    if not rest.endswith(">"):
        return None
    inner = rest[:-1]
    if kind == "array":
        element = physical_type(inner)
        return f"array<{element}>" if element else None
    if kind == "map":
        key, value = (physical_type(part) for part in _split_pair(inner))
        return f"map<{key},{value}>" if key and value else None
    return _struct(field_list(f"struct<{inner}>") or ()) if kind == "struct" else None


def _struct(fields: Sequence[tuple[str, str]]) -> str | None:
    types = {name: physical_type(ddl) for name, ddl in fields}
    if not types or len(types) < len(fields) or not all(name and ddl for name, ddl in types.items()):
        return None
    return "struct<" + ",".join(f"{_quoted(name)}:{ddl}" for name, ddl in types.items()) + ">"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _split_pair(inner: str) -> tuple[str, str]:
    depth = 0
    for index, character in enumerate(inner):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            return inner[:index], inner[index + 1 :]
    return inner, ""


def is_set(physical: str | None) -> bool:
    """Whether a physical type is MySQL's set."""
    return _PARAMETERS.sub("", (physical or "").lower()).strip() == "set"


def is_flag(physical: str | None) -> bool:
    """Whether a physical type is the one in which MySQL has its booleans, and as which its connector sends some."""
    return spelling(physical or "")[0] in {"tinyint", "tinyint_unsigned"}


def is_numeric(physical: str | None) -> bool:
    """Whether a physical type is one of numbers with a scale of their own each, whose column is a text."""
    return (physical or "").strip().lower() in {"numeric", "number"}


def is_unsigned(declared: SchemaProperty) -> bool:
    """Whether a property is an unsigned integer of eight bytes, which MySQL's connector may send as a signed one."""
    physical = declared.physicalType or ""
    if physical_type(physical) is not None:
        return _without_sign(spelling(physical)[0]) in _UNSIGNED_LONGS
    return declared.logicalType == "integer" and (declared.logicalTypeOptions or {}).get("format") == "u64"


def column_type(declared: SchemaProperty, depth: int = 0) -> str | None:
    """Return the Spark DDL type that a contract's property declares: its physicalType if known, else its logicalType.

    None when neither says. A property without any type is legal in ODCS; formats without types of their own need one.
    """
    if declared.physicalType and (known := physical_type(declared.physicalType)):
        return known
    return _logical_type(declared, depth) if declared.logicalType and depth < NESTING_MAX else None


def is_rounded(declared: SchemaProperty) -> bool:
    """Whether a property is a floating number only because its physicalType is none that is known, or a part of it."""
    parts = [*(declared.properties or ()), *([declared.items] if declared.items else [])]
    if declared.physicalType and physical_type(declared.physicalType) is None and declared.logicalType == "number":
        return True
    return any(is_rounded(part) for part in parts)


def _logical_type(declared: SchemaProperty, depth: int) -> str | None:
    options: Mapping[str, Any] = declared.logicalTypeOptions or {}
    match declared.logicalType:
        case "integer":
            return INTEGER_FORMATS.get(str(options.get("format", "i64")))
        case "number":
            return "float" if options.get("format") == "f32" else "double"
        case "timestamp":
            return "timestamp" if options.get("timezone", True) else "timestamp_ntz"
        case "array" | "vector":
            element = column_type(declared.items, depth + 1) if declared.items else "string"
            return f"array<{element}>" if element else None
        case "object" | "map":
            return _struct_type(declared, depth)
        case other:
            return {"string": "string", "boolean": "boolean", "date": "date", "time": "bigint"}.get(str(other))


def _struct_type(declared: SchemaProperty, depth: int) -> str | None:
    if declared.map and declared.map.key and declared.map.value:
        key, value = column_type(declared.map.key, depth + 1), column_type(declared.map.value, depth + 1)
        return f"map<{key},{value}>" if key and value else None
    if not declared.properties:
        return "map<string,string>" if declared.logicalType == "map" else "string"  # JSON text
    fields = [(field.physicalName or field.name, column_type(field, depth + 1)) for field in declared.properties]
    if any(not name or not ddl for name, ddl in fields):
        return None
    return "struct<" + ",".join(f"{_quoted(str(name))}:{ddl}" for name, ddl in fields) + ">"
