"""JSON in snapshot summaries, read strictly: what is not exactly as it was written is refused, never guessed."""

import json
import re
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from cdc_materializer.errors import InvariantBroken

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_V = TypeVar("_V")


def write(values: Mapping[int, int] | Mapping[int, str] | Mapping[str, int] | Mapping[str, str]) -> str:
    """Return a JSON object with its keys in order: equal values give equal text."""
    return write_json(dict(sorted(values.items())))


def write_json(value: object) -> str:
    """Return JSON without spaces, objects in the order that they have."""
    return json.dumps(value, separators=(",", ":"))


def read_partitions(text: str, read: Callable[[object], _V]) -> dict[int, _V]:
    """Read a JSON object whose keys are partition numbers."""
    return {as_number(key, "partition"): read(value) for key, value in read_object(text).items()}


def read_object(text: str) -> dict[str, object]:
    """Read a JSON object and refuse a key that is there twice: which of the two held would be a guess."""
    try:
        loaded = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        refuse("a value that is not JSON")
    return loaded if isinstance(loaded, dict) else refuse("a value that is no JSON object")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(pairs) if len(dict(pairs)) == len(pairs) else refuse("a key twice")


def read_offsets(found: Mapping[str, object]) -> dict[int, int]:
    """Read offsets by partition from a JSON object."""
    return {as_number(partition, "partition"): as_offset(offset) for partition, offset in found.items()}


def as_offset(value: object) -> int:
    """Return a whole number from zero up."""
    return value if type(value) is int and value >= 0 else refuse("a number that is none")


def as_text(value: object) -> str:
    """Return a text."""
    return value if isinstance(value, str) else refuse("a text that is none")


def as_microseconds(value: object) -> int:
    """Return a whole number."""
    return value if type(value) is int else refuse("a time that is no number")


def as_number(text: str, name: str) -> int:
    """Return the number that a text is."""
    return int(text) if _NUMBER.fullmatch(text) else refuse(f"a `{name}` that is no number")


def refuse(fault: str) -> NoReturn:
    """Raise InvariantBroken: the fault is in something that only we write."""
    raise InvariantBroken(
        f"The table's marker has {fault}: a snapshot's summary was changed by someone else, or this is a bug.",
        "Nothing was written; do not change `cdcm.` properties of snapshots by hand.",
    )
