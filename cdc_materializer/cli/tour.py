"""What `cdcm demo` shows on a terminal: what it did, what it found, and what to try next, in plain words."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from cdc_materializer.cli.output import NEXT_STEPS, now
from cdc_materializer.report.terminal import render

if TYPE_CHECKING:
    from cdc_materializer.demo import DemoReport, HeldRow, MirrorProof
    from cdc_materializer.report.models import RunReport


_PROVEN = "`cdcm verify` folded every message again, from the first, and compared the result with the mirrors:"
_NOT_AGAIN = "Nothing new had come, so nothing was verified again; `cdcm verify` does it whenever you like."


def tour(found: "DemoReport", here: Path) -> RenderableType:
    """Return the demo's story.

    Args:
        found: what the demo did.
        here: the folder that the user is in, which the printed commands start from.
    """
    return Group(*_parts(found, here))


def _parts(found: "DemoReport", here: Path) -> Iterator[RenderableType]:
    yield from _chapter("1. The run", _what_ran(found))
    yield render(_without_codes(found.run), now=now(), steps=NEXT_STEPS)
    failed = [run for run in found.run.tables if run.error]
    if not failed:
        yield from _chapter("2. What was held back, and why", "")
        yield from _stories(found)
        yield _text("`cdcm report` says the same, for whoever has to act on it:")
        yield Text("")
        yield render(found.violations, now=now(), steps=NEXT_STEPS)
    yield from _chapter("3. The proof", _PROVEN if found.verify is not None else _NOT_AGAIN)
    if found.verify is not None:
        yield render(found.verify, now=now(), steps=NEXT_STEPS)
    yield _text("The database's own answer, recorded when the topics were, beside the mirrors:")
    yield _proofs(found.truth)
    kept = [f"{proof.table} {name}" for proof in found.truth for name in proof.extra_columns]
    if kept:
        yield _text(
            "The database dropped or renamed these columns on the way; a mirror keeps what it once had: "
            + ", ".join(kept)
            + "."
        )
    yield from _verdict(found)
    yield from _chapter("Try next", "")
    yield _next(found, here)


def _without_codes(run: "RunReport") -> "RunReport":
    """A run's report without violation codes: who sees them the first time reads the stories first."""
    return run.model_copy(update={"tables": [table.model_copy(update={"violations": {}}) for table in run.tables]})


def _stories(found: "DemoReport") -> Iterator[RenderableType]:
    held = [row for proof in found.truth for row in proof.held]
    messages = found.violations.totals.held_open
    if not held:
        yield _text("Nothing: every message got through.")
        return
    yield _text(
        f"{messages} messages of {_rows(len(held))} were not let through. Nothing is lost: each message is in its "
        "raw table, and readers go on seeing the row's last good version until a good one comes."
    )
    # The contract's first: the others are the database's doing, not what the contract was written for.
    yield from (_held(row) for row in sorted(held, key=lambda row: row.rule is None))


def _chapter(title: str, words: str) -> Iterator[RenderableType]:
    yield Text("")
    yield Rule(Text(title, style="bold"), align="left", style="dim")
    if words:
        yield _text(words)


def _text(words: str) -> RenderableType:
    return Padding(Text(words), (1, 0, 0, 0), expand=False)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _what_ran(found: "DemoReport") -> str:
    read = sum(run.read for run in found.run.tables)
    if not read:
        return "Nothing new had come since the last time, so nothing was read and nothing was committed."
    return (
        f"{read} messages that Debezium recorded from a real PostgreSQL (inserts, updates, deletes, key changes, "
        "columns that came, went and changed their type, and a range that was sent twice after a crash) are now "
        f"{len(found.run.tables)} Iceberg tables. Held is what was not let through; other is what a later change "
        "overtook, what was sent twice, and what changes no row:"
    )


def _proofs(proofs: "list[MirrorProof]") -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for name in ("mirror", "rows in the database", "equal", "held back", "wrong"):
        table.add_column(name, justify="left" if name == "mirror" else "right")
    for proof in proofs:
        wrong = Text(str(len(proof.wrong)), style="red" if proof.wrong else "green")
        held = Text(str(len(proof.held)), style="yellow" if proof.held else "")
        table.add_row(proof.table, str(proof.rows), str(proof.equal), held, wrong)
    return Padding(table, (1, 0, 0, 2), expand=False)


def _held(row: "HeldRow") -> RenderableType:
    name = Text.assemble((f"{row.table}, id {row.key}", "bold"), (f"  {row.rule or row.code}", "yellow"))
    return Padding(Group(name, Text(row.why)), (1, 0, 0, 2), expand=False)


def _verdict(found: "DemoReport") -> Iterator[RenderableType]:
    rows, equal = sum(proof.rows for proof in found.truth), sum(proof.equal for proof in found.truth)
    held = sum(len(proof.held) for proof in found.truth)
    wrong = [f"{proof.table} {key}" for proof in found.truth for key in proof.wrong]
    if wrong:
        yield _text(f"These rows differ from the database and should not: {', '.join(wrong)}.")
    else:
        words = f"{equal} of {rows} rows equal the database value by value, {held} wait in quarantine, none is wrong."
        yield Padding(Text(words, style="bold green"), (1, 0, 0, 0), expand=False)


def _next(found: "DemoReport", here: Path) -> RenderableType:
    folder = shlex.quote(os.path.relpath(Path(found.folder).resolve(), here))
    where = f"The tables are in {folder}/lake; any engine that reads Iceberg can open them."
    page = _command(f"{folder}/{Path(found.page).name}")
    steps = [part for step in found.next for part in (_command(step.command), _note(step.shows))]
    shown = _note("open it in a browser: the report as a page to send on, which loads nothing and links nowhere")
    return Group(Text(""), page, shown, *steps, Text(""), Text(where, style="dim"))


def _command(words: str) -> Text:
    # Never broken into lines: it is there to be copied.
    return Text(f"  {words}", style="bold cyan", no_wrap=True, overflow="ignore")


def _note(words: str) -> RenderableType:
    return Padding(Text(words, style="dim"), (0, 0, 0, 4), expand=False)
