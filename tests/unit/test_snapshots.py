"""Where the snapshots in a topic begin and end, batch by batch."""

from collections.abc import Mapping

import pytest

from cdc_materializer.errors import InvariantBroken
from cdc_materializer.holes import Hole
from cdc_materializer.marker.snapshots import Followed, Reached, Records, Snapshot, Swept
from cdc_materializer.marker.sweeps import SWEPT_MAX, Sweep, SweepPlan, plan_sweeps
from cdc_materializer.order.sweeping import Watch, is_torn


def _plan(
    *records: Records, running: tuple[Snapshot, ...] = (), reached: Mapping[int, Reached] | None = None
) -> SweepPlan:
    """Follow snapshots through a batch of a topic that has something before it."""
    return plan_sweeps(running, records, reached or {0: Reached(first=0)}, is_first=False)


def _batch(
    first: int,
    last: int,
    position: str | None = "5",
    begins: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    ahead: str | None = None,
) -> Records:
    return Records(0, position, first, last, begins, ends, {} if ahead is None else {first: ahead})


def _remembered(plan: SweepPlan) -> tuple[Snapshot, ...]:
    return Followed.from_json(plan.followed.to_json()).running


def _ends(plan: SweepPlan) -> list[tuple[int, int]]:
    return [(sweep.begins[0], sweep.ends[0]) for sweep in plan.sweeps]


def test_a_snapshot_with_both_ends_sweeps() -> None:
    """From its first record to its last."""
    plan = _plan(_batch(3, 9, begins=(3,), ends=(9,)))

    assert plan == SweepPlan((Sweep({0: 3}, {0: 9}, (0, 9), position="5"),))


def test_a_snapshot_is_followed_over_batches() -> None:
    """Where it began is remembered until it ends, in the marker's own words."""
    begun = _plan(_batch(3, 9, begins=(3,)))
    going = _plan(_batch(10, 19), running=_remembered(begun))
    ended = _plan(_batch(20, 22, ends=(22,)), running=_remembered(going))

    assert (begun.sweeps, going.sweeps) == ((), ())
    assert _ends(ended) == [(3, 22)]
    assert ended.running == ()


def test_a_snapshot_that_begins_again_counts_from_there() -> None:
    """What was interrupted says nothing, whether it came in an earlier batch, in this one, or at another position."""
    interrupted = _plan(_batch(3, 9, begins=(3,))).running

    assert _ends(_plan(_batch(10, 12, "6", begins=(10,), ends=(12,)), running=interrupted)) == [(10, 12)]
    assert _ends(_plan(_batch(10, 12, "5", begins=(10,), ends=(12,)), running=interrupted)) == [(10, 12)]
    assert _ends(_plan(_batch(3, 12, None, begins=(3, 7), ends=(12,)))) == [(7, 12)]
    assert not _plan(_batch(10, 12, "6", begins=(10,), ends=(12,)), running=interrupted).unreconciled


def test_a_single_record_is_no_snapshot() -> None:
    """A table of one row is marked as ended alone, and so is a last record that was sent twice."""
    interrupted = _plan(_batch(3, 9, begins=(3,))).running
    twice = _plan(_batch(3, 10, begins=(3,), ends=(9, 10)))

    assert _plan(_batch(4, 4, ends=(4,))) == SweepPlan(unreconciled=((0, 4),))
    assert _plan(_batch(10, 10, "6", ends=(10,)), running=interrupted) == SweepPlan(unreconciled=((0, 10),))
    assert (_ends(twice), twice.unreconciled) == ([(3, 9)], ((0, 10),))


def test_a_snapshot_that_is_older_than_what_was_read_sweeps_nothing() -> None:
    """It was sent again, or its topic is read anew: it says nothing of rows that came since."""
    in_one = _plan(_batch(3, 9, "5", begins=(3,), ends=(9,), ahead="6"))
    begun = _plan(_batch(3, 9, "5", begins=(3,), ahead="6"))
    ended = _plan(_batch(10, 12, "5", ends=(12,), ahead="7"), running=_remembered(begun))

    assert in_one == SweepPlan(unreconciled=((0, 9),))
    assert ended == SweepPlan(unreconciled=((0, 12),))
    assert _ends(_plan(_batch(3, 9, "5", begins=(3,), ends=(9,), ahead="5"))) == [(3, 9)]


def test_what_the_log_shows_while_a_snapshot_runs_is_not_ahead_of_it() -> None:
    """Other partitions are read earlier or later; each counts from the snapshot's own first record in it."""
    begun = _plan(Records(0, "5", 3, 4, begins=(3,)), reached={0: Reached(position="6"), 1: Reached(position="4")})
    own = Records(0, "5", 9, 9, ends=(9,), ahead={9: "6"})
    other = Records(1, "5", 2, 2, ahead={2: "4"})
    both = {0: Reached(position="7"), 1: Reached(position="7")}

    assert len(_plan(own, other, running=_remembered(begun), reached=both).sweeps) == 1


def test_an_unmarked_beginning_sweeps_nothing_and_is_told() -> None:
    """Nobody knows what was shown before the first record that was read."""
    whole = _plan(_batch(3, 9, ends=(9,)))
    begun = _plan(_batch(3, 3))
    ended = _plan(_batch(4, 4, ends=(4,)), running=begun.running)

    assert (whole.sweeps, whole.unreconciled) == ((), ((0, 9),))
    assert (ended.sweeps, ended.unreconciled) == ((), ((0, 4),))


def test_an_unmarked_end_is_told_when_the_log_goes_on() -> None:
    """In the batch or a later one; a snapshot that merely has not ended is waited for."""
    open_end = Records(0, "5", 3, 9, begins=(3,), followed=11)
    later = _plan(running=_plan(_batch(3, 9, begins=(3,))).running, reached={0: Reached(first=10, streamed=(12, 14))})

    assert _plan(open_end).unreconciled == ((0, 11),)
    assert later.unreconciled == ((0, 12),)
    assert (_plan(open_end).running, later.running) == ((), ())


def test_several_snapshots_of_one_batch_are_told_apart() -> None:
    """By their positions, and by their ends where they have none."""
    by_position = _plan(_batch(3, 5, "5", begins=(3,), ends=(5,)), _batch(7, 9, "6", begins=(7,), ends=(9,)))
    by_ends = _plan(_batch(3, 12, None, begins=(3, 7, 11), ends=(5, 9)))

    assert _ends(by_position) == [(3, 5), (7, 9)]
    assert _ends(by_ends) == [(3, 5), (7, 9)]
    assert [one.begins for one in by_ends.running] == [{0: 11}]


def test_rows_end_at_one_record_of_a_snapshot_however_the_log_is_cut() -> None:
    """Its last one in the lowest of its partitions; and a batch may have no more than its rest."""
    sweep = Sweep({1: 4, 0: 7}, {1: 9, 0: 8})

    assert sweep.last == (0, 8)
    assert not sweep.begins_before({0: 7, 1: 4})
    assert sweep.begins_before({0: 7, 1: 5})
    assert not sweep.begins_before({2: 5})


def test_a_topics_first_snapshot_has_nothing_to_sweep() -> None:
    """Over batches too; and where it is not marked there is nothing to tell."""
    first = plan_sweeps((), [_batch(3, 9, begins=(3,))], {0: Reached(first=3)}, is_first=True)
    second = _plan(_batch(10, 12, ends=(12,)), running=first.running)
    unmarked = plan_sweeps((), [_batch(3, 9, ends=(9,))], {0: Reached(first=3)}, is_first=True)

    assert second == unmarked == SweepPlan()


def test_several_partitions_sweep_when_each_has_gone_on() -> None:
    """Before that a record may be on its way in one of them; it is told once, and swept later."""
    parts = [Records(0, "5", 3, 4, begins=(3,)), Records(1, "5", 7, 9, ends=(9,))]
    waiting = _plan(*parts, reached={0: Reached(first=3, position="6"), 1: Reached(first=7, position="4")})
    reached = {0: Reached(position="6"), 1: Reached(first=10, streamed=(10, 12), position="7")}
    done = _plan(running=_remembered(waiting), reached=reached)

    assert (waiting.sweeps, waiting.unreconciled, waiting.waiting) == ((), (), ((1, 9),))
    assert [(sweep.begins, sweep.ends) for sweep in done.sweeps] == [({0: 3, 1: 7}, {0: 4, 1: 9})]


def test_a_partition_without_a_record_cannot_be_swept() -> None:
    """Nothing says which of its rows are from before."""
    whole = Records(0, "5", 3, 4, begins=(3,), ends=(4,))
    other = Reached(first=0, streamed=(0, 1), position="6", begun="2")

    plan = _plan(whole, reached={0: Reached(first=3, position="6"), 1: other})

    assert plan == SweepPlan(unreconciled=((0, 4),))


def test_changes_of_the_commit_that_a_snapshot_tells_are_not_behind_it() -> None:
    """SQL Server's tells the last commit that it has, of which the log shows changes ahead of it."""
    parts = [Records(0, "2a//0000000000", 3, 4, begins=(3,)), Records(1, "2a//0000000000", 7, 9, ends=(9,))]
    shown = {0: Reached(first=3, position="2a/29/0000000001"), 1: Reached(first=7, position="2a/29/0000000002")}
    waiting = _plan(*parts, reached=shown)
    later = {0: Reached(position="2b/2a/0000000001"), 1: Reached(first=10, streamed=(10, 12), position="2b/2a/2")}

    assert (waiting.sweeps, waiting.waiting) == ((), ((1, 9),))
    assert len(_plan(running=_remembered(waiting), reached=later).sweeps) == 1


def test_a_snapshot_is_not_the_topics_beginning_where_a_later_batch_shows_changes_ahead_of_it() -> None:
    """Of a partition that the first batch had nothing of."""
    opening = plan_sweeps((), [Records(0, "5", 0, 0, begins=(0,))], {0: Reached(first=0), 1: Reached()}, is_first=True)
    rest = Records(1, "5", 1, 1, ends=(1,), ahead={1: "2"})
    passed = {0: Reached(first=1, position="6"), 1: Reached(first=0, position="7")}

    assert [one.is_fresh for one in opening.running] == [True]
    assert [(one.begins, one.ends) for one in _plan(rest, running=_remembered(opening), reached=passed).sweeps] == [
        ({0: 0, 1: 1}, {0: 0, 1: 1})
    ]


def test_a_snapshot_is_not_the_topics_beginning_where_a_later_batch_shows_another_one_ahead_of_it() -> None:
    """That was interrupted, and has shown rows which may be gone; a partition that begins with it says nothing."""
    opening = plan_sweeps((), [Records(0, "5", 0, 0, begins=(0,))], {0: Reached(first=0), 1: Reached()}, is_first=True)
    passed = {0: Reached(first=1, position="6"), 1: Reached(first=0, position="7")}
    interrupted, rest = Records(1, "4", 0, 0), Records(1, "5", 1, 1, ends=(1,))
    alone = Records(1, "5", 0, 1, ends=(1,))

    found = _plan(interrupted, rest, running=_remembered(opening), reached=passed)

    assert [(one.begins, one.ends) for one in found.sweeps] == [({0: 0, 1: 1}, {0: 0, 1: 1})]
    assert _plan(alone, running=_remembered(opening), reached=passed).sweeps == ()


@pytest.mark.parametrize(
    ("gap", "alone", "among"),
    [
        (Hole(0, 12, 14), True, True),
        (Hole(0, 5, 10), False, True),
        (Hole(0, 5, 9), False, True),
        (Hole(0, 5, 8), False, False),
        (Hole(0, 21, 25), False, True),
        (Hole(0, 22, 25), False, True),
        (Hole(0, 23, 25), False, False),
        (Hole(1, 12, 14), False, False),
        (Hole(1, 0, 14), True, True),
        (Hole(1, 0, 0), False, False),
        (Hole(0, 10, 10), False, False),
        (Hole(0, 15, 15), True, True),
        (Hole(0, 21, 21), False, True),
        (Hole(0, 22, 22), False, True),
    ],
)
def test_what_was_lost_beside_a_snapshot_may_have_been_of_it(gap: Hole, *, alone: bool, among: bool) -> None:
    """Only in a topic of one partition its marks say where it began and ended there; marks of transactions lie between.

    A topic that was made again has lost what came behind what was read of the old one.
    """
    sweep = Sweep({0: 10}, {0: 20})

    assert is_torn(sweep, gap, at_ends=False) == alone
    assert is_torn(sweep, gap, at_ends=True) == among


def test_several_partitions_without_positions_are_told_at_once() -> None:
    """Nothing orders what is in one partition with what is in another."""
    plan = _plan(Records(0, None, 3, 4, begins=(3,), ends=(4,)), reached={0: Reached(first=3), 1: Reached(first=0)})

    assert plan == SweepPlan(unreconciled=((0, 4),))


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[]", '{"running":[1],"tables":[]}', '{"running":[{}],"tables":[]}', '{"running":[],"tables":[1]}'),
        '{"running":[],"tables":[],"swept":[{}]}',
        '{"running":[],"tables":[],"more":[]}',
    ],
)
def test_what_the_marker_cannot_have_said_stops_everything(text: str) -> None:
    """A snapshot that is not read as it was written could sweep rows that are there."""
    with pytest.raises(InvariantBroken):
        Followed.from_json(text)


def _beside(lowest: str | None) -> SweepPlan:
    """A whole snapshot at 5 in partition 0, read with a partition that shows none of it and is at 7."""
    own = Records(0, "5", 3, 9, begins=(3,), ends=(9,))
    return _plan(own, reached={0: Reached(first=0, position="6"), 1: Reached(first=0, position="7", begun=lowest)})


def test_a_partition_that_was_added_since_has_no_record_to_come() -> None:
    """All that it shows is from later positions; where nobody has looked, only the whole log tells."""
    assert [sweep.begins for sweep in _beside("6").sweeps] == [{0: 3}]
    assert not _beside("6").is_unsure
    assert (_beside("4").sweeps, _beside("4").unreconciled, _beside("4").is_unsure) == ((), ((0, 9),), False)
    assert (_beside(None).sweeps, _beside(None).is_unsure) == ((), True)


def test_what_was_read_of_one_partition_is_in_its_order() -> None:
    """Also where partitions were added since, and one of them has what was sent again from before the snapshot."""
    records = (Records(0, "5", 3, 9, (3,), (9,)),)
    reached = {0: Reached(first=0, streamed=(0, 12), position="8"), 1: Reached(first=0, position="8", begun="3")}

    def swept(alone: int) -> list[tuple[int, int]]:
        return _ends(plan_sweeps((), records, reached, is_first=True, alone=alone))

    assert (swept(10), swept(9), swept(0)) == ([(3, 9)], [], [])


def test_a_snapshot_that_was_running_when_a_partition_was_added_goes_on_by_its_position() -> None:
    """What is behind its beginning in the log is then asked of all partitions."""
    begun, ended = Records(0, "5", 3, 6, (3,), ()), Records(0, "5", 12, 14, (), (14,))
    reached = {0: Reached(first=0, streamed=(15, 16), position="8"), 1: Reached(first=0, position="8", begun="7")}

    assert _ends(plan_sweeps((), (begun, ended), reached, is_first=True, alone=10)) == [(3, 14)]


def test_what_has_swept_is_remembered_and_found_again_where_it_does_not_look_whole_any_more() -> None:
    """In the order of positions; a batch's own plan is not touched by it, and a version that kept none has none."""
    first, second = Swept("5", {0: 3}, {0: 9}), Swept("7", {0: 12}, {0: 14})
    swept = _plan(_batch(12, 14, "7", begins=(12,), ends=(14,))).remembering((first,))
    known = Followed.from_json(swept.followed.to_json()).swept
    anew = SweepPlan().remembering(known, known)

    assert (_ends(swept), swept.swept) == ([(12, 14)], (first, second))
    assert (_ends(anew), anew.swept) == ([(3, 9), (12, 14)], (first, second))
    assert Followed.from_json('{"running":[],"tables":[]}').swept == ()


def test_the_last_that_have_swept_are_remembered() -> None:
    """So that the marker's size has a limit."""
    known = tuple(Swept(f"{at:02d}", {0: at}, {0: at + 1}) for at in range(SWEPT_MAX))
    after = _plan(_batch(90, 95, "99", begins=(90,), ends=(95,))).remembering(known).swept

    assert after == (*known[1:], Swept("99", {0: 90}, {0: 95}))


def test_what_a_partition_showed_before_is_the_higher_of_its_changes_and_its_snapshots() -> None:
    """A snapshot that is older than either was sent again."""
    assert Watch((0, 1), positions={0: "5", 1: "6"}, readings={0: "7", 2: "3"}).ahead == {0: "7", 1: "6", 2: "3"}
