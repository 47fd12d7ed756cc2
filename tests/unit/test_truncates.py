"""Which truncates may have left rows of other partitions."""

import pytest

from cdc_materializer.truncates import Truncate, beside


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], ()),
        ([(1, "shop.t")], ()),
        ([(0, "shop.t")], ((1, 7),)),
        ([(0, None)], ((1, 7),)),
        ([(0, "shop.other")], ()),
        ([(1, "shop.t"), (0, "shop.other"), (2, "shop.t")], ((1, 7),)),
    ],
)
def test_rows_of_its_table_in_other_partitions_are_beside_a_truncate(
    rows: list[tuple[int, str | None]], found: tuple[tuple[int, int], ...]
) -> None:
    """Those of its own partition are in the order of their offsets, those of other tables are no concern of its."""
    assert beside([Truncate("0100", 1, 7, table="shop.t")], rows) == found


def test_a_truncate_that_names_no_table_is_beside_all_rows() -> None:
    """So it is in a topic whose messages name none."""
    assert beside([Truncate("0100", 1, 7)], [(0, "shop.other")]) == ((1, 7),)
