"""A database that lives, and its mirrors that follow it: what the tests of every database have in common."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    """What there is when a database and its mirrors have come to rest.

    Attributes:
        pipeline: the mirrors; one is named ``<encoding>.<table>``.
        document: what `cdcm run --follow` said at its end, and its exit code.
        ask: asks the database for a table.
        encoding: that of the mirrors which `verified` is about; one of two, as it takes seconds a mirror.
    """

    pipeline: Pipeline
    document: dict[str, Any]
    ask: Callable[[str], Said]
    encoding: str = "avro"

    def differences(self, encoding: str, table: str) -> dict[str, Any]:
        """Where a mirror differs from the table in the database, by key; empty where it does not."""
        said = self.ask(table)
        return differences(said.columns, said.key, said.rows, self.pipeline.rows(f"{encoding}.{table}"))

    def held(self, encoding: str, table: str) -> list[tuple[int, str, str | None]]:
        """Offset, code and column of each violation of a mirror."""
        return [(row["offset"], row["code"], row["column"]) for row in self.pipeline.quarantine(f"{encoding}.{table}")]

    @cached_property
    def verified(self) -> dict[str, dict[str, Any]]:
        """What `cdcm verify` finds, by table."""
        mirrors = [str(table.mirror) for table in self.pipeline.config.tables]
        wanted = [name for mirror in mirrors if mirror.startswith(f"{self.encoding}.") for name in ("--table", mirror)]
        done = self.pipeline.run("verify", *wanted)
        assert done.stdout, done.stderr
        return {table["table"].partition(".")[2]: table for table in json.loads(done.stdout)["tables"]}

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


def follow(
    pipeline: Pipeline,
    changes: Sequence[Callable[[], None]],
    deliver: Callable[[], None],
    ask: Callable[[str], Said],
    encoding: str,
) -> Live:
    """Let changes happen while `cdcm run --follow` runs, and return when all is still.

    Args:
        pipeline: the mirrors of topics that exist already.
        changes: run one after another; some mirror is published after each.
        deliver: returns when all that is committed is in its topics.
        ask: asks the database for a table.
        encoding: see `Live`.
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
        return Live(pipeline, follower.stop(), ask, encoding)
    finally:
        follower.kill()
