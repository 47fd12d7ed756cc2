"""Which snapshot of a mirror `cdcm as-of` names; without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.marker.marker import Marker
from cdc_materializer.moments import moments
from cdc_materializer.moments.cut import Cut
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets

#: Snapshots of a rebuilt mirror, newest first: how far each has read, and whether readers stood on it.
_LINE = {5: (2, True), 4: (1, False), 3: (0, False), 2: (2, True), 1: (1, True)}


def _summary(reached: int) -> dict[str, str]:
    offsets = Offsets({0: reached} if reached else {})
    return Marker("p", "b", "t", None, offsets, {}, None, None, {}).to_summary()


@pytest.mark.parametrize(("first", "named"), [(2, 5), (1, 1)])
def test_a_state_that_only_a_replay_has_seen_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, first: int, named: int
) -> None:
    """Its mark has read nothing, and hides the snapshots from before it; each of the others holds its own rows."""
    summaries = [(number, 0, False, _summary(reached)) for number, (reached, _) in _LINE.items()]
    seen = {number: 0 for number, (_, is_seen) in _LINE.items() if is_seen}
    monkeypatch.setattr(moments, "summaries", lambda *_: summaries)
    monkeypatch.setattr(moments, "heads", lambda _: seen)
    monkeypatch.setattr(moments, "is_of_other_columns", lambda *_: False)
    monkeypatch.setattr(moments, "at_snapshot", lambda _line, _mirror, number: number)
    monkeypatch.setattr(moments, "Base", lambda then, _: SimpleNamespace(rows=lambda *_: _LINE[then][0]))
    monkeypatch.setattr(moments, "compare_rows", lambda one, other, _: SimpleNamespace(is_none=one == other))
    line: Any = SimpleNamespace(lake=SimpleNamespace(iceberg=lambda _: None))
    mirror: Any = SimpleNamespace(name=TableName.parse("shop.t"), head=5, routed=False, schema=None)
    none: Any = None
    cut = Cut("1", none, none, {0: first - 1}, {0: first})
    fold: Any = SimpleNamespace(expected=first)

    assert moments._snapshot(line, mirror, cut, fold) == named
