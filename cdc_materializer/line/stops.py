"""Where a batch stops before anything of it reaches the mirror, and what is said then."""

from __future__ import annotations

from pyspark.sql import functions as F

from cdc_materializer.batch import batch, verdict
from cdc_materializer.batch.steps import Decided
from cdc_materializer.changes import model as m
from cdc_materializer.decode.refusals import REFUSALS
from cdc_materializer.errors import (
    MAX_QUARANTINED,
    CdcError,
    Code,
    ContractBlocked,
    OutOfRange,
    PositionRegression,
    SchemaIncompatible,
    SchemaRefused,
    TruncateStopped,
)
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line import quarantine
from cdc_materializer.line.line import Line
from cdc_materializer.offsets import Offsets, Span

_RAW_HAS = "Raw has the messages, and quarantine says which; the mirror was not changed."


def refuse_without_mirror(line: Line, decided: Decided) -> None:
    """Say why there is no mirror; heartbeats alone and an empty truncated table are no reason to."""
    if not decided.violations:
        return
    known = decided.decoders.plan.target
    lacks = "has a key that identifies a row" if known.columns else "can be read as a change of a row"
    what = f"Not one message of {line.table.topic} {lacks}, so {line.mirror} cannot be made. Raw has the messages."
    refused = sorted({REFUSALS[reason].what for _, reason in decided.decoders.writers.refused})
    hints = (
        "Name key columns with `key:` in pipeline.yaml."
        if known.columns
        else "Check `format`, `encoding` and the registry; JSON without a schema needs a contract with columns."
    )
    hints = " ".join(refused) or hints
    raise SchemaRefused(what, f"{hints} `cdcm quarantine list --table {line.mirror}` names each.")


def asked_for(line: Line, decided: Decided) -> CdcError | None:
    """The stop that is asked for before anything reaches the mirror; None where none is."""
    name = line.mirror
    if Code.POSITION_REGRESSION in decided.violations:
        what = (
            f"The database behind {name} went back: it sends changes from before the last one that was read. {_RAW_HAS}"
        )
        do = (
            f"If it was restored or replaced, accept it with `cdcm adopt {name}`, and have it snapshotted again. Where "
            "PostgreSQL tells `lsn` but no `sequence`, a transaction that took longer than "
            "`position_regression_tolerance` looks the same: then set that higher."
        )
        return PositionRegression(what, do)
    return _of_contract(line, decided) or _of_settings(line, decided)


def _of_contract(line: Line, decided: Decided) -> ContractBlocked | None:
    name = line.mirror
    # A replay holds such a row on its branch, which nobody reads: what is held at its end counts (`blocked_at_end`).
    if decided.blocked and not line.replays:
        what = f"The contract of {name} blocks the batch: {', '.join(decided.blocked)}. {_RAW_HAS}"
        # What is released is read by nothing but another release.
        again = "try again" if decided.span.is_empty else "run again"
        return ContractBlocked(what, f"See `cdcm report --table {name}`, mend the data or the rule, and {again}.")
    limit = line.contract.max_quarantined if line.contract is not None else None
    # What was held before is judged again as a batch of its own, and a replay shows what it holds before its swap.
    is_first = not line.replays and not decided.span.is_empty
    if limit is not None and is_first and limit.is_exceeded(*(new := _held_newly(decided))):
        held, read = new
        what = f"{held} of {read} messages of {name} would be held, and its contract allows {limit}. {_RAW_HAS}"
        do = f"See `cdcm report --table {name}`, mend the data or the rule, and run again."
        return ContractBlocked(what, do, (MAX_QUARANTINED,))
    return None


def _of_settings(line: Line, decided: Decided) -> CdcError | None:
    name = line.mirror
    if line.table.incompatible_schema == "stop" and Code.SCHEMA_INCOMPATIBLE in decided.violations:
        what = f"Values of {name} have a type that its columns cannot take. {_RAW_HAS}"
        do = "Set `incompatible_schema: quarantine`, or mirror the topic under another name."
        return SchemaIncompatible(what, do)
    if line.table.special_values == "stop" and Code.OUT_OF_RANGE in decided.violations:
        what = f"Values of {name} are out of range. {_RAW_HAS}"
        return OutOfRange(what, "Set `special_values: null` or `clamp` to go on.")
    if line.table.truncate == "stop" and decided.facts.truncates:
        what = f"The source table of {name} was truncated. {_RAW_HAS}"
        return TruncateStopped(what, "Set `truncate: apply` or `ignore` to go on.")
    return None


def _held_newly(decided: Decided) -> tuple[int, int]:
    """How many messages of the batch's own span would be held, and how many it has.

    Others are read once more because their schema is known by now. They were held before, and are so for good where a
    rule holds them then: if they counted, each run would stop for them.
    """
    held, read = decided.counts["quarantined"], sum(decided.counts.values())
    if not decided.again:
        return held, read
    before = Span(decided.span.topic, Offsets(dict.fromkeys(decided.span.start, 0)), decided.span.start)
    again = verdict.by_message(decided.states.where(batch.within(before, m.PARTITION, m.OFFSET)))
    still = again.where(F.col(verdict.OUTCOME) == verdict.QUARANTINED).count()
    return held - still, read - decided.again


def blocked_at_end(line: Line, held: LakeTable | None) -> ContractBlocked | None:
    """Why what a replay has rebuilt may not be published: a rule that blocks holds a row at its end; None if none does.

    Args:
        line: the way to the replay's branch.
        held: quarantine on that branch.
    """
    rules = quarantine.blocking(line, held)
    if not rules:
        return None
    what = f"The contract of {line.mirror} blocks what was rebuilt: {', '.join(rules)}. Readers see what they saw."
    do = f"See `cdcm contract test --table {line.mirror}`, mend the data or the rule, and run the replay again."
    return ContractBlocked(what, do)
