"""The reference fold against servers that replace each other, for every cut that a seed gives.

CDCM_SEEDS says how many seeds; CDCM_SEED=17 begins with that one.
"""

import os
import random

import pytest

from tests.model import reference
from tests.model.failover import life, sent
from tests.model.reference import Table

_FIRST = int(os.environ.get("CDCM_SEED", "1"))
_SEEDS = int(os.environ.get("CDCM_SEEDS", "3000" if os.environ.get("CDCM_TESTS") == "all" else "60"))


def _wrong(seed: int, partitions: int = 1) -> str:
    """What is wrong after some batch, each of which crashes once before it is published."""
    messages = list(sent(life(seed, 25, truncates=partitions == 1), seed, partitions))
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    table, at = Table(partitions=partitions), 0
    while at < len(messages):
        batch = messages[at : at + chance.choice((1, 4, 20))]
        table.copy().take(one.message for one in batch)
        table.take(one.message for one in batch)
        at += len(batch)
        if table.rows() != batch[-1].rows:
            return f"after {at} messages"
    return ""


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_row_never_goes_back_when_another_server_sends_its_changes_again(partitions: int) -> None:
    """Nor does a truncate end rows that were written behind it; by seed."""
    seeds = range(_FIRST, _FIRST + _SEEDS)

    assert {seed: fault for seed in seeds if (fault := _wrong(seed, partitions))} == {}


@pytest.mark.parametrize(
    ("owner", "rule", "mistake"),
    [
        (reference, "is_copy", lambda *_: False),
        (reference, "file_of", lambda _: None),
        (Table, "_truncates_again", lambda *_: []),
    ],
)
def test_each_rule_about_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, owner: object, rule: str, mistake: object
) -> None:
    """Without it some life shows an older row."""
    monkeypatch.setattr(owner, rule, mistake)

    assert any(_wrong(seed) for seed in range(1, 41))
