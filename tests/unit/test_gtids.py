"""GTID sets: what they keep of the transactions that were read."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from cdc_materializer.batch.facts import Facts
from cdc_materializer.batch.logs import gtids_of
from cdc_materializer.batch.markers import LOGS_MAX, reached
from cdc_materializer.errors import BatchBlocked, InvariantBroken
from cdc_materializer.marker.gtids import _RUNS_MAX, NEAR, GtidSets
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.order.epochs import EPOCHS_MAX

_LOG = "gtid:3e11fa47-71ca-11e1-9e33-c80aa9429562"
_RUNS = st.tuples(st.integers(1, 10**12), st.integers(0, 10**7)).map(lambda run: (run[0], sum(run)))
_BATCHES = st.lists(st.tuples(st.sampled_from(["gtid:0", _LOG]), st.integers(0, 2), _RUNS), max_size=40)


def _after(batches: list[tuple[str, int, tuple[int, int]]]) -> GtidSets:
    sets = GtidSets()
    for log, partition, run in batches:
        sets = sets.with_read(GtidSets({log: {partition: (run,)}}), {partition: (log, run[1])})
    return sets


@given(_BATCHES)
def test_no_transaction_that_was_read_is_forgotten(batches: list[tuple[str, int, tuple[int, int]]]) -> None:
    """However many runs there are; and no more than a few are kept, as they are written and read again."""
    sets = _after(batches)

    for log, partition, (first, last) in batches:
        for number in (first, (first + last) // 2, last):
            assert sets.may_have(log, number, partition)
            assert sets.may_have(log, number, None)
    assert all(len(runs) <= _RUNS_MAX for known in sets.sets.values() for runs in known.values())
    assert GtidSets.from_json(sets.to_json()) == sets


def test_what_was_not_read_is_not_there() -> None:
    """A partition that is behind has not what another one read, nor a server what one with other numbers wrote."""
    sets = _after([(_LOG, 0, (10, 20)), (_LOG, 1, (10, 12)), (_LOG, 0, (20 + NEAR + 1, 20 + NEAR + 9))])

    assert sets.of(_LOG, 0) == ((10, 20), (20 + NEAR + 1, 20 + NEAR + 9))
    assert not sets.may_have(_LOG, 15, 1)
    assert sets.may_have(_LOG, 15, None)
    assert not sets.may_have(_LOG, 21, None)
    assert not sets.may_have("gtid:0", 15, None)
    assert not sets.may_have(None, None, 0)


def test_runs_that_are_near_are_one() -> None:
    """Transactions of other tables lie between those of two batches."""
    assert _after([(_LOG, 0, (10, 20)), (_LOG, 0, (90, 95))]).of(_LOG, 0) == ((10, 95),)


def _position(file: int, pos: int) -> str:
    return f"a.{file:010d}/{pos:020d}/{0:010d}"


def _read(file: int, pos: int, number: int, marker: Marker | None = None) -> Marker:
    """The marker behind a batch that ends in a transaction."""
    gtids = GtidSets({_LOG: {0: ((number, number),)}}, {0: (_LOG, number)})
    facts = Facts(positions={0: _position(file, pos)}, gtids=gtids)
    return replace(
        Marker("p", "b", "t", None, Offsets(), {}, None, None, {}), **reached(marker, facts, (), {}, "apply")
    )


def test_a_batch_goes_on_with_the_transaction_that_the_last_one_ended_in() -> None:
    """Unless that was read when it came: then the rest of it was too."""
    first = _read(9, 100, 10)
    cut = _read(9, 200, 10, first)
    again = _read(50, 1100, 10, cut)

    assert first.gtids.last == cut.gtids.last == {0: (_LOG, 10)}
    assert again.gtids.last == {}
    assert _read(50, 1200, 10, again).gtids.last == {}
    assert _read(50, 1300, 11, again).gtids.last == {0: (_LOG, 11)}
    assert _read(9, 50, 8, cut).gtids.last == {0: (_LOG, 10)}


@pytest.mark.parametrize(
    "found",
    [
        {"sets": []},
        {"sets": {_LOG: {"0": [[2, 1]]}}},
        {"sets": {_LOG: {"0": [[1, 5], [4, 9]]}}},
        {"sets": {_LOG: {"0": [[1]]}}},
        {"sets": {_LOG: {"x": [[1, 2]]}}},
        {"last": {"0": ["gtid:0"]}},
        {"last": {"0": ["gtid:0", -1]}},
    ],
)
def test_what_someone_else_wrote_is_refused(found: object) -> None:
    """Never taken for none: an older row could come over a newer one."""
    with pytest.raises(InvariantBroken):
        GtidSets.from_json(json.dumps(found))


def test_more_logs_than_any_database_has_stop_the_table() -> None:
    """The marker would have each of them for ever. What it has already goes on."""
    logs = {f"gtid:{number}": 1 for number in range(LOGS_MAX)}
    marker = replace(Marker("p", "b", "t", None, Offsets(), {}, None, None, {}), logs=logs)

    assert reached(marker, Facts(logs={"gtid:7": 5}), (), {}, "apply")["logs"] == logs | {"gtid:7": 5}
    with pytest.raises(BatchBlocked, match="5,000 logs"):
        reached(marker, Facts(logs={"gtid:new": 1}), (), {}, "apply")
    beyond = replace(marker, logs=logs | {"gtid:new": 1})
    assert len(reached(beyond, Facts(logs={"gtid:new": 2}), (), {}, "apply")["logs"]) == LOGS_MAX + 1


def test_a_batch_has_no_numbers_between_two_blocks() -> None:
    """Members of a group take theirs from blocks of a million; one batch can have some of two."""
    log, places = "gtid", ("000010", "000020")
    numbers = ((100, 100), (1_000_001, 1_000_003))
    rows = [
        Row(__cdc_partition=0, __cdc_log=log, first_number=first, last_number=last, first_place=place)
        for (first, last), place in zip(numbers, places, strict=True)
    ]

    assert gtids_of(rows, []).sets == {log: {0: numbers}}


def test_more_epochs_than_sort_are_refused() -> None:
    """Their positions would come ahead of those of earlier ones, and changes be taken for re-sends."""
    epochs = tuple({0: number} for number in range(EPOCHS_MAX))

    assert reached(None, Facts(epochs=epochs), (), {}, "apply")["epochs"] == epochs
    with pytest.raises(BatchBlocked, match="9,999 times"):
        reached(None, Facts(epochs=(*epochs, {0: EPOCHS_MAX})), (), {}, "apply")
