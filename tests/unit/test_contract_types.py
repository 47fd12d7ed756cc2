"""Types that a contract may write, and the Spark types they become."""

from pathlib import Path

import pytest
from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.contract import load_contract
from cdc_materializer.contract.types import Family, column_type, family, physical_type
from tests.unit.contracts import write


@pytest.mark.parametrize(
    ("written", "spark"),
    [
        ("bigint", "bigint"),
        ("INT8", "bigint"),
        ("int4", "int"),
        ("smallint", "int"),
        ("int(11)", "int"),
        ("INT(10) UNSIGNED", "bigint"),
        ("bigint unsigned", "decimal(20,0)"),
        ("INT8(20) UNSIGNED", "decimal(20,0)"),
        ("int8", "bigint"),
        ("bigint(20) unsigned zerofill", "decimal(20,0)"),
        ("bigint zerofill", "decimal(20,0)"),
        ("int(10) zerofill", "bigint"),
        ("tinyint(3) unsigned", "int"),
        ("smallint(5) unsigned", "int"),
        ("mediumint(8) unsigned", "int"),
        ("decimal(10,2) unsigned", "decimal(10,2)"),
        ("decimal(10,2) unsigned zerofill", "decimal(10,2)"),
        ("double(10,2) unsigned", "double"),
        ("float unsigned", "float"),
        ("number(*,0)", "decimal(38,0)"),
        ("number(*)", "decimal(38,0)"),
        ("NUMBER(10,-2)", "decimal(12,0)"),
        ("numeric(12,2)", "decimal(12,2)"),
        ("NUMBER(10)", "decimal(10,0)"),
        ("decimal(38, 18)", "decimal(38,18)"),
        ("numeric", "string"),
        ("decimal", "decimal(10,0)"),
        ("varchar(40)", "string"),
        ("character varying(40)", "string"),
        ("timestamptz", "timestamp"),
        ("timestamp with time zone", "timestamp"),
        ("timestamp(3) with time zone", "timestamp"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp"),
        ("timestamp_ltz(3)", "timestamp"),
        ("timestamp without time zone", "timestamp_ntz"),
        ("timestamp (6) without time zone", "timestamp_ntz"),
        ("timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("datetime(6)", "timestamp_ntz"),
        ("time", "bigint"),
        ("date", "date"),
        ("uuid", "string"),
        ("jsonb", "string"),
        ("bytea", "binary"),
        ("double precision", "double"),
        ("float(24)", "float"),
        ("float(53)", "double"),
        ("bit(1)", "boolean"),
        ("bit(8)", "binary"),
        ("bool", "boolean"),
        ("text[]", "array<string>"),
        ("numeric(10,2)[]", "array<decimal(10,2)>"),
        ("integer[][]", "array<array<int>>"),
        ("_int4", "array<int>"),
        ("array<timestamp>", "array<timestamp>"),
        ("map<string,array<int>>", "map<string,array<int>>"),
        ("map<varchar(3),numeric(4,1)>", "map<string,decimal(4,1)>"),
        ("struct<OrderId:bigint, sold_at : timestamp>", "struct<`OrderId`:bigint,`sold_at`:timestamp>"),
        ("STRUCT<`Unit Price`:NUMERIC(10,2),b:varchar(3)[]>", "struct<`Unit Price`:decimal(10,2),`b`:array<string>>"),
        ("array<struct<A:map<text,struct<B:int>>>>", "array<struct<`A`:map<string,struct<`B`:int>>>>"),
        ("Array<Int>", "array<int>"),
        ("hstore", "map<string,string>"),
        ("enum('a','b')", "string"),
    ],
)
def test_a_known_spelling_becomes_its_spark_type(written: str, spark: str) -> None:
    """PostgreSQL's, MySQL's and Spark's own spellings are understood, in any case and spacing.

    The names of a struct's fields keep theirs: in JSON `OrderId` and `orderid` are two.
    """
    assert physical_type(written) == spark


@pytest.mark.parametrize(
    "written",
    ["shop.order_status", "numeric(39,2)", "numeric(5,6)", "numeric(a)",
     "decimal(65,30)", "number(38,-84)", "decimal(0)", "decimal(1,2,3)",
     "array<nope>", "map<string>", "array<int", "date(3)", "struct<a:nope>", "struct<a>", "struct<>", "struct<:int>",
     "struct<a:int,a:int>"]
)  # fmt: skip
def test_an_unknown_spelling_has_no_type(written: str) -> None:
    """What is not in the table is not guessed."""
    assert physical_type(written) is None


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ({"logicalType": "string"}, "string"),
        ({"logicalType": "integer"}, "bigint"),
        ({"logicalType": "integer", "logicalTypeOptions": {"format": "i32"}}, "int"),
        ({"logicalType": "integer", "logicalTypeOptions": {"format": "u64"}}, "decimal(20,0)"),
        ({"logicalType": "number"}, "double"),
        ({"logicalType": "number", "logicalTypeOptions": {"format": "f32"}}, "float"),
        ({"logicalType": "timestamp"}, "timestamp"),
        ({"logicalType": "timestamp", "logicalTypeOptions": {"timezone": False}}, "timestamp_ntz"),
        ({"logicalType": "time"}, "bigint"),
        ({"logicalType": "array", "items": {"logicalType": "integer"}}, "array<bigint>"),
        ({"logicalType": "array"}, "array<string>"),
        ({"logicalType": "object"}, "string"),
        ({"logicalType": "object", "properties": [{"name": "a`b", "physicalType": "int"}]}, "struct<`a``b`:int>"),
        ({"logicalType": "map"}, "map<string,string>"),
        ({"logicalType": "map", "map": {"key": {"logicalType": "string"}, "value": {"physicalType": "int"}}},
         "map<string,int>"),
        ({"logicalType": "string", "physicalType": "shop.order_status"}, "string"),
        ({"logicalType": "string", "physicalType": "numeric(4,1)"}, "decimal(4,1)"),
        ({}, None),
        ({"physicalType": "shop.order_status"}, None),
    ],
)  # fmt: skip
def test_the_physical_type_decides_and_the_logical_type_fills_in(
    declared: dict[str, object], spark: str | None
) -> None:
    """An unknown physicalType falls back to the logicalType; neither gives no type."""
    assert column_type(SchemaProperty.model_validate({"name": "c", **declared})) == spark


@pytest.mark.parametrize(
    ("ddl", "kind"),
    [
        ("decimal(12,2)", Family.NUMBER),
        ("double", Family.NUMBER),
        ("string", Family.TEXT),
        ("timestamp", Family.TIMESTAMP),
        ("timestamp_ntz", Family.TIMESTAMP_NTZ),
        ("array<int>", Family.NESTED),
        ("struct<a:int>", Family.NESTED),
    ],
)
def test_a_type_has_a_family(ddl: str, kind: Family) -> None:
    """Types are of one family when they compare without a cast."""
    assert family(ddl) is kind


@pytest.mark.parametrize(
    ("declared", "unit"),
    [
        ("physicalType: datetime", "milliseconds"),
        ("physicalType: DATETIME(3)", "milliseconds"),
        ("physicalType: datetime(4)", "microseconds"),
        ("physicalType: datetime2", "nanoseconds"),
        ("physicalType: datetime2(3)", "milliseconds"),
        ("physicalType: smalldatetime", "milliseconds"),
        ("physicalType: timestamp(0)", "milliseconds"),
        ("physicalType: timestamp(6)", "microseconds"),
        ("physicalType: timestamp(9)", "nanoseconds"),
        ("physicalType: timestamp without time zone", "microseconds"),
        ("physicalType: timestamp (3) without time zone", "milliseconds"),
        ("physicalType: time(6)", "microseconds"),
        ("physicalType: time(7)", "nanoseconds"),
        ("physicalType: time without time zone", "microseconds"),
        ("physicalType: time(3) without time zone", "milliseconds"),
        ("physicalType: timestamp", "unsettled"),
        ("physicalType: timestamp_ntz", "unsettled"),
        ("physicalType: timestamptz(6)", "unsettled"),
        ("physicalType: datetimeoffset(7)", "unsettled"),
        ("physicalType: time", "unsettled"),
        ("physicalType: time(3)", "unsettled"),
        ("logicalType: timestamp", "unsettled"),
        ("logicalType: time", "unsettled"),
        ("physicalType: shop.moment, logicalType: timestamp", "unsettled"),
        ("physicalType: timestamp, customProperties: [{property: time_unit, value: milliseconds}]", "milliseconds"),
        ("physicalType: datetime(6), customProperties: [{property: time_unit, value: milliseconds}]", "milliseconds"),
        ("physicalType: bigint, logicalType: time", None),
        ("physicalType: date", None),
        ("physicalType: 'timestamp[]'", None),
        ("physicalType: timetz", None),
        ("physicalType: text", None),
    ],
)
def test_the_unit_of_a_count_of_time_is_told_or_unsettled(tmp_path: Path, declared: str, unit: str | None) -> None:
    """By a precision that means one thing in all databases, or by the contract's own word; it is never guessed."""
    column = load_contract(write(tmp_path, f"- {{name: v, {declared}}}")).columns[-1]

    assert (None if column.time_unit is None else str(column.time_unit)) == unit


@pytest.mark.parametrize(
    ("declared", "is_so"),
    [
        ("physicalType: bigint unsigned", True),
        ("physicalType: BIGINT(20)  UNSIGNED ZEROFILL", True),
        ("physicalType: bigint zerofill", True),
        ("physicalType: int8 unsigned", True),
        ("logicalType: integer, logicalTypeOptions: {format: u64}", True),
        ("physicalType: id_of_us, logicalType: integer, logicalTypeOptions: {format: u64}", True),
        ("physicalType: bigint, logicalType: integer, logicalTypeOptions: {format: u64}", False),
        ("physicalType: int unsigned", False),
        ("physicalType: 'decimal(20,0) unsigned'", False),
        ("physicalType: 'bigint unsigned[]'", False),
        ("logicalType: integer", False),
        ("description: nothing", False),
    ],
)
def test_a_column_of_unsigned_longs_is_told(tmp_path: Path, declared: str, is_so: bool) -> None:  # noqa: FBT001
    """Eight bytes hold no more as an integer without a sign than as one with it, and may come as such a one."""
    column = load_contract(write(tmp_path, f"- {{name: v, {declared}}}")).columns[-1]

    assert column.is_unsigned is is_so


@pytest.mark.parametrize(
    ("physical", "is_so"),
    [("tinyint(1)", True), ("TINYINT", True), ("tinyint(1) unsigned", True), ("smallint", False), ("tinyint[]", False)],
)
def test_a_column_of_mysqls_booleans_is_told(tmp_path: Path, physical: str, is_so: bool) -> None:  # noqa: FBT001
    """Which of its tinyints are booleans, nothing tells."""
    column = load_contract(write(tmp_path, f"- {{name: v, physicalType: '{physical}'}}")).columns[-1]

    assert column.is_flag is is_so
