"""Every document that a ``--json`` option prints, as frozen pydantic models.

The reference pages and the published JSON schemas are generated from these classes, so each field says what it
means. Times are UTC, counts are messages unless a field says rows or keys, and no field ever carries a row's values.
"""

from datetime import datetime  # pydantic reads the annotation at run time
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field


class Report(BaseModel):
    """Base of all report models: immutable, and no field that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> str:
        """Return the document that ``--json`` prints: one indented JSON object, times in ISO 8601 UTC."""
        return self.model_dump_json(indent=2)


class ErrorInfo(Report):
    """Why a table stopped."""

    code: str = Field(description="Violation code, or the name of the error class when no code applies.")
    message: str = Field(description="What happened, where, why, and what to do next. Never a row's values.")


# --- cdcm run -----------------------------------------------------------------------------------------------------


class TableRun(Report):
    """What one run did to one table.

    ``read = upserted + deleted + unchanged + superseded + replayed + ignored + quarantined``: each message is in
    exactly one place.
    """

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic the messages came from.")
    batches: int = Field(default=0, ge=0, description="Batches published.")
    read: int = Field(default=0, ge=0, description="Messages read from raw.")
    upserted: int = Field(default=0, ge=0, description="Messages that are now the row of their key.")
    deleted: int = Field(default=0, ge=0, description="Messages that removed the row of their key.")
    unchanged: int = Field(default=0, ge=0, description="Messages whose outcome the mirror already had.")
    superseded: int = Field(default=0, ge=0, description="Messages overtaken by a later one of the same key.")
    replayed: int = Field(default=0, ge=0, description="Messages that the source had sent before.")
    ignored: int = Field(
        default=0, ge=0, description="Messages that change no row: tombstones, truncates, markers of the connector."
    )
    quarantined: int = Field(default=0, ge=0, description="Messages held back, with a row in the quarantine table.")
    violations: dict[str, int] = Field(default_factory=dict, description="Violations by code, held or only reported.")
    offsets: dict[str, int] = Field(default_factory=dict, description="Next offset of each partition.")
    raw_snapshot: int | None = Field(default=None, description="Iceberg snapshot of the raw table; null: none yet.")
    mirror_snapshot: int | None = Field(default=None, description="Iceberg snapshot of the mirror; null: none yet.")
    seconds: float = Field(default=0.0, ge=0, description="Wall-clock seconds spent on this table.")
    error: ErrorInfo | None = Field(default=None, description="Why the table stopped; null when it did not.")


class RunReport(Report):
    """What ``cdcm run`` did."""

    pipeline: str = Field(description="Name of the pipeline.")
    tables: list[TableRun] = Field(default_factory=list, description="One entry a table, in the file's order.")
    exit_code: int = Field(default=0, exclude=True, description="What the command exits with; no part of the document.")


# --- cdcm status --------------------------------------------------------------------------------------------------


class FileHealth(Report):
    """The files of a mirror's current snapshot, from Iceberg's own summary."""

    data_files: int = Field(ge=0, description="Data files.")
    delete_files: int = Field(default=0, ge=0, description="Delete files or deletion vectors.")
    bytes: int = Field(default=0, ge=0, description="Size of the data and delete files, in bytes.")
    snapshots: int = Field(default=0, ge=0, description="Snapshots that the table still keeps.")


class TableStatus(Report):
    """Where one table stands."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    rows: int | None = Field(default=None, description="Rows in the mirror; null: it does not exist yet.")
    messages: int | None = Field(default=None, description="Messages in the raw table; null: it does not exist yet.")
    landed: dict[str, int] = Field(default_factory=dict, description="Next offset of each partition to land in raw.")
    published: dict[str, int] = Field(
        default_factory=dict, description="Next offset of each partition to publish in the mirror."
    )
    ends: dict[str, int] | None = Field(
        default=None, description="End of each partition at the source; null: the source was not asked or not there."
    )
    lag_messages: int | None = Field(
        default=None, description="Messages between the mirror and the ends, an upper bound; null: not known."
    )
    lag_seconds: float | None = Field(
        default=None, description="Age of the newest published message while there is lag, 0 without; null: not known."
    )
    last_publish: datetime | None = Field(default=None, description="When the mirror was last published to.")
    quarantine_open: int = Field(default=0, ge=0, description="Open rows in the quarantine table.")
    raw_snapshot: int | None = Field(default=None, description="Newest marked snapshot of raw.")
    mirror_snapshot: int | None = Field(default=None, description="Newest marked snapshot of the mirror.")
    files: FileHealth | None = Field(default=None, description="Files of the mirror; null: it does not exist yet.")
    error: ErrorInfo | None = Field(default=None, description="Why the table's state could not be read.")


class StatusReport(Report):
    """What ``cdcm status`` found."""

    pipeline: str = Field(description="Name of the pipeline.")
    as_of: datetime = Field(description="When the status was taken.")
    tables: list[TableStatus] = Field(default_factory=list, description="One entry a table, in the file's order.")


# --- cdcm report --------------------------------------------------------------------------------------------------


class TableVerdict(StrEnum):
    """The state of a table in one word; the worst that applies."""

    STOPPED = "stopped"
    HELD = "held"
    REPORTED = "reported"
    CLEAN = "clean"
    EMPTY = "empty"


class MessagePlace(Report):
    """One message, by where it lies in its topic and when it was written there."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    offset: int = Field(description="Offset.")
    timestamp: datetime | None = Field(default=None, description="Timestamp of the message; null: it has none.")


class ViolationGroup(Report):
    """All violations of one table with the same code, rule and column."""

    code: str = Field(description="Violation code.")
    rule: str | None = Field(default=None, description="Rule of the contract; null for codes without one.")
    column: str | None = Field(default=None, description="Column concerned; null when none or several are.")
    action: Literal["held", "reported", "stopped"] = Field(
        description="What was done: the message is held, or published and reported, or the table stopped."
    )
    severity: str | None = Field(default=None, description="Severity that the rule states.")
    count: int = Field(ge=0, description="Violations, whatever became of them.")
    open: int = Field(ge=0, description="Of those, violations that are still open.")
    share: float | None = Field(
        default=None, description="count divided by all messages in raw (0 to 1); null: raw's size is not known."
    )
    first: MessagePlace = Field(description="The earliest message concerned.")
    last: MessagePlace = Field(description="The latest message concerned.")
    since: datetime | None = Field(
        default=None, description="When the oldest one still open was detected; null: none is open."
    )
    explanation: str = Field(description="What the code means, in one sentence.")
    remedy: str = Field(description="What to do about it.")


class TableViolations(Report):
    """What one table holds back or reports."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    verdict: TableVerdict = Field(
        description="stopped: the table waits for a person; held: messages are held back; reported: all published, "
        "some with a remark; clean: nothing to say; empty: the table has not been run yet."
    )
    messages: int | None = Field(default=None, description="Messages in raw; null: not counted.")
    held_open: int = Field(default=0, ge=0, description="Messages held back now.")
    superseded: int = Field(default=0, ge=0, description="Held messages that a later good one overtook.")
    released: int = Field(default=0, ge=0, description="Held messages that were released.")
    reported: int = Field(default=0, ge=0, description="Messages published with a remark.")
    violations: list[ViolationGroup] = Field(
        default_factory=list, description="Groups by code, rule and column; the most open ones first."
    )


class ViolationTotals(Report):
    """Sums over all tables of a report."""

    tables: int = Field(default=0, ge=0, description="Tables looked at.")
    tables_with_open: int = Field(default=0, ge=0, description="Tables that are stopped or hold messages back.")
    held_open: int = Field(default=0, ge=0, description="Messages held back now.")
    superseded: int = Field(default=0, ge=0, description="Held messages that a later good one overtook.")
    released: int = Field(default=0, ge=0, description="Held messages that were released.")
    reported: int = Field(default=0, ge=0, description="Messages published with a remark.")
    by_code: dict[str, int] = Field(default_factory=dict, description="Violations open or only reported, by code.")


class ViolationReport(Report):
    """What ``cdcm report`` prints."""

    pipeline: str = Field(description="Name of the pipeline.")
    as_of: datetime = Field(description="When the report was made.")
    totals: ViolationTotals = Field(default_factory=ViolationTotals, description="Sums over all tables.")
    tables: list[TableViolations] = Field(default_factory=list, description="One entry a table, in the file's order.")


# --- cdcm quarantine list -----------------------------------------------------------------------------------------


class QuarantineRow(Report):
    """One row of a quarantine table."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic of the message.")
    partition: int = Field(description="Partition of the message.")
    offset: int = Field(description="Offset of the message.")
    timestamp: datetime | None = Field(default=None, description="Timestamp of the message.")
    key: str | None = Field(default=None, description="Key of the message as JSON text; null: it has none.")
    code: str = Field(description="Violation code.")
    rule: str | None = Field(default=None, description="Rule of the contract.")
    severity: str | None = Field(default=None, description="Severity that the rule states.")
    action: str | None = Field(default=None, description="What was done.")
    status: str = Field(description="open, superseded or released.")
    column: str | None = Field(default=None, description="Column concerned.")
    detected_at: datetime | None = Field(default=None, description="When it was detected.")
    batch_id: str | None = Field(default=None, description="Batch that detected it.")


class QuarantineList(Report):
    """What ``cdcm quarantine list`` prints."""

    pipeline: str = Field(description="Name of the pipeline.")
    as_of: datetime = Field(description="When the list was made.")
    total: int = Field(default=0, ge=0, description="Rows that match the filters.")
    limit: int = Field(default=100, ge=0, description="Most rows shown.")
    rows: list[QuarantineRow] = Field(default_factory=list, description="The newest rows, newest first.")


# --- cdcm verify --------------------------------------------------------------------------------------------------


class TableVerify(Report):
    """Whether a mirror equals a second fold of its raw table, key by key."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    equal: bool = Field(description="True when nothing differs.")
    expected: int = Field(default=0, ge=0, description="Rows that folding raw gives.")
    found: int = Field(default=0, ge=0, description="Rows in the mirror.")
    missing: int = Field(default=0, ge=0, description="Keys that the fold has and the mirror has not.")
    unexpected: int = Field(default=0, ge=0, description="Keys that the mirror has and the fold has not.")
    different: int = Field(default=0, ge=0, description="Keys in both with different values.")
    held: int = Field(default=0, ge=0, description="Keys whose newest change is held in quarantine, as intended.")
    columns: dict[str, int] = Field(default_factory=dict, description="Differing keys by column.")
    places: list[MessagePlace] = Field(
        default_factory=list, description="Where the first differing keys were last written; never their values."
    )
    messages: int = Field(default=0, ge=0, description="Messages folded.")
    raw_snapshot: int | None = Field(default=None, description="Snapshot of raw that was folded.")
    mirror_snapshot: int | None = Field(default=None, description="Snapshot of the mirror that was compared.")
    seconds: float = Field(default=0.0, ge=0, description="Wall-clock seconds.")
    error: ErrorInfo | None = Field(default=None, description="Why the table could not be verified.")


class VerifyReport(Report):
    """What ``cdcm verify`` found."""

    pipeline: str = Field(description="Name of the pipeline.")
    tables: list[TableVerify] = Field(default_factory=list, description="One entry a table, in the file's order.")

    @computed_field(description="True when every table equals its fold.")  # type: ignore[prop-decorator] # mypy 4473
    @property
    def equal(self) -> bool:
        """Tell whether every table was compared and equals its fold."""
        return all(table.equal and table.error is None for table in self.tables)


# --- cdcm contract lint -------------------------------------------------------------------------------------------


class LintProblem(Report):
    """One thing to mend in a contract file."""

    line: int | None = Field(default=None, description="Line in the file, from 1; null: the file as a whole.")
    where: str = Field(description="Path inside the document, such as schema[0].properties[2].quality[0].")
    message: str = Field(description="What is wrong and why.")
    do: str = Field(description="What to do.")


class LintFile(Report):
    """The outcome for one contract file."""

    path: str = Field(description="The file, as it was named on the command line or in the configuration.")
    name: str | None = Field(default=None, description="Name of the contract; null when it could not be read.")
    version: str | None = Field(default=None, description="Version of the contract.")
    fingerprint: str | None = Field(default=None, description="Fingerprint of columns and rules; null with problems.")
    columns: int = Field(default=0, ge=0, description="Columns declared.")
    rules: int = Field(default=0, ge=0, description="Rules in force.")
    problems: list[LintProblem] = Field(default_factory=list, description="Everything to mend, in file order.")


class LintReport(Report):
    """What ``cdcm contract lint`` found."""

    files: list[LintFile] = Field(default_factory=list, description="One entry a file.")

    @computed_field(description="True when no file has a problem.")  # type: ignore[prop-decorator] # mypy 4473
    @property
    def valid(self) -> bool:
        """Tell whether no file has a problem."""
        return not any(file.problems for file in self.files)
