"""Types that a contract may write, and the Spark types they become."""

import pytest
from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.contract.types import Family, column_type, family, physical_type


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
        ("hstore", "map<string,string>"),
        ("enum('a','b')", "string"),
    ],
)
def test_a_known_spelling_becomes_its_spark_type(written: str, spark: str) -> None:
    """PostgreSQL's, MySQL's and Spark's own spellings are understood, in any case and spacing."""
    assert physical_type(written) == spark


@pytest.mark.parametrize(
    "written",
    ["shop.order_status", "numeric(39,2)", "numeric(5,6)", "numeric(a)",
     "array<nope>", "map<string>", "array<int", "date(3)"]
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
