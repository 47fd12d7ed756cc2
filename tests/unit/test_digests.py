"""Which changes of columns leave the hashes of their rows as they were; the hashes themselves are in tests/spark."""

import pytest

from cdc_materializer.digests import hashes_otherwise
from cdc_materializer.schema import Column, TableSchema


def _schema(**types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, ddl) for name, ddl in types.items()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("struct<`a`:int>", "struct<`a`:int,`b`:int>"),
        ("array<float>", "array<double>"),
        ("map<string,struct<`a`:int>>", "map<string,struct<`a`:int,`b`:int>>"),
    ],
)
def test_values_whose_parts_change_are_hashed_otherwise(before: str, after: str) -> None:
    """A field that was added is in the hash of every row from before, as NULL."""
    assert hashes_otherwise(_schema(id="int", v=before), _schema(id="int", v=after))


def test_added_and_widened_columns_change_no_hash() -> None:
    """Nor does a column that goes, which is NULL."""
    before = _schema(id="int", gone="int", price="decimal(8,2)", size="float", parts="struct<`a`:int>")
    after = _schema(id="bigint", price="decimal(12,2)", size="double", parts="struct<`a`:int>", more="struct<`a`:int>")

    assert not hashes_otherwise(before, after)
