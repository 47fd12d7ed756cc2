"""How many messages raw has for a batch, as its snapshots tell it, where other programs have written to it too."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cdc_materializer.lake.line import landed
from cdc_materializer.line.tally import expected_messages
from cdc_materializer.offsets import Offsets, Span
from tests.model.lake_contract import again, append, create, marker
from tests.unit.memory import PATH, MemoryBench


@pytest.fixture
def bench() -> MemoryBench:
    """A catalog of the test's own."""
    return MemoryBench()


def _another_program(bench: MemoryBench, told: Mapping[str, str], keys: tuple[str, ...]) -> None:
    """Another program leaves a table with these rows, and says in its summary what it did."""
    now = bench.catalog.tables[PATH]
    bench.catalog.tables[PATH] = bench.catalog.grown(now, told, tuple((key, "") for key in keys))


def _expected(bench: MemoryBench, start: int, end: int) -> int | None:
    table = again(bench)
    decided: Any = type("Decided", (), {"span": Span("t", Offsets({0: start}), Offsets({0: end}))})
    return expected_messages(landed(bench.lake.iceberg(table.name), table.head, 20), decided, from_nothing=False)


_DELETED = {"operation": "overwrite", "engine-name": "other", "deleted-records": "1"}
_BROUGHT = {"operation": "append", "engine-name": "other", "added-records": "1"}


def test_what_landed_is_counted(bench: MemoryBench) -> None:
    """Between any two landings."""
    create(bench)
    for batch, offset in (("one", 1), ("two", 2), ("three", 3)):
        append(bench, again(bench), batch, offset)

    assert [_expected(bench, start, 3) for start in range(4)] == [3, 2, 1, 0]


def test_old_messages_that_another_program_takes_away_are_none_of_the_next_batch(bench: MemoryBench) -> None:
    """Counted with it, it would lack a message for good, and nothing would be published any more."""
    append(bench, create(bench), "one", 1)
    _another_program(bench, _DELETED, ())
    append(bench, again(bench), "two", 2)

    assert _expected(bench, 1, 2) == 1


def test_unread_messages_that_another_program_takes_away_are_still_expected(bench: MemoryBench) -> None:
    """The batch that would read them finds fewer, and stops: they would be lost."""
    append(bench, create(bench), "one", 1)
    _another_program(bench, _DELETED, ())
    append(bench, again(bench), "two", 2)

    assert _expected(bench, 0, 2) == 2


def test_messages_that_another_program_brings_are_not_expected(bench: MemoryBench) -> None:
    """Old ones that it has put back are none of the next batch; among the unread ones they stop theirs."""
    append(bench, create(bench), "one", 1)
    _another_program(bench, _BROUGHT, ("one", "other"))
    append(bench, again(bench), "two", 2)

    assert (_expected(bench, 1, 2), _expected(bench, 0, 2)) == (1, 2)


def test_what_another_program_does_behind_the_newest_landing_is_left_out_too(bench: MemoryBench) -> None:
    """The totals of the landings stand below it."""
    append(bench, create(bench), "one", 1)
    append(bench, again(bench), "two", 2)
    _another_program(bench, _DELETED, ("two",))

    assert (_expected(bench, 0, 2), _expected(bench, 1, 2)) == (2, 1)


def test_across_what_was_read_for_raw_again_nothing_is_counted(bench: MemoryBench) -> None:
    """Its messages are of all offsets before; what landed since is told as before."""
    append(bench, create(bench), "one", 1)
    append(bench, again(bench), "two", 2)
    filled, later = (replace(marker(batch, at), refilled=2) for batch, at in (("filled", 2), ("three", 3)))
    _another_program(bench, {**filled.to_summary(), "operation": "append", "added-records": "2"}, ())
    bench.lake.publish(again(bench), later, lambda stage: stage.append(bench.frame([("three", "")])))

    assert [_expected(bench, start, 3) for start in (0, 1, 2)] == [None, None, 1]
    assert _expected(bench, 0, 2) is None


@pytest.mark.parametrize(("start", "expected"), [(0, 2), (1, None), (2, 0)])
def test_of_a_landing_that_brought_a_partition_only_the_whole_is_told(start: int, expected: int | None) -> None:
    """Before it raw was not where a batch of less than the landing ended, though it did not know the partition."""
    known = [(Offsets({0: 3, 1: 2}), 5), (Offsets({0: 3}), 3), (Offsets({0: 0}), 0)]
    span = Span("t", Offsets({0: 3, 1: start}), Offsets({0: 3, 1: 2}))
    decided: Any = type("Decided", (), {"span": span})

    assert expected_messages(known, decided, from_nothing=False) == expected
