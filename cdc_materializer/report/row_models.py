"""What `cdcm why --json` prints; see `models` for what holds of all documents."""

from datetime import datetime  # pydantic reads the annotation at run time
from typing import Any, Literal, TypeAlias

from pydantic import Field

from cdc_materializer.report.models import MessagePlace, Report

#: What became of a message: the outcomes that `cdcm run` counts, and `waiting` for one that it has not read yet.
Became: TypeAlias = Literal[
    "upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined", "waiting"
]


class RowViolation(Report):
    """One row that the quarantine table has of a message."""

    code: str = Field(description="Violation code.")
    rule: str | None = Field(default=None, description="Rule of the contract, for the code `CONTRACT`.")
    column: str | None = Field(default=None, description="Column concerned; null: none or several.")
    action: str = Field(description="What was done with the message.")
    status: str = Field(description="`open`, `superseded` or `released`.")
    detected_at: datetime | None = Field(default=None, description="When it was detected.")
    batch: str | None = Field(default=None, description="The batch that detected it.")


class ColumnChange(Report):
    """What one column of a row was before a message and is after it, as the mirror has it: masked, where it is."""

    column: str = Field(description="Its name.")
    before: Any = Field(description="Its value before; null: NULL, or there was no row.")
    after: Any = Field(description="Its value after; would be, where the message is held. Decimals as texts.")


class RowMessage(MessagePlace):
    """One message of a row, and what became of it."""

    schema_name: str | None = Field(
        default=None,
        description="The schema of its value as the message names it: `id:17`, `guid:`, `fingerprint:`, and from "
        "Apicurio's headers `content:`, `global:`, `hash:` or `artifact:`; of one that the message brings itself "
        "`inline:` with its name and a digest; null: none, as of a tombstone.",
    )
    op: str | None = Field(
        default=None,
        description="`c` create, `u` update, `d` delete, `r` read by a snapshot, `tombstone`, `t` truncate of the "
        "table; null: it changes no row, or cannot be read.",
    )
    source_ts: datetime | None = Field(default=None, description="When the source database made the change.")
    position: str | None = Field(default=None, description="Where the source says it happened, comparable as text.")
    epoch: int = Field(default=0, ge=0, description="Number of the source's life: positions of one can be compared.")
    outcome: Became = Field(description="What became of it in its batch, as `cdcm run` counts it; `waiting`: not read.")
    batch: str | None = Field(default=None, description="The batch that read it; null: none yet, or not told any more.")
    snapshot: int | None = Field(
        default=None, description="Snapshot of the mirror from which on readers saw that batch; null: as for `batch`."
    )
    published_at: datetime | None = Field(default=None, description="When that snapshot was made.")
    columns: list[str] = Field(
        default_factory=list,
        description="Columns in which the row after it differs from the row before; would differ, where it is held.",
    )
    masked: dict[str, str] = Field(
        default_factory=dict,
        description="Those of `columns` that the contract masks, each with how: `redact`, `hash` or `last4`.",
    )
    values: list[ColumnChange] | None = Field(
        default=None,
        description="With `--values`: what those columns were and became, masked as the contract says; null: nobody "
        "asked, or no batch has read the message yet.",
    )
    kept: list[str] = Field(
        default_factory=list, description="Columns that the message does not tell: the row kept what it had."
    )
    broke: list[str] = Field(
        default_factory=list, description="What it breaks by today's rules: codes, with the rule or column."
    )
    violations: list[RowViolation] = Field(default_factory=list, description="What quarantine has of it.")
    by: MessagePlace | None = Field(
        default=None, description="The message that took its place, or that it repeats; null: none."
    )
    supersedes_held: list[MessagePlace] = Field(
        default_factory=list, description="Held messages of the row, among those listed, whose place it took."
    )
    reason: str = Field(description="Why this became of it, in words. Never a row's values.")


class RowNow(Report):
    """The row as readers of the mirror see it now."""

    present: bool = Field(description="Whether the mirror has a row of this key.")
    deleted: bool = Field(default=False, description="With `deletes: soft`: whether the row is marked as deleted.")
    written: MessagePlace | None = Field(
        default=None, description="The message that it comes from; null: no row, or it names none."
    )
    agrees: bool = Field(description="Whether it is what its messages give.")
    different: list[str] = Field(default_factory=list, description="Columns in which it is not.")


class WhyReport(Report):
    """What ``cdcm why`` found out about one row."""

    pipeline: str = Field(description="Name of the pipeline.")
    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    key: str | None = Field(description="The row's key as JSON text; null: the message has none that can be read.")
    summary: list[str] = Field(description="Why the row is as it is now, in sentences.")
    row: RowNow | None = Field(default=None, description="The row in the mirror; null: there is no key to look it up.")
    total: int = Field(ge=0, description="Messages of the row in raw, truncates that ended it included.")
    limit: int = Field(ge=1, description="The most messages that are listed, the newest of them.")
    messages: list[RowMessage] = Field(description="In the order in which they were folded, the oldest first.")
    raw_snapshot: int | None = Field(default=None, description="Snapshot of raw that was read.")
    mirror_snapshot: int | None = Field(default=None, description="Snapshot of the mirror that was looked at.")
