"""A fresh answer is made from tables that belong together, whatever a run publishes while they are read."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.errors import EXIT_LAKE, CommitConflict
from cdc_materializer.lake.lake import MAIN, LakeTable
from cdc_materializer.line.line import Line, new_marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.query.fresh import together
from cdc_materializer.schema.schema import TableSchema

_NAME, _TOPIC = TableName.parse("shop.orders"), "shop.public.orders"


@dataclass
class _Lake:
    """The newest snapshot of each table, and what happens right behind a look at one."""

    heads: dict[TableName, int] = field(default_factory=dict)
    branch: str = MAIN
    read_only: bool = True
    happens: Callable[[TableName], None] = lambda _: None

    def load(self, name: TableName) -> LakeTable | None:
        """The table as it is now."""
        head = self.heads.get(name)
        marker = new_marker(_line(self), Span(_TOPIC, Offsets(), Offsets()), "", None)
        found = LakeTable(name, f"uuid of {name}", head, marker, TableSchema(()), is_empty=False)
        self.happens(name)
        return found if head is not None else None


def _line(lake: object) -> Line:
    stands_for: Any = lake
    table = TableConfig.model_validate({"topic": _TOPIC, "mirror": str(_NAME)})
    return Line("shop", table, stands_for, None, None, stands_for)


def _publishing(lake: _Lake, times: int) -> Callable[[TableName], None]:
    """A run that publishes, and ends what the batch has ended in quarantine, while raw is loaded."""
    left = [times]

    def happens(name: TableName) -> None:
        if name == _NAME.raw and left[0]:
            left[0] -= 1
            lake.heads |= {_NAME: lake.heads.get(_NAME, 0) + 1, _NAME.quarantine: lake.heads[_NAME.quarantine] + 1}

    return happens


@pytest.mark.parametrize("has_mirror", [True, False])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_the_mirror_is_of_the_same_moment_as_its_quarantine(times: int, *, has_mirror: bool) -> None:
    """What is held is ended in it behind the commit: beside an earlier mirror the message would be in neither."""
    lake = _Lake({_NAME.raw: 7, _NAME.quarantine: 1} | ({_NAME: 1} if has_mirror else {}))
    lake.happens = _publishing(lake, times)

    _, found = together(_line(lake))

    assert [table and table.head for table in (found.raw, found.mirror, found.quarantine)] == [
        lake.heads.get(name) for name in (_NAME.raw, _NAME, _NAME.quarantine)
    ]


def test_a_mirror_that_is_published_to_all_the_time_is_given_up() -> None:
    """It says so, and what to ask instead."""
    lake = _Lake({_NAME: 1, _NAME.raw: 7, _NAME.quarantine: 1})
    lake.happens = _publishing(lake, 1_000)

    with pytest.raises(CommitConflict, match=r"again and again while it was being read\. Run it again when") as caught:
        together(_line(lake))

    assert caught.value.exit_code == EXIT_LAKE


def test_a_table_that_was_made_anew_is_another_one() -> None:
    """Its newest snapshot may have any number."""
    lake, looks = _Lake({_NAME: 1, _NAME.raw: 7, _NAME.quarantine: 1}), list[int]()
    load = lake.load

    def loaded(name: TableName) -> LakeTable | None:
        looks.extend([1] if name == _NAME else [])
        table = load(name)
        return replace(table, uuid="anew") if table is not None and name == _NAME and len(looks) > 1 else table

    lake.load = loaded  # type: ignore[method-assign]

    _, found = together(_line(lake))

    assert found.mirror is not None
    assert (found.mirror.uuid, len(looks)) == ("anew", 4)
