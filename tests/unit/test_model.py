"""The reference fold against the model database, for every cut and interleaving that a seed gives.

A hundred seeds in a run of seconds; `make test` asks for a thousand of each kind by CDCM_SEEDS. With CDCM_TESTS=all
lives are longer too. CDCM_SEED=17 begins with that one.
"""

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pytest

from tests.model import reference
from tests.model.history import CHANGING, History, Rows, lives, table_after
from tests.model.judged import good_after, passes
from tests.model.messages import UNAVAILABLE, Message, Row
from tests.model.mutants import MUTANTS
from tests.model.reference import Table
from tests.model.topics import Sent, decoded, topic

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST = int(os.environ.get("CDCM_SEED", "1"))
_SEEDS = int(os.environ.get("CDCM_SEEDS", "3000" if _ALL else "100"))
_CHANGES = 80 if _ALL else 50
#: Seeds past those of a run of the suite that were wrong once: each run asks all of them too. A seed that fails is put
#: here; deletes without places have their own below, with how long their lives were.
_PINNED = (1769,)


def _life(
    seed: int,
    *,
    alone: bool = False,
    columns_change: bool = False,
    restored: bool = False,
    judged: bool = False,
    lasting: bool = False,
) -> tuple[History, list[Sent]]:
    # Of every third life, keys change to such as were there before.
    history = History(
        seed, _CHANGES, columns_change=columns_change, restored=restored, returns=seed % 3 == 0, lasting=lasting
    )
    # In another partition than a truncate's nothing but its position says that a row is from before that. And of a key
    # that moves while the stream is behind a snapshot, the last good version is what was read of it until then (ADR 7).
    partitions = (1, 1) if restored else ((1, 1), (3, 3))[seed % 2] if judged else None
    # Of a column that a snapshot's row has no more, a change that is streamed behind it may know the value. Whether it
    # counts depends on the partition it comes in.
    routed = 0.2 if partitions is None and not columns_change else 0
    return history, topic(history.live(), seed, alone=alone, partitions=partitions, routed=routed)


def _partitions(messages: list[Sent]) -> int:
    return len({message.partition for message in messages})


def _whole(rows: Mapping[Any, Row]) -> Rows:
    """Rows with all columns; one that no message has told of a row is NULL."""
    return {key: {name: row.get(name) for name in CHANGING} for key, row in rows.items()}


def _table(messages: list[Sent], *, judged: bool) -> Table:
    partitions = _partitions(messages)
    return Table(partitions=partitions, passes=passes) if judged else Table(partitions=partitions)


def _wrong_in_order(
    seed: int,
    *,
    columns_change: bool = False,
    restored: bool = False,
    judged: bool = False,
    lasting: bool = False,
) -> str:
    """What is wrong after some batch."""
    history, messages = _life(seed, columns_change=columns_change, restored=restored, judged=judged, lasting=lasting)
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    table, at = _table(messages, judged=judged), 0
    shown = good_after if judged else table_after
    while at < len(messages):
        count = chance.choice((1, 5, 20, 60))
        batch = [decoded(message) for message in messages[at : at + count]]
        table.take(batch)
        at = min(at + count, len(messages))
        last = messages[at - 1]
        is_settled = history.events[last.reached - 1].settled or _partitions(messages) == 1
        if is_settled and _whole(table.rows()) != _whole(shown(history.events, last.reached)):
            return f"after {at} messages"
    return ""


def _wrong_out_of_order(seed: int, *, columns_change: bool = False, judged: bool = False, lasting: bool = False) -> str:
    """What is wrong at the end, where partitions are read at unequal speed, and a copy may begin with a tombstone."""
    history, messages = _life(seed, alone=True, columns_change=columns_change, judged=judged, lasting=lasting)
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    lanes = [[one for one in messages if one.partition == partition] for partition in range(3)]
    table = _table(messages, judged=judged)
    while any(lanes):
        parts = [lane[: chance.choice((0, 3, 30))] for lane in lanes]
        lanes = [lane[len(part) :] for lane, part in zip(lanes, parts, strict=True)]
        table.take(decoded(message) for message in chain(*parts))
    expected = _whole((good_after if judged else table_after)(history.events, len(history.events)))
    return "" if _whole(table.rows()) == expected else "at the end"


#: Both questions above, asked of lives whose columns come and go.
_WHERE_COLUMNS_CHANGE = (
    pytest.param(partial(_wrong_in_order, columns_change=True), id="in order"),
    pytest.param(partial(_wrong_out_of_order, columns_change=True), id="at any speed"),
)

#: Likewise, of lives whose transactions last.
_WHERE_TRANSACTIONS_LAST = (
    pytest.param(partial(_wrong_in_order, lasting=True), id="in order"),
    pytest.param(partial(_wrong_out_of_order, lasting=True), id="at any speed"),
)

#: Likewise, of lives under a contract.
_WHERE_JUDGED = (
    pytest.param(partial(_wrong_in_order, judged=True), id="in order"),
    pytest.param(partial(_wrong_in_order, judged=True, restored=True), id="behind a restored database"),
    pytest.param(partial(_wrong_out_of_order, judged=True), id="at any speed"),
)


def _wrong_without_places(seed: int, changes: int = _CHANGES) -> str:
    """What is wrong at the end, where deletes are messages without a value and tell no place."""
    seeds = range(2 * seed, 2 * seed + 2)
    events = lives(seeds, changes)
    messages = [one for one in topic(events, seed, 25) if one.event.op != "tombstone"]
    table, at = Table(partitions=_partitions(messages)), 0
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    while at < len(messages):
        count = chance.choice((1, 5, 20, 60))
        table.take(_without_place(message) for message in messages[at : at + count])
        at += count
    return "" if table.rows() == table_after(events, len(events)) else "at the end"


def _without_place(sent: Sent) -> Message:
    """A message whose delete tells no place; and an insert all of its row, as no delete tells of an old key's."""
    event = sent.event
    message = decoded(replace(sent, event=replace(event, after=event.shown)) if event.op == "c" else sent)
    return replace(message, op="tombstone", position=None, before=None) if event.op == "d" else message


def _failing(wrong: Callable[[int], str]) -> dict[int, str]:
    seeds = (*_PINNED, *range(_FIRST, _FIRST + _SEEDS))
    return {seed: fault for seed in seeds if (fault := wrong(seed))}


#: What shows a mistake that lives of the plain kind do not show.
_SHOWN_BY: Mapping[str, Callable[[int], str]] = {
    "a delete leaves its values to a later row": partial(_wrong_in_order, columns_change=True),
    "a reading that is copied behind a truncate is new": partial(_wrong_in_order, columns_change=True),
    "a truncate ends what is behind it, by its position": partial(_wrong_in_order, restored=True),
    "a truncate that is sent again is another one": partial(_wrong_in_order, restored=True),
    "a tombstone in another partition is no delete's": partial(_wrong_in_order, lasting=True),
    "a tombstone is not its delete's": partial(_wrong_in_order, restored=True),
    "snapshot rows are dropped by position": partial(_wrong_in_order, restored=True),
    "snapshot rows set the high-water mark": partial(_wrong_in_order, restored=True),
    "what a key change left out ends under a writer without the column": partial(_wrong_in_order, columns_change=True),
}

#: Mistakes that no life shows, and why; golden cases do.
_NOT_SHOWN = {
    "a change's own number is its position": "who changes a row has locked it: both numbers of its positions rise",
    "at one position a delete comes first, whatever was sent": "at one position no row is made and then deleted",
    "what another server sends again is new": "there is one server; test_failover.py has several",
    "rows number the changes of a transaction": "no binlog",
    "a snapshot's position is held against a transaction's": "a commit is seen between a snapshot and the next change",
    "an unreadable message told nothing": "all messages can be read",
    "an unreadable message is new when it comes again": "all messages can be read",
    "a key is anybody's": "one source table",
    "a key is its first table's for good": "one source table",
    "a truncate wipes the rows of all tables": "one source table",
    "the row is the identity": "a row here has no column of its key",
}


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in _NOT_SHOWN])
def test_a_mutant_of_the_reference_goes_wrong_in_some_life(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of the first two hundred; golden cases notice it, too (test_mutants.py)."""
    mutant, wrong = MUTANTS[name], _SHOWN_BY.get(name, _wrong_in_order)
    monkeypatch.setattr(reference, mutant.function, mutant.mistake)

    assert any(wrong(seed) for seed in range(1, 201))


def test_every_mutant_has_its_name() -> None:
    """None is left out under a name that the list does not have."""
    assert {*_SHOWN_BY, *_NOT_SHOWN} <= {*MUTANTS}
    assert not {*_SHOWN_BY} & {*_NOT_SHOWN}


def test_the_table_is_its_database_at_every_event() -> None:
    """Whatever was sent again, and however it was cut; by seed."""
    assert _failing(_wrong_in_order) == {}


def test_a_restored_database_is_read_behind_whatever_was_truncated() -> None:
    """Its rows have lower positions than what was before, and come again as they were, the truncates too; by seed."""
    assert _failing(partial(_wrong_in_order, restored=True)) == {}


def test_partitions_may_be_read_at_any_speed() -> None:
    """In the end the table is the same; by seed."""
    assert _failing(_wrong_out_of_order) == {}


@pytest.mark.parametrize("wrong", _WHERE_TRANSACTIONS_LAST)
def test_transactions_may_stay_open_while_rows_are_read(wrong: Callable[[int], str]) -> None:
    """Their changes come behind snapshots that have not seen them, from lower positions; by seed."""
    assert _failing(wrong) == {}


@pytest.mark.parametrize("wrong", _WHERE_JUDGED)
def test_a_contract_leaves_the_last_good_row(wrong: Callable[[int], str]) -> None:
    """And what a change leaves out is that of the row that is held, not of the one that is shown; by seed."""
    assert _failing(wrong) == {}


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        ("judged", lambda _, after, __: after),
        ("judged", lambda before, after, passes: after if passes(after.row) else before),
    ],
    ids=["what is held is shown", "what is held is forgotten"],
)
def test_each_rule_about_contracts_is_needed(monkeypatch: pytest.MonkeyPatch, rule: str, mistake: object) -> None:
    """Without it some life shows other rows."""
    monkeypatch.setattr(reference, rule, mistake)

    assert any(_wrong_in_order(seed, judged=True) for seed in range(1, 51))


@pytest.mark.parametrize("wrong", _WHERE_COLUMNS_CHANGE)
def test_columns_may_come_and_go(wrong: Callable[[int], str]) -> None:
    """What a message does not have stays, also where a key change has left it out before; by seed."""
    assert _failing(wrong) == {}


@pytest.mark.parametrize("wrong", _WHERE_COLUMNS_CHANGE)
@pytest.mark.parametrize(
    "name", ["an absent column is NULL", "what a key change left out ends under a writer without the column"]
)
def test_each_rule_about_columns_is_needed(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[[int], str]
) -> None:
    """Without it some life shows other rows."""
    mutant = MUTANTS[name]
    monkeypatch.setattr(reference, mutant.function, mutant.mistake)

    assert any(wrong(seed) for seed in range(1, 51))


_MOVED_BEHIND_A_SNAPSHOT = (
    Message(0, 1, "r", 4, {"note": "A"}, (400, 400), streaming=False),
    Message(0, 3, "d", 6, None, (120, 200)),
    Message(0, 4, "tombstone", 6),
    Message(0, 5, "c", 4, {"note": UNAVAILABLE}, (120, 200)),
)
_MOVED_AND_FOLLOWED = (
    Message(0, 0, "c", 6, {"note": "A"}, (50, 100)),
    Message(0, 2, "r", 6, {"note": "B"}, (400, 400), streaming=False),
    Message(0, 6, "c", 6, {"note": "B"}, (120, 210)),
)


@pytest.mark.parametrize("cut", [1, 2, 7])
@pytest.mark.parametrize(
    ("more", "rows"),
    [((), {4: {"note": "A"}}), (_MOVED_AND_FOLLOWED, {4: {"note": "A"}, 6: {"note": "B"}})],
    ids=["the old key's row is not there", "the old key is another row's"],
)
def test_a_row_that_was_read_ahead_keeps_what_its_insert_leaves_out(
    more: tuple[Message, ...], rows: dict[int, Row], cut: int
) -> None:
    """The stream tells of a key change from before the snapshot, whose delete ends another row than that one, or none.

    As long as nothing has ended what was read.
    """
    log = sorted((*_MOVED_BEHIND_A_SNAPSHOT, *more), key=lambda message: message.offset)
    table = Table()
    for at in range(0, len(log), cut):
        table.take(log[at : at + cut])

    assert table.rows() == rows


def test_the_rule_about_what_was_read_ahead_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it some life shows other rows."""
    monkeypatch.setattr(reference, "is_behind_reading", lambda *_: False)

    assert any(_wrong_in_order(seed) for seed in range(1, 101))


def test_deletes_without_a_place_come_to_the_same() -> None:
    """Whatever was sent again: what comes behind such a delete comes again too; by seed."""
    seeds = range(_FIRST, _FIRST + max(25, _SEEDS // 10))

    assert {seed: fault for seed in seeds if (fault := _wrong_without_places(seed))} == {}


@pytest.mark.parametrize(("seed", "changes"), [(1524, 50), (1199, 80), (2468, 80)])
def test_a_copy_brings_what_it_copies_to_its_end(seed: int, changes: int) -> None:
    """In the order in which it came; a copy that left out a delete, or mixed two orders, would be no topic's."""
    assert not _wrong_without_places(seed, changes)


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [("forgotten", lambda state: state), ("with_reached", lambda found: [message for message, _ in found])],
)
def test_each_rule_about_them_is_needed(monkeypatch: pytest.MonkeyPatch, rule: str, mistake: object) -> None:
    """Without it some life ends otherwise."""
    monkeypatch.setattr(reference, rule, mistake)

    assert any(_wrong_without_places(seed) for seed in range(1, 51))


@pytest.mark.parametrize("option", [{}, {"columns_change": True}, {"lasting": True}], ids=str)
def test_the_model_tells_of_every_row_that_the_database_has(option: dict[str, Any]) -> None:
    """The oracle's own oracle: what is shown is what the database has, and rows whose end nobody told.

    Of those there are none before the connector loses its place.
    """
    for seed in range(_FIRST, _FIRST + _SEEDS):
        history, goes_on = History(seed, _CHANGES, returns=seed % 3 == 0, **option), True
        while goes_on:
            goes_on = history.step()
            assert not history.missing, seed
            assert history._era or not history.ghosts, seed
        events = history.events
        rows = {key: {**history._shown[key], **row} for key, row in history._rows.items()}
        assert table_after(events, len(events)) == rows | history.ghosts, seed
