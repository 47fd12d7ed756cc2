"""Whether a query may show what it reads: rows that were masked otherwise than the contract says are hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_materializer.errors import ContractInvalid
from cdc_materializer.line.checks import check_masks, check_masks_then
from cdc_materializer.line.line import marker_of

if TYPE_CHECKING:
    from cdc_materializer.lake.reads import Reading
    from cdc_materializer.line.line import Line
    from cdc_materializer.names import TableName


def check_reading(line: Line, name: TableName, reading: Reading) -> None:
    """Refuse rows that were masked otherwise than the contract says, those of a mirror's earlier states too.

    Args:
        line: the way of the table that is read.
        name: the table: the mirror, or its history, which has what was published.
        reading: how it is read.

    Raises:
        ContractInvalid: says which columns.
    """
    check_masks(line, line.load_mirror())
    is_of_all = any(part.casefold().startswith("all_") for part in reading.behind(name) or ())
    if name == line.mirror:
        check_masks_then(line, None if is_of_all else reading.snapshot)
    else:
        _check_history(line)


def _check_history(line: Line) -> None:
    """Refuse a history with rows that were not masked as the contract says; what it once had, it has."""
    history = line.lake.load(line.mirror.history)
    if history is None:
        return
    columns = line.lake.fields(history, "after").types
    shown = line.masks.unhidden(marker_of(history).masks, columns, line.evolution.renames)
    if shown:
        what = f"{line.mirror.history} has rows from before {', '.join(shown)} was masked as the contract says now."
        raise ContractInvalid(
            what, "Ask the mirror; or drop the history, which then begins anew with the next changes."
        )
