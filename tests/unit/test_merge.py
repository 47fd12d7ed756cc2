"""SQL is built from names alone, whatever names and values a source has."""

import re
from typing import Any

import pytest

from cdc_materializer.merge import Origin, end_truncated
from cdc_materializer.merge_quarantine import forget_remarks
from cdc_materializer.names import TableName
from cdc_materializer.order.truncates import Truncate

_MIRROR = TableName.parse("shop.orders")
#: All of a truncate's values that a source or a topic chooses.
_HOSTILE = "it's \\' OR 1=1 --"
_TRUNCATE = Truncate(f"{_HOSTILE}1", 41, 42, 43, 44, table=f"{_HOSTILE}2", topic=f"{_HOSTILE}3")


def _ended(truncate: Truncate, origin: Origin | None = None, *, soft: bool = True) -> tuple[str, dict[str, Any]]:
    return end_truncated("lake", _MIRROR, "branch", truncate, origin, soft=soft)


@pytest.mark.parametrize("soft", [True, False])
def test_no_value_of_a_truncate_is_in_the_text_of_its_statement(soft: bool) -> None:  # noqa: FBT001
    """Nor the name of the mirror's first source table: all are bound, so nothing can end a literal."""
    statement, values = _ended(_TRUNCATE, Origin(f"{_HOSTILE}4"), soft=soft)

    assert "'" not in statement.replace("= 't'", "").replace(".op = 'r'", "")
    assert not re.search(r"OR 1|\b4\d\b", statement)
    assert {f"{_HOSTILE}{number}" for number in (1, 2, 4)} <= set(values.values())
    assert "COALESCE(t.`__cdc`.source_table, :truncate_first) = :truncate_table AND (" in statement


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("origin", [None, Origin(None), Origin("shop.first")])
@pytest.mark.parametrize("lacks", ["position", "micros", "table"])
def test_every_parameter_has_its_value(lacks: str, origin: Origin | None, soft: bool) -> None:  # noqa: FBT001
    """Whatever a truncate does not tell: Spark refuses one that is not bound, and NULL equals nothing."""
    statement, values = _ended(Truncate(**{**vars(_TRUNCATE), lacks: None}), origin, soft=soft)

    assert set(re.findall(r":(\w+)", statement)) <= set(values)
    assert not [name for name in re.findall(r"[<=] :(\w+)", statement) if values[name] is None]


def test_a_row_that_a_truncate_ends_is_left_by_its_message() -> None:
    """In the topic that brought it, which need not be the row's."""
    statement, values = _ended(Truncate("1", 0, 7, topic="a'b"))

    assert "t.`__cdc`.`topic` = :truncate_topic, t.`__cdc`.`partition` = CAST(:truncate_partition AS INT)" in statement
    assert (values["truncate_topic"], values["truncate_partition"], values["truncate_offset"]) == ("a'b", 0, 7)


def test_a_truncate_of_the_only_source_table_asks_for_no_table() -> None:
    """The field is not there to be asked for."""
    assert "source_table" not in _ended(Truncate("1", 0, 7, table="t"), soft=False)[0]


def test_remarks_go_that_lie_where_no_batch_has_published() -> None:
    """Of a partition that the mirror knows from its offset on, where a batch may have ended; of another one all."""
    is_remark = "t.status = 'released' AND t.action IN ('report', 'warn', 'shadow', 'shadow_unjudged')"

    def where(reached: dict[int, int]) -> str:
        return forget_remarks("lake", TableName.parse("shop.orders"), "b", reached).partition(f" {is_remark} AND ")[2]

    assert where({0: 5, 2: 7}) == (
        "NOT ((t.partition = 0 AND (t.offset < 5 OR t.offset = 5 AND t.batch_id = ''))"
        " OR (t.partition = 2 AND (t.offset < 7 OR t.offset = 7 AND t.batch_id = '')))"
    )
    assert where({}) == "NOT (false)"
