"""Terminal view of `cdcm maintain`: what is done with each table, and what it costs."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cdc_materializer.report.layout import failure, new_table, number
from cdc_materializer.report.maintain_models import MaintainedTable, MaintainReport
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.wording import quantity, size


def maintain_view(report: MaintainReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """A row a table that has something to do, and a sentence where none has."""
    table = new_table("table", "files", *_NUMBERS, numbers=_NUMBERS)
    for column in table.columns[2:]:
        column.no_wrap = True  # where there is no room a long name is broken, and no heading
    busy = [found for found in report.tables if _is_busy(found, planned=report.planned)]
    for found in busy:
        table.add_row(found.table, *_rewritten(found), _snapshots(found), _orphans(found, planned=report.planned))
    notes = [Text(f"{found.table}: {line}") for found in report.tables for line in _notes(found, steps)]
    failures = [failure(found.table, found.error) for found in report.tables if found.error]
    idle = len(report.tables) - len(busy)
    rest = f"{quantity(idle, 'table')} {'needs' if idle == 1 else 'need'} nothing." if idle else ""
    if not report.tables:
        rest = steps.in_text("No table is there yet; `cdcm run` makes them.")
    said = "Nothing was changed. " if report.planned else ""
    below = [Text((said + rest).strip(), style="dim")] if said or rest else []
    return Group(*([table] if busy else []), *notes, *below, *failures)


_NUMBERS = ("rewritten", "saved", "snapshots", "orphans")


def _is_busy(found: MaintainedTable, *, planned: bool) -> bool:
    # Looking for orphans and finding none is nothing to show afterwards.
    orphans = found.orphans_due if planned else found.orphans
    return bool(found.rewrite or found.manifests or found.marked or found.snapshots or orphans)


def _rewritten(found: MaintainedTable) -> tuple[str, str, str]:
    if found.rewrite is None:
        return "–", "–", "–"
    step = found.rewrite
    return f"{step.files}+{step.delete_files} → {step.files_after}", size(step.bytes), size(step.saved)


def _snapshots(found: MaintainedTable) -> str:
    before = found.snapshots + found.snapshots_kept
    return f"{number(before)} → {number(found.snapshots_kept)}" if found.snapshots else "–"


def _orphans(found: MaintainedTable, *, planned: bool) -> str:
    if found.orphans is not None:
        return number(found.orphans)
    return "due" if found.orphans_due and planned else "–"


def _notes(found: MaintainedTable, steps: NextSteps) -> Iterator[str]:
    if found.rewrite is not None:
        yield f"rewritten for {found.rewrite.reason}, {found.rewrite.ratio:.1f} bytes for each that is saved"
    if found.manifests:
        yield f"{quantity(found.manifests, 'manifest')} rewritten"
    if found.marked:
        yield "the head is marked again"
    if found.foreign_commits:
        commits = quantity(found.foreign_commits, "commit")
        yield f"changed by {commits} of another program; {steps.in_text('compare with `cdcm verify`')}"
    if found.orphans_left:
        yield f"no orphan is looked for: {found.orphans_left}"
