"""Where keys lie, as a condition with bound values."""

from cdc_materializer.merge import KeyRanges, delete_keys
from cdc_materializer.names import TableName
from cdc_materializer.schema.schema import Column, TableSchema


def test_values_are_bound() -> None:
    """The text names parameters alone; the column is quoted."""
    near = KeyRanges("a`b", values=(1, 2))

    assert near.condition == "t.`a``b` IN (:key0, :key1)"
    assert near.arguments == {"key0": 1, "key1": 2}


def test_the_last_range_has_no_end() -> None:
    """Keys that are new lie behind it."""
    near = KeyRanges("id", ranges=((1, 5), (70, 90), (400, None)))

    assert near.condition == "t.`id` BETWEEN :key0 AND :key1 OR t.`id` BETWEEN :key2 AND :key3 OR t.`id` >= :key4"
    assert list(near.arguments.values()) == [1, 5, 70, 90, 400]


def test_ranges_stand_beside_the_equality() -> None:
    """As one condition of their own, so that an OR of them takes no row whose key differs."""
    schema = TableSchema((Column("id", "bigint"),), key=("id",))
    near = KeyRanges("id", ranges=((1, 5), (70, None)))

    statement = delete_keys("lake", TableName.parse("n.t"), "b", "keys", schema, near)

    wanted = "ON t.`id` = s.`id` AND (t.`id` BETWEEN :key0 AND :key1 OR t.`id` >= :key2) WHEN MATCHED THEN DELETE"
    assert statement.endswith(wanted)
