"""Which branch of raw is gone on with when raw is filled from its topic, on the lake in memory."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.rebuild.fill import REFILL_BRANCH, _base_of
from tests.model.lake_contract import again, append, create
from tests.unit.memory import NAME, PATH, MemoryBench


def _base(bench: MemoryBench, filled: LakeTable) -> int | None:
    line: Any = SimpleNamespace(lake=bench.lake)
    return _base_of(line, filled, again(bench))


def _filled(bench: MemoryBench) -> LakeTable:
    """What one part has brought to the branch, on top of what readers see."""
    base, beside = again(bench), replace(bench.lake, branch=REFILL_BRANCH)
    assert base.marker is not None
    told = replace(base.marker, batch="part", refilled=base.marker.refilled + 3)
    beside.publish(base, told, lambda stage: stage.append(bench.frame([("part", "")])))
    found = beside.load(NAME)
    assert found is not None
    return found


def _lands(bench: MemoryBench) -> None:
    append(bench, again(bench), "two", 9)


def _compacts(bench: MemoryBench) -> None:
    bench.catalog.compact(PATH)


def _deletes(bench: MemoryBench) -> None:
    bench.catalog.rewrite(PATH, [])


def test_a_branch_is_gone_on_with_when_only_landings_came() -> None:
    """They are behind the offsets that raw had when it was begun; compaction changes no messages."""
    bench = MemoryBench()
    create(bench)
    began = append(bench, again(bench), "one", 5)
    filled = _filled(bench)
    _lands(bench)
    _compacts(bench)

    assert _base(bench, filled) == began

    _deletes(bench)
    assert _base(bench, filled) is None


@pytest.mark.parametrize("change", [_lands, _compacts, _deletes])
def test_a_branch_on_what_was_rolled_back_is_not_gone_on_with(change: Callable[[MemoryBench], None]) -> None:
    """What it was begun on would come with it: messages that are landed again, or that readers have still."""
    bench = MemoryBench()
    create(bench)
    before = append(bench, again(bench), "one", 5)
    change(bench)
    filled = _filled(bench)
    now = bench.catalog.tables[PATH]
    bench.catalog.tables[PATH] = replace(now, refs={**now.refs, "main": before}, version=now.version + 1)

    assert _base(bench, filled) is None
