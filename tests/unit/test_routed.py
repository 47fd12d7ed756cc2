"""The reference fold of topics that carry several source tables."""

import pytest

from tests.model.golden import Reading
from tests.model.messages import Key, Message, Row
from tests.model.reference import KeyState, Table, collides
from tests.model.routed import routed_case

_SEEDS = range(200)


def _rows(reading: Reading, messages: list[Message], cut: int) -> dict[Key, Row]:
    table = reading.table(messages)
    for at in range(0, len(messages), cut):
        table.take(messages[at : at + cut])
    return dict(table.rows())


@pytest.mark.parametrize("partitions", [1, 2])
def test_any_cut_of_a_routed_topic_gives_the_same_rows(partitions: int) -> None:
    """Whose row a key is does not depend on where batches end, with truncates and re-sent messages among them."""
    for seed in _SEEDS:
        reading = Reading(routed_case(seed, 40, partitions=partitions))
        *_, messages = reading.steps()
        whole = _rows(reading, messages, len(messages))

        assert [_rows(reading, messages, cut) for cut in (1, 2, 7)] == [whole] * 3, f"seed {seed}"


def test_random_lives_of_several_tables_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lives would prove nothing if their tables never met at a key."""
    met: list[bool] = []

    def noted(state: KeyState, message: Message) -> bool:
        met.append(collides(state, message))
        return met[-1]

    monkeypatch.setattr("tests.model.reference.collides", noted)
    for seed in _SEEDS:
        reading = Reading(routed_case(seed, 40))
        *_, messages = reading.steps()
        Table().take(messages)

    assert 0.1 < sum(met) / len(met) < 0.6
