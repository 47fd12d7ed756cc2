"""Every document that a ``--json`` option prints, as frozen pydantic models.

The reference pages and the published JSON schemas are generated from these classes, so each field says what it
means. Times are UTC, counts are messages unless a field says rows or keys, and no field has a row's values unasked.
"""

from datetime import datetime  # pydantic reads the annotation at run time
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field

from cdc_materializer.errors import CdcError


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

    @classmethod
    def of(cls, error: CdcError) -> Self:
        """What a report says of an error."""
        return cls(code=error.code or type(error).__name__, message=str(error))


class MessagePlace(Report):
    """One message, by where it lies in its topic and when it was written there."""

    topic: str = Field(description="Topic.")
    partition: int = Field(description="Partition.")
    offset: int = Field(description="Offset.")
    timestamp: datetime | None = Field(default=None, description="Timestamp of the message; null: it has none.")
    schema_id: int | None = Field(default=None, description="Registry's id of its schema; null: none, or not told.")
    schema_name: str | None = Field(
        default=None,
        description="Its schema as the message names it: `id:17`, `guid:`, `fingerprint:`, from Apicurio's headers "
        "`content:`, `global:`, `hash:` or `artifact:`; of one that the message brings itself `inline:` with its name "
        "and a digest; null: none, or not told.",
    )

    @property
    def written_with(self) -> str | None:
        """The id or the name of its schema."""
        return str(self.schema_id) if self.schema_id is not None else self.schema_name


# --- cdcm run -----------------------------------------------------------------------------------------------------


class ContractChange(Report):
    """A contract that is another one than the mirror's newest batch was judged by."""

    before: str | None = Field(description="Fingerprint of the contract that judged it; null: it had none.")
    now: str | None = Field(description="Fingerprint of the contract in force; null: there is none.")
    rows: int | None = Field(default=None, description="Rows of the mirror by then; null: only Spark can tell.")
    held: int | None = Field(default=None, description="Messages held by then; null: only Spark can tell.")
    says: str = Field(description="What is judged by it, what is not, and what would have it judged again.")


class TableRun(Report):
    """What one run did to one table.

    ``read = upserted + deleted + unchanged + superseded + replayed + ignored + quarantined``: each message is in
    exactly one place.
    """

    table: str = Field(description="Name of the mirror; of a topic or glob that none can be made of, its own.")
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
    swept: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda swept: not swept,
        description="Rows, of no message, that a complete snapshot did not show and that were deleted, or marked "
        "as deleted; left out where there are none.",
    )
    foreign_commits: int = Field(
        default=0,
        ge=0,
        exclude_if=lambda commits: not commits,
        description="Commits of other programs that changed rows of the mirror or of its raw, quarantine or history "
        "table, found since the newest batch before; `cdcm verify` says what they did; left out where there are none.",
    )
    contract_change: ContractChange | None = Field(
        default=None,
        exclude_if=lambda change: change is None,
        description="That the contract was changed since the mirror's newest batch, and what it means for its rows; "
        "left out where it was not.",
    )


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
    hint: str | None = Field(default=None, description="Why `cdcm maintain` may pay; null: it hardly does.")


class TableStatus(Report):
    """Where one table stands."""

    table: str = Field(description="Name of the mirror; of a topic or glob that none can be made of, its own.")
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
        default=None,
        description="With lag_messages above 0: seconds since the source made the newest change that the mirror has, "
        "or, where the source tells no times, since the last publish. 0 without lag; null: nothing was published yet, "
        "or the ends are not known, or those of a topic that lost messages.",
    )
    freshness_seconds: float | None = Field(
        default=None,
        description="What lag_seconds may be at most, as the contract promises; null: it promises nothing.",
    )
    late: bool | None = Field(
        default=None, description="Whether lag_seconds is above that; null: one of the two is not known."
    )
    last_publish: datetime | None = Field(default=None, description="When the mirror was last published to.")
    quarantine_open: int = Field(
        default=0,
        ge=0,
        description="Open rows in the quarantine table; a message has one for each code, rule and column.",
    )
    held: int = Field(default=0, ge=0, description="Messages held back now: those with open rows in quarantine.")
    held_share: float | None = Field(
        default=None, description="held divided by all messages in raw (0 to 1); null: there are none in raw."
    )
    held_since: datetime | None = Field(
        default=None, description="When the oldest message that is still held was detected; null: none is held."
    )
    raw_snapshot: int | None = Field(default=None, description="Newest marked snapshot of raw.")
    mirror_snapshot: int | None = Field(default=None, description="Newest marked snapshot of the mirror.")
    files: FileHealth | None = Field(default=None, description="Files of the mirror; null: it does not exist yet.")
    foreign_commits: int = Field(
        default=0,
        ge=0,
        description="Commits of other programs that changed rows of the mirror or of raw, as far as their snapshots "
        "are kept; `cdcm verify` says what they did.",
    )
    error: ErrorInfo | None = Field(default=None, description="Why the table's state, or its lag, is not known.")


class StatusReport(Report):
    """What ``cdcm status`` found."""

    pipeline: str = Field(description="Name of the pipeline.")
    as_of: datetime = Field(description="When the status was taken.")
    tables: list[TableStatus] = Field(default_factory=list, description="One entry a table, in the file's order.")


# --- cdcm verify --------------------------------------------------------------------------------------------------


class TableVerify(Report):
    """Whether a mirror equals a second fold of its raw table, key by key."""

    table: str = Field(description="Name of the mirror; of a topic or glob that none can be made of, its own.")
    topic: str = Field(description="Topic that feeds it.")
    method: Literal["fold", "ledger", "source"] = Field(
        default="fold",
        description="What it was held against: the fold of raw; its ledger, which names no rows; or the database.",
    )
    equal: bool = Field(description="True when nothing differs; see `unsettled` for what is not known.")
    expected: int = Field(
        default=0, ge=0, description="Rows that folding raw gives, the ledger tells, or the database has."
    )
    found: int = Field(default=0, ge=0, description="Rows in the mirror.")
    missing: int = Field(
        default=0, ge=0, description="Keys that the fold (or the database) has and the mirror has not."
    )
    unexpected: int = Field(
        default=0, ge=0, description="Keys that the mirror has and the fold (or the database) has not."
    )
    different: int = Field(default=0, ge=0, description="Keys in both with different values.")
    held: int = Field(default=0, ge=0, description="Keys whose newest change is held in quarantine, as intended.")
    columns: dict[str, int] = Field(default_factory=dict, description="Differing keys by column.")
    buckets: int = Field(default=0, ge=0, description="Buckets of keys that differ: of 64, or of a ledger's 16.")
    places: list[MessagePlace] = Field(
        default_factory=list, description="Where the first differing keys were last written; never their values."
    )
    keys: list[str] = Field(
        default_factory=list,
        description="First differing keys: 16 digits of the SHA-256 of their JSON text; with `--keys` the text.",
    )
    judged_otherwise: bool = Field(default=False, description="True: it differs, and another contract judged batches.")
    messages: int = Field(default=0, ge=0, description="Messages folded.")
    unsettled: int = Field(
        default=0, ge=0, description="With `--source`: keys that changed each time they were looked at; not compared."
    )
    left_out: dict[str, str] = Field(
        default_factory=dict, description="With `--source`: columns that were not compared, and why."
    )
    position: str | None = Field(
        default=None, description="With `--source`: the place in the database's log that the mirror was waited for."
    )
    raw_snapshot: int | None = Field(default=None, description="Snapshot of raw that was folded.")
    mirror_snapshot: int | None = Field(default=None, description="Snapshot of the mirror; null: none was compared.")
    repaired_snapshot: int | None = Field(
        default=None,
        description="Snapshot in which the differing rows are right, with `--repair`; null: none was made.",
    )
    seconds: float = Field(default=0.0, ge=0, description="Wall-clock seconds.")
    error: ErrorInfo | None = Field(default=None, description="Why the table could not be verified.")


class VerifyReport(Report):
    """What ``cdcm verify`` found."""

    pipeline: str = Field(description="Name of the pipeline.")
    tables: list[TableVerify] = Field(default_factory=list, description="One entry a table, in the file's order.")

    @computed_field(description="True when no table is known to differ from what it was held against.")  # type: ignore[prop-decorator] # mypy 4473
    @property
    def equal(self) -> bool:
        """Tell whether every table was compared and nothing differs for certain."""
        return all(table.equal and table.error is None for table in self.tables)


# --- cdcm adopt ---------------------------------------------------------------------------------------------------


class Adopted(Report):
    """One thing that was accepted as lost or rewound."""

    what: Literal["gap", "topic", "positions"] = Field(
        description="`gap`: messages left the topic unread; `topic`: it was made again, or lost its end; `positions`: "
        "the database went back."
    )
    offsets: dict[str, int] = Field(
        description="Where the table goes on in each partition, as raw counts: in a topic that was made again the "
        "offsets follow on those of the earlier one."
    )
    lost: int = Field(ge=0, description="At most so many messages were never read.")
    at: datetime = Field(description="When it was accepted.")
    by: str = Field(description="The user who ran the command.")
    reason: str | None = Field(default=None, description="What the user said to it.")


class AdoptReport(Report):
    """What ``cdcm adopt`` accepted."""

    pipeline: str = Field(description="Name of the pipeline.")
    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    adopted: list[Adopted] = Field(description="What was accepted, and is on the record now.")


# --- cdcm quarantine release --------------------------------------------------------------------------------------


class ReleaseReport(Report):
    """What ``cdcm quarantine release`` judged again.

    ``tried = released + superseded + held``.
    """

    pipeline: str = Field(description="Name of the pipeline.")
    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    tried: int = Field(default=0, ge=0, description="Held messages that were judged again.")
    released: int = Field(default=0, ge=0, description="Of them, those that break nothing any more.")
    superseded: int = Field(default=0, ge=0, description="Of them, those that a later good change has overtaken.")
    held: int = Field(default=0, ge=0, description="Of them, those that are held still.")
    codes: dict[str, int] = Field(default_factory=dict, description="What holds those: code and rule, with violations.")
    counts: dict[str, int] = Field(
        default_factory=dict, description="What became of the messages in the batch that read them again, by outcome."
    )
    mirror_snapshot: int | None = Field(default=None, description="Snapshot that was published; null: none.")


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
    fingerprint: str | None = Field(default=None, description="Fingerprint; null with problems or several tables.")
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
