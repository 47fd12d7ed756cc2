"""Type-2 tables of the histories of golden cases in which the order of a row's changes is not that of their offsets.

Positions, times and offsets do not tell it of these; what the fold sorted by does, which the history keeps.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer import type_2
from cdc_materializer.config import Config
from tests.cases.case import Case, cases
from tests.spark.chains import broken
from tests.spark.marks import SIXTH_TURN
from tests.spark.passages import WHOLE, Passage, passages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, SIXTH_TURN]

#: A message more for a case, and before which: the first transaction behind a snapshot brings back a row that it ended.
_MORE = {303: (7, {"op": "c", "after": {"id": 4, "name": "back"}, "lsn": 610, "commit_lsn": 260, "partition": 1})}
#: The cases, and after how many messages the first batch of each ends; None where it has all.
_CASES: dict[str, tuple[int, int | None]] = {
    "a delete without a place in another partition": (239, None),
    "a delete and an insert at one position of two partitions": (401, None),
    "several changes of a row in one message": (263, None),
    "a truncate behind a snapshot of another partition": (502, None),
    "a truncate in a batch behind that of the snapshot": (502, 3),
    "a truncate beside a row without a position": (503, 3),
    "a truncate that is sent again and was never read": (675, None),
    "a change that is released ahead of a complete snapshot": (685, None),
    "a released change that leaves its row as it was": (686, None),
    "a truncate beside rows that only the mirror knows": (688, None),
    "a row that was streamed again behind a snapshot, and is swept": (689, None),
    "a row that comes back behind a complete snapshot": (303, None),
    "a row that comes back in a batch behind it": (303, 7),
}


def _with_history(number: int, first: int | None) -> Case:
    """A case whose table keeps a history; with its messages in two batches where asked."""
    case = next(case for case in cases() if case.number == number)
    messages = list(case.data["messages"])
    if number in _MORE:
        messages.insert(*_MORE[number])
    data = {**case.data, "messages": messages, "table": {**case.data.get("table", {}), "history": True}}
    if first is not None:
        data |= {"messages": messages[:first], "then": [{"messages": messages[first:]}]}
    return replace(case, name=f"{case.name}_{first}", data=data)


@pytest.fixture(scope="module")
def gone(spark: "SparkSession", lake_config: Config) -> dict[str, Passage]:
    """The cases, gone through all their steps."""
    chosen = [(_with_history(*asked), WHOLE) for asked in _CASES.values()]
    return dict(zip(_CASES, passages(chosen, spark, lake_config), strict=True))


def _live(spark: "SparkSession", passage: Passage) -> list[tuple[Any, ...]]:
    mirror = spark.table(f"lake.{passage.table}")
    is_soft = passage.case.data["table"].get("deletes") == "soft"
    return _rows(mirror.where("NOT __cdc.deleted") if is_soft else mirror)


def _rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select("id", "name").collect())


@pytest.mark.parametrize("name", _CASES)
def test_each_version_begins_where_the_one_before_it_ended(
    spark: "SparkSession", gone: dict[str, Passage], name: str
) -> None:
    """And a row that the mirror has is the current version, no other."""
    history = spark.table(f"lake.{gone[name].table}__history")

    assert not broken(history)
    assert _rows(type_2(history, ["id"]).where("is_current")) == _live(spark, gone[name])
