"""The reference fold against servers that replace each other, for every cut that a seed gives.

Sixty seeds in a run of seconds; `make test` asks for two hundred by CDCM_SEEDS. CDCM_SEED=17 begins with that one.
"""

import os
import random
from collections.abc import Callable
from functools import partial

import pytest

from tests.model import failover, reference
from tests.model.reference import Table

_FIRST = int(os.environ.get("CDCM_SEED", "1"))
#: A life here costs as much as five of the plain ones.
_SEEDS = int(os.environ.get("CDCM_SEEDS", "15000" if os.environ.get("CDCM_TESTS") == "all" else "300")) // 5


def _wrong(seed: int, partitions: int = 1, *, truncates: bool = False, rough: bool = False, moves: bool = False) -> str:
    """What is wrong after some batch, or at the end alone.

    Rows that a truncate ends once more come again behind it, and what comes in several partitions at one time or
    another comes again as it is. A row that key changes come back to in one transaction may, where a server begins in
    its midst.
    """
    changes = failover.life(seed, 25, truncates=truncates, moves=moves)
    messages = list(failover.sent(changes, seed, partitions, rough=rough))
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    table, at = Table(partitions=partitions), 0
    is_exact = partitions == 1 and not truncates and not rough and not moves
    while at < len(messages):
        batch = messages[at : at + chance.choice((1, 4, 20))]
        table.take(one.message for one in batch)
        at += len(batch)
        if (is_exact or at == len(messages)) and table.rows() != batch[-1].rows:
            return f"after {at} messages"
    return ""


def _failing(seeds: range, wrong: Callable[[int], str]) -> dict[int, str]:
    return {seed: fault for seed in seeds if (fault := wrong(seed))}


def test_a_row_never_goes_back_when_another_server_sends_its_changes_again() -> None:
    """However the log is cut; by seed."""
    assert _failing(range(_FIRST, _FIRST + _SEEDS), _wrong) == {}


def test_a_key_change_that_another_server_sends_again_keeps_what_it_left_out() -> None:
    """Also where the first server had sent its delete alone; by seed."""
    assert _failing(range(_FIRST, _FIRST + _SEEDS), partial(_wrong, moves=True)) == {}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("life", [{"truncates": True}, {"rough": True}, {"truncates": True, "rough": True}])
def test_the_table_ends_as_its_database_is(partitions: int, life: dict[str, bool]) -> None:
    """Whatever was lost, or read of servers that lag behind, once a server has sent it all; by seed."""
    wrong = partial(_wrong, partitions=partitions, **life)

    assert _failing(range(_FIRST, _FIRST + _SEEDS // 3), wrong) == {}


_MISTAKES: dict[str, tuple[str, object]] = {
    "what is sent again is new": ("is_copy", lambda *_: False),
    "a transaction is one piece on all servers": ("file_of", lambda _: None),
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_each_rule_about_it_is_needed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Without it some life shows an older row."""
    monkeypatch.setattr(reference, *_MISTAKES[name])

    assert _failing(range(1, 41), _wrong)


def test_what_was_sent_before_may_have_to_be_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it were not, some life would end with an older row."""
    monkeypatch.setattr(reference, "is_copy", lambda message, state, _: reference.repeats(message, state))

    assert _failing(range(1, 41), partial(_wrong, rough=True))
