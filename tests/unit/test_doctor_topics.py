"""What `cdcm doctor` says of the topics that a glob stands for."""

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.doctor.topics import check_servers

_ONE, _TWO = "shop_eu.public.orders", "shop_us.public.orders"


@pytest.mark.parametrize(
    ("topics", "shard", "outcomes"),
    [
        ((_ONE, _TWO), None, ["warning"]),
        ((_ONE, _TWO), "region", []),
        ((_ONE, "shop_eu.public.orders_old"), None, []),
        ((_ONE,), None, []),
        ((), None, []),
    ],
    ids=["two servers", "told apart", "two tables of one", "one topic", "no glob"],
)
def test_topics_of_several_servers_without_a_shard_are_told(
    topics: tuple[str, ...], shard: str | None, outcomes: list[str]
) -> None:
    """Their rows have one space of keys, and their logs one of places."""
    glob = {"topic": "shop_*.public.orders", "mirror": "shop.orders"} | ({"shard": shard} if shard else {})
    table = TableConfig.model_validate(glob)
    found = [*check_servers(table.of_topics(topics) if topics else table)]

    assert [check.outcome for check in found] == outcomes
    assert all("2 servers (shop_eu, shop_us)" in check.message and "`shard`" in (check.do or "") for check in found)
