"""Which truncates may have left rows of other partitions, and which were there before."""

import pytest

from cdc_materializer.batch.past import Past
from cdc_materializer.changes.options import Options
from cdc_materializer.decoders.decoders import Lookup
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.order.truncates import Truncate, beside, first_sent


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


_FIRST, _SECOND = Truncate("0100", 1, 7, table="shop.t"), Truncate("0200", 1, 9, table="shop.t")


@pytest.mark.parametrize(
    "again",
    [
        Truncate("0100", 0, 12, table="shop.t"),
        Truncate("0100", 1, 12, table="shop.other"),
        Truncate("0101", 1, 12, table="shop.t"),
        Truncate(None, 1, 12, table="shop.t"),
    ],
)
def test_another_truncate_is_none_that_is_sent_again(again: Truncate) -> None:
    """One of another partition may be read ahead of it; without a position nothing tells."""
    assert first_sent([again, _SECOND, _FIRST]) == tuple(sorted([_FIRST, _SECOND, again], key=_of_partition))


def _of_partition(truncate: Truncate) -> tuple[int, int]:
    return truncate.partition, truncate.offset


def test_a_truncate_that_its_partition_had_before_is_sent_again() -> None:
    """In the batch, or ahead of it; one without a position may be another one each time."""
    again, nameless = Truncate("0100", 1, 12, table="shop.t"), Truncate(None, 1, 13)
    assert first_sent([again, _SECOND, _FIRST]) == (_FIRST, _SECOND)
    assert first_sent([again, nameless], [_FIRST, _SECOND, nameless]) == (nameless,)


@pytest.mark.parametrize(
    ("truncated", "position", "is_known"),
    [((), "0100", False), (("0100",), "0100", True), (("0100",), "0101", False), (("0100", "a@0300"), "0200", False)],
)
def test_raw_is_asked_for_a_truncate_that_may_have_been_applied(
    truncated: tuple[str, ...],
    position: str,
    is_known: bool,  # noqa: FBT001 - a case
) -> None:
    """One behind all that were, as nearly every one is, costs nothing; what another server did says nothing."""
    past = Past(Lookup(None, None, Options(), None, ("t",)), recorded=Recorded(truncated=truncated))

    assert past.is_known([Truncate(None, 0, 1), Truncate(position, 0, 2)]) is is_known
