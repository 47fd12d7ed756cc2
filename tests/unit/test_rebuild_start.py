"""Where `cdcm replay --from` begins: what can be written, and which offsets that means."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.errors import UsageError
from cdc_materializer.line.line import Line, Tables
from cdc_materializer.marker.marker import GENESIS_TAG, Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.rebuild.base import _held_then, carried, find_base
from cdc_materializer.rebuild.start import EARLIEST, Start, is_before, parse_start, wanted_offsets
from tests.model.lake_contract import again, append, create
from tests.unit.memory import PATH, MemoryBench

REACHED = Offsets({0: 10, 1: 20})


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", EARLIEST),
        ("kafka", Start("kafka")),
        ("offset:7", Start("offset", every=7)),
        ("offset:0/7,1/9", Start("offset", places={0: 7, 1: 9})),
        ("time:2026-11-01", Start("time", at=datetime(2026, 11, 1, tzinfo=UTC))),
        ("time:2026-11-01T02:00+02:00", Start("time", at=datetime(2026, 11, 1, tzinfo=UTC))),
    ],
)
def test_each_form_is_read(text: str, start: Start) -> None:
    """A time without a zone is UTC."""
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "offset:",
        "offset:-1",
        "offset:0/",
        "offset:0/1/2",
        "time:",
        "time:now",
        "time:0001-01-01T00:00+14:00",
    ],
)
def test_anything_else_is_refused_with_what_can_be_written(text: str) -> None:
    """Nothing is guessed: a replay from another place than meant would look like a good one."""
    with pytest.raises(UsageError, match="offset:0/1200"):
        parse_start(text)


@pytest.mark.parametrize(
    ("text", "first_since", "wanted"),
    [
        ("offset:7", {}, {0: 7, 1: 7}),
        ("offset:15", {}, {0: 10, 1: 15}),
        ("offset:0/7", {}, {0: 7, 1: 20}),
        ("time:2026-11-01", {1: 5}, {0: 10, 1: 5}),
        ("time:2026-11-01", {}, {0: 10, 1: 20}),
        ("time:2026-11-01", {0: 12, 1: 5}, {0: 10, 1: 5}),
    ],
)
def test_what_is_not_named_is_not_read_again(text: str, first_since: dict[int, int], wanted: dict[int, int]) -> None:
    """Nor what comes after where the mirror is; of a time, what was written from then on."""
    assert wanted_offsets(parse_start(text), REACHED, first_since) == wanted


@pytest.mark.parametrize("text", ["offset:21", "offset:0/11", "offset:0/5,1/21", "offset:2/0"])
def test_what_the_mirror_has_not_read_cannot_be_read_again(text: str) -> None:
    """Nor a partition that it does not have."""
    with pytest.raises(UsageError, match=r"has (not )?read"):
        wanted_offsets(parse_start(text), REACHED, {})


def test_a_state_is_before_only_if_each_of_its_partitions_is() -> None:
    """One that does not know a partition has none of its messages."""
    assert is_before({0: 7}, {0: 7, 1: 0})
    assert is_before({}, {0: 7})
    assert not is_before({0: 7, 1: 1}, {0: 7, 1: 0})


def _quarantine(*, is_tagged: bool) -> MemoryBench:
    """A table with two rows, that was made with a tag on its first snapshot, or by an earlier version without."""
    bench = MemoryBench()
    create(bench)
    for number in (1, 2):
        append(bench, again(bench), f"batch {number}", number)
    now = bench.catalog.tables[PATH]
    refs = {name: number for name, number in now.refs.items() if is_tagged or name != GENESIS_TAG}
    bench.catalog.tables[PATH] = replace(now, refs=refs)
    return bench


@pytest.mark.parametrize("is_tagged", [True, False])
def test_a_quarantine_that_expiry_has_cut_off_is_none_that_was_not_there_yet(is_tagged: bool) -> None:  # noqa: FBT001
    """PyIceberg makes what is left look like a whole one; a replay from the middle would forget what was held."""
    bench = _quarantine(is_tagged=is_tagged)
    line: Any = SimpleNamespace(lake=bench.lake)

    assert _held_then(line, again(bench), until=0) is None
    bench.catalog.expire(PATH, tidy=True)
    with pytest.raises(UsageError, match="nothing tells what was held"):
        _held_then(line, again(bench), until=0)


def test_rows_that_have_lost_a_column_are_no_base() -> None:
    """It would be begun anew, NULL in every row that is not read again."""
    bench, nothing = MemoryBench(), SimpleNamespace()
    mirror = replace(create(bench), dropped={"price": None})
    unused: Any = nothing
    table = TableConfig.model_validate({"topic": "shop.public.t", "mirror": "shop.t"})
    line = Line("shop", table, unused, None, None, bench.lake)

    with pytest.raises(UsageError, match=r"dropped or renamed.*price.*`--from earliest` rebuilds all of it"):
        find_base(line, Tables(mirror, mirror, None), Start("offset", every=0), {})
    assert find_base(line, Tables(mirror, mirror, None), EARLIEST, {}) is None


def test_how_long_a_topic_had_one_partition_is_no_states_own() -> None:
    """A truncate without a position that was applied then stays applied where an earlier state is gone on from."""
    earlier, now = (Marker("p", "b", "t", None, Offsets({0: end}), {}, None, None, {}, alone=end) for end in (500, 900))

    assert (carried(earlier, now).alone, carried(now, earlier).alone) == (900, 900)
    assert Marker.begin(now).alone == 900
    assert Marker.from_summary(now.to_summary()) == now
