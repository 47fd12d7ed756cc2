"""Random lives of several source tables that one topic carries, as messages of golden cases.

Each table has rows of its own, whose keys are those of the others too: nothing but `source.table` tells them apart.
Each is emptied now and then, leaves long texts out that did not change, and after a crash has its last messages sent
once more.
"""

import random
from typing import Any

from tests.cases.case import Case

UNAVAILABLE = "__debezium_unavailable_value"
_KEYS, _AGAIN_MAX = 4, 5


def routed_case(seed: int, changes: int, *, cut: int = 1, deletes: str = "hard", partitions: int = 1) -> Case:
    """A case of so many changes of two or three tables, to be sent in two steps."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    messages = _messages(chance, changes, partitions)
    half = chance.randrange(1, len(messages))
    data = {
        "about": "Random lives of several tables in one topic.",
        "key": {"id": "int64"},
        "columns": {"id": "int64", "name": "optional string", "note": "optional string"},
        "table": {} if deletes == "hard" else {"deletes": deletes},
        "cut": cut,
        "messages": messages[:half],
        "then": [{"messages": messages[half:]}],
    }
    return Case(f"routed_{seed}", seed, data, ({"rows": []}, {"rows": []}), None)


def _messages(chance: random.Random, changes: int, partitions: int) -> list[dict[str, Any]]:
    tables = "abc"[: chance.choice((2, 2, 3))]
    live: set[tuple[str, int]] = set()
    sent: list[dict[str, Any]] = []
    for at in range(changes):
        table, key, choice = chance.choice(tables), chance.randrange(_KEYS), chance.random()
        place = {"lsn": 100 * (at + 1), "source": {"table": table}, "partition": key % partitions}
        row = {"id": key, "name": f"{table}{at}", "note": f"note {at}"}
        if choice < 0.06:
            live = {one for one in live if one[0] != table}
            sent.append({"op": "t", "key": None, **place, "partition": 0})
        elif (table, key) not in live:
            live.add((table, key))
            sent.append({"op": "c", "after": row, **place})
        elif choice < 0.4:
            live.remove((table, key))
            sent.append({"op": "d", "key": key, **place})
            sent += [{"tombstone": True, "key": key, "partition": key % partitions}] if chance.random() < 0.8 else []
        else:
            sent.append({"op": "u", "after": row | ({"note": UNAVAILABLE} if choice < 0.7 else {}), **place})
        if chance.random() < 0.07:
            sent += sent[-chance.randint(1, _AGAIN_MAX) :]
    return sent
