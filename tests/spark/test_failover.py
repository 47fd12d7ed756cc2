"""Random lives of MySQL servers that replace each other: the product against what the reference fold is held against.

What a server sends again, from places of its own, takes no row back, however the log is cut.
"""

from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config
from tests.cases.case import Case
from tests.model.failover import failover_case
from tests.spark.marks import TURNS
from tests.spark.passages import ALL, CUT, WHOLE, passages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]

#: What the lives have in them; and how many there are of each kind.
_KINDS: tuple[dict[str, Any], ...] = ({}, {"moves": True}, {"truncates": True}, {"truncates": True, "partitions": 3})
_LIVES = 6 if ALL else 1


def _chosen() -> list[tuple[Case, dict[str, Any]]]:
    return [
        (failover_case(900 + at * len(_KINDS) + number, **kind), kind)
        for at in range(_LIVES)
        for number, kind in enumerate(_KINDS)
    ]


def test_a_mirror_is_its_database_whichever_server_tells_it(spark: "SparkSession", lake_config: Config) -> None:
    """Behind each step; where rows may come again for a while (`_wrong` of the reference's test), in the end."""
    lives = _chosen()
    gone = passages([(case, way) for case, _ in lives for way in (WHOLE, CUT)], spark, lake_config)
    kinds = {case.name: kind for case, kind in lives}
    for passage in gone:
        found, wanted = ([_rows(one) for one in side] for side in _sides(passage.states, passage.case))
        is_exact = not kinds[passage.case.name]

        assert [state.run.error for state in passage.states] == [None] * len(passage.states), passage.table
        assert (found if is_exact else found[-1:]) == (wanted if is_exact else wanted[-1:]), passage.table
        verified = passage.states[-1].verified
        assert (passage.way, verified is not None and verified.equal) in {(WHOLE, False), (CUT, True)}, passage.table


def _sides(states: list[Any], case: Case) -> tuple[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]:
    return [state.rows or [] for state in states], [expected["rows"] for expected in case.expected]


def _rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["qty"], row.get("text")) for row in rows)
