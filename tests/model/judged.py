"""Random lives under a contract: which row of each key is the last good one, whatever a rule has held since.

The rule is about a column that every change tells, so that it can be asked of the events alone: no fold is needed to
say what a mirror must show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tests.model.history import Event, Row, Rows
from tests.model.telling import Telling

if TYPE_CHECKING:
    from pathlib import Path

#: More than this is held; `qty` is up to 999, or NULL, which no such rule is about.
QTY_MAX = 600


def passes(row: Mapping[str, Any]) -> bool:
    """Whether the rule lets a row be published."""
    return (row.get("qty") or 0) <= QTY_MAX


def good_after(events: Sequence[Event], count: int) -> Rows:
    """The rows that the table must show when the first so many events have been sent: each the last good one."""
    rows: dict[int, tuple[Row, tuple[int, int]]] = {}
    made: dict[int, tuple[int, int]] = {}
    for event in events[:count]:
        if event.key is None:
            # Neither does what is held from behind a truncate keep the good row from before it, nor does a good row of
            # a database that was restored since outlive the one that has replaced it there.
            made = {key: at for key, at in made.items() if at > event.position}
            rows = {key: row for key, row in rows.items() if key in made and row[1] > event.position}
        elif event.shown is None:
            rows.pop(event.key, None)
            made.pop(event.key, None)
        else:
            made[event.key] = event.position
            if passes(event.shown):
                rows[event.key] = event.shown, event.position
    return {key: row for key, (row, _) in rows.items()}


def contract(qty_max: int) -> str:
    """A contract that holds rows with a `qty` above a number."""
    properties = [
        {"name": "id", "logicalType": "integer", "primaryKey": True},
        {"name": "note", "logicalType": "string"},
        {"name": "qty", "logicalType": "integer", "logicalTypeOptions": {"maximum": qty_max}},
    ]
    told = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "lives", "name": "Lives", "version": "1.0.0"}
    return yaml.safe_dump({**told, "status": "active", "schema": [{"name": "lives", "properties": properties}]})


@dataclass
class JudgedTelling(Telling):
    """A table of random lives that a contract judges."""

    qty_max: int = QTY_MAX

    def entry(self) -> dict[str, Any]:
        """As of other lives, and the contract, which `write` puts where pipeline.yaml is."""
        return {**super().entry(), "contract": f"{self.name}.contract.yaml"}

    def write(self, folder: "Path", part: float) -> Rows:
        """Write about that part of the topic and the contract, and return what the table must show then."""
        (folder.parent / f"{self.name}.contract.yaml").write_text(contract(self.qty_max), encoding="utf-8")
        return super().write(folder, part)

    def rows_after(self, reached: int) -> Rows:
        """The good ones; all, where the contract holds none."""
        return good_after(self.events, reached) if self.qty_max == QTY_MAX else super().rows_after(reached)
