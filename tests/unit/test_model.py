"""The reference fold against the model database, for every cut and interleaving that a seed gives.

A hundred seeds in a run of seconds; `make test` asks for two thousand by CDCM_SEEDS. With CDCM_TESTS=all lives are
longer too. CDCM_SEED=17 begins with that one.
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
from tests.model.history import CHANGING, History, Rows, Sent, decoded, lives, table_after, topic
from tests.model.judged import good_after, passes
from tests.model.mutants import MUTANTS
from tests.model.reference import Message, Row, Table

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST = int(os.environ.get("CDCM_SEED", "1"))
_SEEDS = int(os.environ.get("CDCM_SEEDS", "3000" if _ALL else "100"))
_CHANGES = 80 if _ALL else 50
_PINNED: tuple[int, ...] = ()


def _life(
    seed: int, *, alone: bool = False, columns_change: bool = False, restored: bool = False, judged: bool = False
) -> tuple[History, list[Sent]]:
    # Of every third life, keys change to such as were there before.
    history = History(seed, _CHANGES, columns_change=columns_change, restored=restored, returns=seed % 3 == 0)
    # In another partition than a truncate's nothing but its position says that a row is from before that. And of a key
    # that moves while the stream is behind a snapshot, the last good version is what was read of it until then (ADR 7).
    partitions = (1, 1) if restored else ((1, 1), (3, 3))[seed % 2] if judged else None
    return history, topic(history.live(), seed, alone=alone, partitions=partitions)


def _partitions(messages: list[Sent]) -> int:
    return len({message.partition for message in messages})


def _whole(rows: Mapping[Any, Row]) -> Rows:
    """Rows with all columns; one that no message has told of a row is NULL."""
    return {key: {name: row.get(name) for name in CHANGING} for key, row in rows.items()}


def _table(messages: list[Sent], *, judged: bool) -> Table:
    partitions = _partitions(messages)
    return Table(partitions=partitions, passes=passes) if judged else Table(partitions=partitions)


def _wrong_in_order(seed: int, *, columns_change: bool = False, restored: bool = False, judged: bool = False) -> str:
    """What is wrong after some batch."""
    history, messages = _life(seed, columns_change=columns_change, restored=restored, judged=judged)
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


def _wrong_out_of_order(seed: int, *, columns_change: bool = False, judged: bool = False) -> str:
    """What is wrong at the end, where partitions are read at unequal speed, and a copy may begin with a tombstone."""
    history, messages = _life(seed, alone=True, columns_change=columns_change, judged=judged)
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


def test_the_table_is_its_database_at_every_event() -> None:
    """Whatever was sent again, and however it was cut; by seed."""
    assert _failing(_wrong_in_order) == {}


def test_a_restored_database_is_read_behind_whatever_was_truncated() -> None:
    """Its rows have lower positions than what was before, and come again as they were, the truncates too; by seed."""
    assert _failing(partial(_wrong_in_order, restored=True)) == {}


@pytest.mark.parametrize(
    "name", ["a truncate ends what is behind it, by its position", "a truncate that is sent again is another one"]
)
def test_each_rule_about_that_is_needed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Without it some life shows other rows."""
    mutant = MUTANTS[name]
    monkeypatch.setattr(reference, mutant.function, mutant.mistake)

    assert any(_wrong_in_order(seed, restored=True) for seed in range(1, 101))


def test_partitions_may_be_read_at_any_speed() -> None:
    """In the end the table is the same; by seed."""
    assert _failing(_wrong_out_of_order) == {}


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


def test_deletes_without_a_place_come_to_the_same() -> None:
    """Whatever was sent again: what comes behind such a delete comes again too; by seed."""
    seeds = range(_FIRST, _FIRST + max(25, _SEEDS // 10))

    assert {seed: fault for seed in seeds if (fault := _wrong_without_places(seed))} == {}


@pytest.mark.parametrize(("seed", "changes"), [(1524, 50), (1199, 80), (2468, 80)])
def test_a_copy_brings_what_it_copies_to_its_end(seed: int, changes: int) -> None:
    """In the order in which it came; a copy that left out a delete, or mixed two orders, would be no topic's."""
    assert not _wrong_without_places(seed, changes)


@pytest.mark.parametrize(("rule", "mistake"), [("forgotten", lambda state: state), ("with_reached", list)])
def test_each_rule_about_them_is_needed(monkeypatch: pytest.MonkeyPatch, rule: str, mistake: object) -> None:
    """Without it some life ends otherwise."""
    monkeypatch.setattr(reference, rule, mistake)

    assert any(_wrong_without_places(seed) for seed in range(1, 51))


@pytest.mark.parametrize("columns_change", [False, True])
def test_the_model_tells_of_every_row_that_the_database_has(columns_change: bool) -> None:  # noqa: FBT001 - a case
    """The oracle's own oracle: what is shown is what the database has, and rows whose end nobody told."""
    for seed in range(_FIRST, _FIRST + _SEEDS):
        history = History(seed, _CHANGES, columns_change=columns_change)
        events = history.live()
        assert not history.missing, seed
        rows = {key: {**history._shown[key], **row} for key, row in history._rows.items()}
        assert table_after(events, len(events)) == rows | history.ghosts, seed
