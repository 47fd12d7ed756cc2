"""Ways to get the fold wrong, each with the golden cases that notice. The list is the test.

A mutant replaces one function of the reference fold. Where the same mistake can be made in the product by replacing one
function, `tests/spark/test_mutants.py` has it under the same name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.model import partitions, reference
from tests.model.messages import UNAVAILABLE, From, Message, Position, Row
from tests.model.reference import KeyState

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Mutant:
    """One mistake: the function of the reference that it replaces, by what, and the cases (numbers) that catch it."""

    function: str
    mistake: Callable[..., Any]
    caught_by: tuple[int, ...]


def _ranked(messages: Iterable[Message]) -> list[Message]:
    """Messages of one moment in the order of their operations: the delete last."""
    ranks = {"c": 0, "r": 1, "u": 2, "d": 3, "tombstone": 4}
    return sorted(messages, key=lambda one: (one.source_ms, ranks.get(one.op or "", 9)))


def _by_source_time(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda one: (one.source_ms, one.offset))


def _lexical(message: Message, state: KeyState) -> bool:
    here = _mark(message)
    if here is None or state.highest is None or here == state.highest:
        return _is_replay(message, state)
    return [str(part) for part in here] < [str(part) for part in state.highest]


def _change_alone(message: Message) -> Position | None:
    """Order by the last part of the position, as if a change's LSN rose from one transaction to the next."""
    here = _mark(message)
    return None if here is None else here[-1:]


def _snapshots_count(message: Message) -> Position | None:
    return None if message.op is None else message.position


def _sentinel(_: KeyState, message: Message, column: str) -> Any:  # noqa: ANN401 - any value of a row
    value = (message.image or {})[column]
    return PLACEHOLDER if value is UNAVAILABLE else value


def _nothing(_: KeyState, message: Message, column: str) -> Any:  # noqa: ANN401 - any value of a row
    value = (message.image or {})[column]
    return None if value is UNAVAILABLE else value


def _own_key(state: KeyState, message: Message, column: str) -> Any:  # noqa: ANN401 - any value of a row
    value = _told(state, message, column)
    return (state.row or {}).get(column) if isinstance(value, From) else value


def _forgotten(_: KeyState) -> KeyState:
    return KeyState()


def _kept(state: KeyState) -> KeyState:
    return replace(state, published=None, wrote=None)


def _drops_snapshots(message: Message, state: KeyState) -> bool:
    here = _snapshots_count(message)
    return _is_replay(message, state) or (here is not None and state.highest is not None and here < state.highest)


def _takes_readings(message: Message, state: KeyState) -> bool:
    return message.op != "r" and _is_replay(message, state)


def _at_position_only(message: Message, state: KeyState) -> bool:
    """Two changes of one row at one position are one, whatever they say."""
    here = _mark(message)
    return here is not None and state.highest is not None and here <= state.highest


def _ranked_at_position(message: Message, state: KeyState) -> bool:
    """At one position a delete comes first, whatever was sent."""
    here = _mark(message)
    is_level = here is not None and here == state.highest and message.op in {"d", "tombstone"}
    return is_level or _is_replay(message, state)


def _as_it_stands(position: Position) -> Position:
    return position


def _never(*_: object) -> bool:
    return False


def _no_high_water(state: KeyState, _: Message) -> KeyState:
    return state


def _absent_is_null(state: KeyState, message: Message) -> KeyState:
    """A column that the image does not have becomes NULL."""
    base = {} if state.row is None else dict.fromkeys(state.row)
    return replace(_started(state, message), row=base)


def _left_out_ends(state: KeyState, message: Message) -> KeyState:
    """A column that the image does not have loses what a key change has left out of it."""
    found, image = _after_row(state, message), message.image or {}

    def kept(row: dict[str, Any] | None) -> dict[str, Any] | None:
        lost = {name: None for name, value in (row or {}).items() if isinstance(value, From) and name not in image}
        return None if row is None else row | lost

    return replace(found, published=kept(found.published), row=kept(found.row))


def _as_it_was(state: KeyState, *_: Message) -> KeyState:
    return state


def _by_offset(message: Message, truncate: Message) -> bool:
    return message.partition == truncate.partition and message.offset < truncate.offset


def _by_position(message: Message, truncate: Message, **_: bool) -> bool:
    return _is_wiped(message, truncate)


def _by_its_time(message: Message, truncate: Message, **_: bool) -> bool:
    return _is_ended(message, truncate)


def _everything(_: Message, __: Message) -> bool:
    return True


def _of_any_table(message: Message, truncate: Message) -> bool:
    return _is_wiped(replace(message, table=None), truncate)


def _for_good(state: KeyState, message: Message) -> KeyState:
    return state if state.owned is not None else replace(state, owned=message)


def _no_position(tombstone: Message, _: Message | None) -> Message:
    return tombstone


def _without_places(messages: Iterable[Message]) -> list[tuple[Message, bool]]:
    known = list(messages)
    as_sent = {(one.partition, one.offset): one for one in known}
    return [(as_sent[one.partition, one.offset], is_own) for one, is_own in _with_deletes(known)]


def _before_is_identity(message: Message) -> Any:  # noqa: ANN401 - a key
    return message.key if message.before is None else _first_of(message.before, message.key)


def _value_is_identity(message: Message) -> Any:  # noqa: ANN401 - a key
    return message.key if message.image is None else _first_of(message.image, message.key)


def _first_of(row: Row, key: Any) -> Any:  # noqa: ANN401 - a key
    """As many values of a row as its key has; a key may be one value alone."""
    values = tuple(row.values())
    if key is None:
        return None
    return values[: len(key)] if isinstance(key, tuple) else values[0]


def _by_offset_alone(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda one: (one.offset, one.partition))


_mark, _is_replay, _told, _started = reference.mark, reference.is_replay, reference.told, reference.started
_with_deletes = partitions.with_deletes
_is_wiped, _is_ended, _after_row = reference.is_wiped, reference.is_ended, reference.after_row

#: By what was got wrong.
MUTANTS: Mapping[str, Mutant] = {
    "operations are ranked": Mutant("as_sent", _ranked, (8, 72, 75)),
    "messages are ordered by the source's time": Mutant("as_sent", _by_source_time, (30, 72)),
    "positions are compared as text": Mutant(
        "is_replay", _lexical, (13, 90, 93, 95, 96, 97, 649, 739, 740, 741, 742, 743, 744)
    ),
    "a change's own number is its position": Mutant("mark", _change_alone, (13, 92)),
    "the placeholder is stored": Mutant("told", _sentinel, (5, 7, 80, 81, 82, 83)),
    "an unavailable value is NULL": Mutant("told", _nothing, (5, 7)),
    "a key change looks for the value in the new key's row": Mutant("told", _own_key, (5, 6)),
    "the high-water mark goes with a deleted row": Mutant(
        "after_delete", _forgotten, (12, 90, 483, 652, 657, 660, 739, 740, 741, 742, 743, 744, 745)
    ),
    "a delete leaves its values to a later row": Mutant("after_delete", _kept, (8,)),
    "there is no high-water mark": Mutant("with_high_water", _no_high_water, (12, 72, 110)),
    "nothing is sent again": Mutant("is_replay", _never, (12, 72, 73, 110)),
    "one position is one event": Mutant("is_replay", _at_position_only, (73,)),
    "at one position a delete comes first, whatever was sent": Mutant("is_replay", _ranked_at_position, (220,)),
    "what another server sends again is new": Mutant("is_copy", _never, (404, 407)),
    "rows number the changes of a transaction": Mutant("moment", _as_it_stands, (220,)),
    "a key change takes from its old key whatever has it": Mutant("is_behind_reading", _never, (699,)),
    "a reading that is sent again is a new one": Mutant("is_replay", _takes_readings, (221,)),
    "a snapshot's position is held against a transaction's": Mutant("reach", _as_it_stands, (113, 222)),
    "snapshot rows are dropped by position": Mutant("is_replay", _drops_snapshots, (103, 110)),
    "snapshot rows set the high-water mark": Mutant("mark", _snapshots_count, (3, 101)),
    "an absent column is NULL": Mutant("started", _absent_is_null, (9, 112)),
    "what a key change left out ends under a writer without the column": Mutant("after_row", _left_out_ends, (482,)),
    "a truncate wipes by offset": Mutant("is_wiped", _by_offset, (104,)),
    "a truncate ends what is behind it, by its position": Mutant("is_ended", _by_position, (513, 514, 516, 517)),
    "a reading that is copied behind a truncate is new": Mutant("is_ended", _by_its_time, (517,)),
    "a truncate that is sent again is another one": Mutant("was_truncated", _never, (517,)),
    "a truncate wipes everything": Mutant("is_wiped", _everything, (27, 104)),
    "a tombstone is not its delete's": Mutant("with_position_of_its_delete", _no_position, (72,)),
    "a tombstone in another partition is no delete's": Mutant("with_deletes", _without_places, (727,)),
    "an unreadable message told nothing": Mutant("after_unread", _as_it_was, (43,)),
    "an unreadable message is new when it comes again": Mutant("shown_again", _as_it_was, (780,)),
    "a key is anybody's": Mutant("collides", _never, (161, 162)),
    "a key is its first table's for good": Mutant("with_owner", _for_good, (161, 162)),
    "a truncate wipes the rows of all tables": Mutant("is_wiped", _of_any_table, (163,)),
    "before is the identity": Mutant("identity", _before_is_identity, (70,)),
    "the row is the identity": Mutant("identity", _value_is_identity, (33,)),
    "offsets order partitions": Mutant("in_order", _by_offset_alone, (57,)),
}
