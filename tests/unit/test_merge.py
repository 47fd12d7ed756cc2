"""SQL is built from names alone, whatever names a source has."""

import pytest

from cdc_materializer.merge import Origin, delete_truncated, mark_truncated
from cdc_materializer.names import TableName
from cdc_materializer.truncates import Truncate

_MIRROR = TableName.parse("shop.orders")


@pytest.mark.parametrize("make", [delete_truncated, mark_truncated])
def test_the_name_of_a_source_table_cannot_end_its_literal(make: object) -> None:
    """Neither that of the truncated table nor that of the mirror's first one."""
    assert callable(make)
    truncate = Truncate("0001/0002", 0, 7, table="shop.it's \\' OR 1=1 --")
    statement = make("lake", _MIRROR, "branch", truncate, Origin("a'b"))

    assert "COALESCE(t.`__cdc`.source_table, 'a\\'b') = 'shop.it\\'s \\\\\\' OR 1=1 --' AND (" in statement


@pytest.mark.parametrize("make", [delete_truncated, mark_truncated])
def test_the_position_of_a_truncate_cannot_end_its_literal(make: object) -> None:
    """A message names the binlog's file in it."""
    assert callable(make)
    statement = make("lake", _MIRROR, "branch", Truncate("my bin' OR 1=1 --.0001/0002", 0, 7), None)

    assert "t.`__cdc`.position < 'my bin\\' OR 1=1 --.0001/0002'" in statement
    assert "'my bin'" not in statement


def test_a_row_that_a_truncate_ends_is_left_by_its_message() -> None:
    """In the topic that brought it, which need not be the row's; its name cannot end its literal either."""
    statement = mark_truncated("lake", _MIRROR, "branch", Truncate("1", 0, 7, topic="a'b"), None)

    assert "t.`__cdc`.`topic` = 'a\\'b', t.`__cdc`.`partition` = CAST(0 AS INT)" in statement


def test_a_truncate_of_the_only_source_table_asks_for_no_table() -> None:
    """The field is not there to be asked for."""
    assert "source_table" not in delete_truncated("lake", _MIRROR, "branch", Truncate("1", 0, 7, table="t"), None)
