"""Which tables wait for the deletes of key changes (ADR 7)."""

from dataclasses import dataclass
from typing import Any

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.lake.lake import MAIN
from cdc_materializer.line.line import Line


@dataclass
class _Lake:
    """One of which nothing is asked: there is no mirror yet."""

    branch: str = MAIN
    read_only: bool = True


@pytest.mark.parametrize(("partitions", "history", "mends"), [(2, False, True), (1, False, False), (2, True, False)])
def test_a_mirror_waits_where_a_delete_can_be_read_later_and_no_history_would_differ(
    *, partitions: int, history: bool, mends: bool
) -> None:
    """In one partition a delete is ahead of its insert, and a history is not changed behind what readers saw."""
    table = TableConfig.model_validate(
        {"topic": "shop.public.orders", "mirror": "shop.orders", "format": "debezium", "history": history}
    )
    stands_for: Any = _Lake()

    assert Line("shop", table, stands_for, None, None, stands_for).recorded(None, range(partitions)).mends == mends
