"""A database that lives, and its mirrors that follow it: what the tests of every database have in common."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from integration.chain.pipeline import Follower, Pipeline
from integration.chain.values import Column, Row, differences

#: Where a message can end; see design §4.6.
OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")


@dataclass(frozen=True)
class Said:
    """What a database says of a table: its columns, the names of those of its key, its rows."""

    columns: list[Column]
    key: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Live:
    """What there is when databases and their mirrors have come to rest.

    Attributes:
        pipeline: the mirrors.
        document: what `cdcm run` said at its end, and its exit code.
        ask: asks the database what a mirror, named ``<namespace>.<table>``, has to hold.
    """

    pipeline: Pipeline
    document: dict[str, Any]
    ask: Callable[[str], Said]

    @property
    def mirrors(self) -> list[str]:
        """The names of the mirrors."""
        return [str(table.mirror) for table in self.pipeline.config.tables]

    def differences(self) -> dict[str, Any]:
        """Where mirrors differ from their tables in the database, by mirror and key; empty where they do not."""
        found = {}
        for mirror in self.mirrors:
            said = self.ask(mirror)
            found[mirror] = differences(said.columns, said.key, said.rows, self.pipeline.rows(mirror))
        return {mirror: unequal for mirror, unequal in found.items() if unequal}

    def held(self) -> dict[str, list[tuple[int, str, str | None]]]:
        """Offset, code and column of each violation, by mirror; empty where there is none."""
        found = {mirror: self.pipeline.quarantine(mirror) for mirror in self.mirrors}
        return {
            mirror: [(row["offset"], row["code"], row["column"]) for row in rows]
            for mirror, rows in found.items()
            if rows
        }

    def unequal(self, mirrors: Sequence[str] = ()) -> dict[str, Any]:
        """What `cdcm verify` finds wrong, by mirror; all of them for none. It takes seconds a mirror."""
        wanted = mirrors or self.mirrors
        done = self.pipeline.run("verify", *(part for name in wanted for part in ("--table", name)))
        assert done.stdout, done.stderr
        told = {table["table"]: table for table in json.loads(done.stdout)["tables"]}
        assert told.keys() == set(wanted)
        return {
            name: table
            for name, table in told.items()
            if (table["equal"], table["error"], table["places"]) != (True, None, [])
        }

    def failures(self) -> list[tuple[str, Any]]:
        """The tables that the run ended with an error for."""
        return [(table["table"], table["error"]) for table in self.document["tables"] if table["error"] is not None]

    def unaccounted(self) -> list[str]:
        """The tables of which not every message that was read is in exactly one place."""
        tables = self.document["tables"]
        return [table["table"] for table in tables if table["read"] != sum(table[outcome] for outcome in OUTCOMES)]

    def miscounted(self) -> list[tuple[str, int, int, int]]:
        """The tables whose raw has a message twice or lacks one: messages, places of them, and what the topic has."""
        counted = []
        for table in self.pipeline.status():
            raw = self.pipeline.raw(table.table)
            places = {(row["partition"], row["offset"]) for row in raw}
            counted.append((table.table, len(raw), len(places), sum((table.ends or {}).values())))
        return [count for count in counted if not count[1] == count[2] == count[3]]

    def faults(self) -> dict[str, Any]:
        """Everything that is not as it should be, by what it is; empty where all is well."""
        found = {
            "differences": self.differences(),
            "held": self.held(),
            "miscounted": self.miscounted(),
            "failures": self.failures(),
            "unaccounted": self.unaccounted(),
            "exit code": self.document["exit_code"],
        }
        return {name: wrong for name, wrong in found.items() if wrong}


def follow(
    pipeline: Pipeline,
    changes: Sequence[Callable[[], None]],
    deliver: Callable[[], None],
    ask: Callable[[str], Said],
) -> Live:
    """Let changes happen while `cdcm run --follow` runs, and return when all is still.

    Args:
        pipeline: the mirrors of topics that exist already.
        changes: run one after another; some mirror is published after each.
        deliver: returns when all that is committed is in its topics.
        ask: see `Live`.
    """
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.wait_for_progress()
        for change in changes:
            change()
            follower.wait_for_progress()
        deliver()
        follower.catch_up()
        return Live(pipeline, follower.stop(), ask)
    finally:
        follower.kill()
