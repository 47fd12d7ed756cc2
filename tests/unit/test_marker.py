"""The markers of quarantine, which tell of more than its newest batch."""

from dataclasses import replace

import pytest

from cdc_materializer.errors import InvariantBroken
from cdc_materializer.line.audit import Remarks
from cdc_materializer.line.settling import is_given_up
from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.marker.marker import (
    LEFT,
    MARKER_PREFIX,
    STOPPED,
    Marker,
    beside_mirror,
    is_unnoted,
    is_unsettled,
)
from cdc_materializer.marker.swapped import Swapped
from cdc_materializer.marker.unpaired import UNPAIRED_MAX, Unpaired, newest
from cdc_materializer.offsets import Offsets
from cdc_materializer.order.truncates import Truncate, was_passed_over

BEFORE = Marker("p", "a", "t", None, Offsets({0: 9, 1: 2}), {}, None, None, {"read": 4, STOPPED: 1}, settled="a")
BATCH = Marker("p", "b", "t", None, Offsets({0: 5, 2: 1}), {}, None, None, {"read": 5}, ledger="1 2", settles="17")
WARNED = replace(BATCH, warned=("rows at least", 'a "rule"'))


def test_a_batch_leaves_beside_mirror_what_is_no_batchs() -> None:
    """It was held, and not published: the stop stays, so do the batch that was settled and all that was read."""
    found = beside_mirror(BEFORE, BATCH)

    assert (found.batch, found.offsets) == ("b", Offsets({0: 9, 1: 2, 2: 1}))
    assert found.counts == {"read": 5, STOPPED: 1}
    assert (found.settled, found.settles, found.ledger) == ("a", None, None)
    assert beside_mirror(BEFORE, replace(BATCH, settled="b")).settled == "b"
    swapped = beside_mirror(BEFORE, replace(BATCH, swapped=Swapped(7, 5)))
    assert beside_mirror(swapped, BATCH).swapped == Swapped(7, 5)
    assert beside_mirror(swapped, replace(BATCH, swapped=Swapped(5))).swapped == Swapped(5)


def test_a_state_that_was_swapped_in_is_told_from_another_of_the_same_batch() -> None:
    """A replay may end with the very batch that the mirror before it had."""
    states = [replace(BATCH, swapped=swapped).state for swapped in (None, Swapped(7), Swapped(8), Swapped(7, 5))]

    assert len({*states, replace(BATCH, batch="a").state}) == len(states) + 1
    assert replace(BATCH, offsets=Offsets()).state == states[0]


def test_what_a_batch_warns_of_is_told_in_quarantine_once() -> None:
    """The mirror's marker has the rules' names; quarantine's keeps of which batch it was told, whoever comes next."""
    noted = replace(BEFORE, noted="b")

    assert Marker.from_summary(WARNED.to_summary()) == WARNED
    assert (beside_mirror(noted, WARNED).warned, beside_mirror(noted, WARNED).noted) == ((), "b")
    assert [is_unnoted(WARNED, held) for held in (None, BEFORE, noted, replace(BEFORE, settled="b"))] == [
        *(True, True),
        *(False, False),
    ]
    assert not is_unnoted(BATCH, None)
    assert Marker.begin(WARNED).warned == ()


def test_inserts_that_wait_for_their_deletes_are_the_mirrors() -> None:
    """The other tables have none, nor has a log that is read once more; and the newest of many are kept."""
    inserts = [Unpaired(f"{number:020d}", number % 3, number) for number in range(UNPAIRED_MAX + 2)]
    waiting = replace(BATCH, unpaired=newest(inserts[:2], inserts[1:]))

    assert waiting.unpaired == tuple(inserts[2:])
    assert Marker.from_summary(waiting.to_summary()) == waiting
    assert beside_mirror(BEFORE, waiting).unpaired == Marker.begin(waiting).unpaired == ()


@pytest.mark.parametrize("told", ['[["1", 0]]', '[["1", 0, -1]]', "[[1, 0, 0]]", '["1"]', '{"1": 0}'])
def test_inserts_that_cannot_be_read_are_never_taken_for_none(told: str) -> None:
    """A marker that someone has changed stops the table."""
    with pytest.raises(InvariantBroken):
        Marker.from_summary({**BATCH.to_summary(), f"{MARKER_PREFIX}unpaired": told})


def test_a_tried_rule_that_cannot_be_judged_is_told_once_until_one_batch_judges_it() -> None:
    """The mirror's marker has all of them, whichever were told; quarantine's has none, as each is a row there."""
    unjudged = replace(BATCH, untried=("of digits", "a number"), contract="1")
    later = replace(unjudged, batch="c")

    assert Marker.from_summary(unjudged.to_summary()) == unjudged
    assert unjudged.untold(None) == unjudged.untold(replace(BATCH, contract="1")) == ("of digits", "a number")
    assert later.untold(unjudged) == ()
    assert later.untold(replace(unjudged, untried=("of digits",))) == ("a number",)
    assert replace(later, contract="2").untold(unjudged) == ("of digits", "a number")
    assert (Marker.begin(unjudged).untried, beside_mirror(BEFORE, unjudged).untried) == ((), ())


def test_what_is_found_of_rules_about_the_table_is_told_of_those_broken_always_and_of_those_not_judged_once() -> None:
    """Which of the names could not be judged the marker says beside them."""
    found, plain = Remarks(("rows at least",), ("a number",)), replace(BATCH, untried=("of digits",))

    first = found.on(plain, None)
    assert (first.warned, first.untried) == (("rows at least", "a number"), ("of digits", "a number"))
    assert found.on(plain, first).warned == ("rows at least",)
    assert Remarks().on(plain, first) == plain


def test_a_batch_that_was_given_up_stays_known_while_it_is_the_mirrors_newest() -> None:
    """Nothing more is ended in its name; what it has read may seem to wait, whatever is tried or stops meanwhile."""
    left = replace(BEFORE, settled=LEFT + BATCH.batch)
    later = beside_mirror(left, replace(BATCH, batch="c", settles=None))

    for held in (left, later, Marker.from_summary(left.to_summary())):
        assert (is_unsettled(BATCH, held), is_given_up(BATCH, held)) == (False, True)
    assert (is_unsettled(BATCH, BEFORE), is_given_up(BATCH, BEFORE)) == (True, False)
    assert not is_given_up(BATCH, replace(BEFORE, settled=BATCH.batch))
    assert not is_given_up(replace(BATCH, batch="c"), left)


def test_a_mirror_names_the_table_that_holds_what_is_held_of_it() -> None:
    """Read once more, it finds in raw again what is held, whatever has become of that table."""
    named = replace(BATCH, held_table="q")

    assert Marker.from_summary(named.to_summary()) == named
    assert Marker.begin(named).held_table is None


def test_where_truncates_are_passed_over_is_remembered() -> None:
    """From the first message on where it is so from the beginning, and else from where the setting has changed."""
    begun = replace(BATCH, truncates=0, offsets=Offsets())
    applied = replace(BATCH, truncates=2)
    passing = replace(applied, passing=applied.passing_under("ignore"), offsets=Offsets({0: 8, 2: 3}))
    again = passing.passing_under("apply")
    read = Marker.from_summary(replace(passing, passing=again).to_summary())

    assert (begun.passing_under("apply"), begun.passing_under("stop")) == ((), ({},))
    assert (applied.passing_under("apply"), passing.passing) == ((), ({0: 5, 2: 1},))
    assert (passing.passing_under("stop"), again) == (passing.passing, ({0: 5, 2: 1}, {0: 8, 2: 3}))
    assert read is not None
    assert read.passing == again
    assert Marker.begin(read).passing == ()


@pytest.mark.parametrize(
    ("partition", "offset", "is_passed"), [(0, 4, False), (0, 5, True), (0, 8, False), (2, 2, True), (1, 0, False)]
)
def test_a_truncate_is_what_it_was_when_it_was_read(partition: int, offset: int, is_passed: bool) -> None:  # noqa: FBT001 - a case
    """In each partition by its offset; one that no switch names was added since, and the last of them counts."""
    passing = ({0: 5, 2: 1}, {0: 8, 2: 3})

    assert was_passed_over(Truncate(None, partition, offset), passing) is is_passed


def test_a_log_that_is_read_once_more_has_neither_truncates_nor_a_swap() -> None:
    """What is known of the rows that were there is not said of those that are folded anew."""
    begun = Marker.begin(replace(WARNED, truncates=3, swapped=Swapped(7, 5)))

    assert (begun.truncates, begun.warned, begun.swapped, begun.settles) == (0, (), None, None)


@pytest.mark.parametrize(
    ("positions", "told"),
    [
        ((), None),
        (("a@bin.0001/1", "b@bin.0001/2"), "a@bin.0001/1 b@bin.0001/2"),
        (("my bin.0001/1", "b@'.0001/2"), '["my bin.0001/1", "b@\'.0001/2"]'),
        (("[.0001/1",), '["[.0001/1"]'),
    ],
)
def test_a_position_may_have_any_letter(positions: tuple[str, ...], told: str | None) -> None:
    """The name of a binlog's file is in it; those without a space are told as every version has told them."""
    summary = replace(BATCH, truncated=positions).to_summary()

    assert summary.get(f"{MARKER_PREFIX}truncated") == told
    found = Marker.from_summary(summary)
    assert found is not None
    assert found.truncated == positions


def test_a_stop_that_was_ended_stays_ended() -> None:
    """What the marker says itself goes before what the one before it said; nothing brings the stop back."""
    ended = beside_mirror(BEFORE, replace(BEFORE, counts={STOPPED: 0}))

    assert ended.counts == {STOPPED: 0}
    assert beside_mirror(ended, BATCH).counts == {"read": 5}


def test_what_was_accepted_says_from_where_on_and_need_not() -> None:
    """Versions that did not keep it have left theirs in markers, which stay as they are."""
    told = Adoption("gap", {0: 9}, 4, "2026-11-01T00:00:00+00:00", "tests", began={0: 5})
    before = replace(told, began={})
    marker = replace(BATCH, adopted=(before, told))

    assert Marker.from_summary(marker.to_summary()) == marker
    assert "began" not in before.to_json()
