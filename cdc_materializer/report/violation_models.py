"""The documents of `cdcm report` and `cdcm quarantine`, as frozen pydantic models; see `models` for what holds of all.

The published JSON Schema of the report is generated from `ViolationReport`.
"""

from datetime import datetime  # pydantic reads the annotation at run time
from enum import StrEnum
from typing import Literal

from pydantic import Field

from cdc_materializer.report.models import MessagePlace, Report
from cdc_materializer.report.remedies import About
from cdc_materializer.report.trend import TrendPoint

# --- cdcm report --------------------------------------------------------------------------------------------------


class TableVerdict(StrEnum):
    """The state of a table in one word; the worst that applies."""

    STOPPED = "stopped"
    HELD = "held"
    REPORTED = "reported"
    CLEAN = "clean"
    EMPTY = "empty"


class Sample(Report):
    """One row that breaks a rule, with the values that its message has in columns which the contract calls public."""

    place: MessagePlace = Field(description="The message.")
    values: dict[str, str | None] = Field(
        description="Values as text by column, long ones cut; null: NULL. Columns that the message leaves out, or "
        "whose value does not fit, are not there."
    )


class SampleColumns(Report):
    """Which columns samples are shown of."""

    shown: list[str] = Field(description="Columns that the contract classifies as public and does not mask.")
    left_out: list[str] = Field(description="The other columns, whose values are never shown.")


class ViolationGroup(Report):
    """All violations of one table with the same code, rule and column."""

    code: str = Field(description="Violation code.")
    rule: str | None = Field(
        default=None,
        description="Rule of the contract; for UNDECODABLE what the message is; null for codes without one.",
    )
    column: str | None = Field(default=None, description="Column concerned; null when none or several are.")
    about: About = Field(
        default="messages",
        description="What is concerned: messages, each by itself; the table as a whole, of which no message tells; or "
        "the rule, which cannot be judged.",
    )
    action: Literal["held", "reported", "stopped"] = Field(
        description="What was done: the message is held, or published and reported, or the table stopped."
    )
    severity: str | None = Field(default=None, description="Severity that the rule states.")
    count: int = Field(
        ge=0,
        description="Violations, whatever became of them: messages, or how often it was so of the table or the rule.",
    )
    open: int = Field(ge=0, description="Of those, violations that are still open.")
    share: float | None = Field(
        default=None, description="count divided by all messages in raw (0 to 1); null: raw's size is not known."
    )
    first: MessagePlace = Field(
        description="The earliest message concerned: where it started; else how far the table had got."
    )
    last: MessagePlace = Field(description="The latest message concerned, likewise.")
    detected_first: datetime | None = Field(default=None, description="When the first one was detected.")
    detected_last: datetime | None = Field(default=None, description="When the latest one was detected.")
    since: datetime | None = Field(
        default=None, description="When the oldest one still open was detected; null: none is open."
    )
    states: str | None = Field(
        default=None, description="What the rule asks for, in the contract's own words; null: it does not say."
    )
    explanation: str = Field(description="What the code means, in one sentence.")
    remedy: str = Field(description="What to do about it.")
    samples: list[Sample] = Field(
        default_factory=list, description="Rows of some of the messages; only where samples were asked for."
    )


class RuleState(Report):
    """One rule of a contract, and how it was kept."""

    rule: str = Field(description="Name of the rule.")
    column: str | None = Field(default=None, description="Column that it is about; null: none, or several.")
    states: str | None = Field(default=None, description="What it asks for.")
    action: str = Field(description="What happens where it is broken: quarantine, block, warn, or shadow.")
    about: Literal["messages", "table"] = Field(description="Whether it judges rows, or the table as a whole.")
    count: int = Field(ge=0, description="Messages that broke it, or how often the table did; 0: it was kept.")
    open: int = Field(ge=0, description="Of those, violations that are still open.")
    share: float | None = Field(
        default=None, description="count divided by all messages in raw (0 to 1); null: kept, or about the table."
    )
    unjudged: bool = Field(
        default=False,
        description="Whether the table stopped because the rule cannot be judged; of one that is only tried, whether "
        "a batch could not judge it that was judged by the contract of the newest. It is not kept either.",
    )


class Contact(Report):
    """Whom to tell of what breaks a contract, as the contract names them."""

    name: str = Field(description="Name of the owner, team, person or channel.")
    kind: Literal["owner", "team", "person", "channel"] = Field(description="Which of these it is.")
    role: str | None = Field(default=None, description="A person's role, or the tool of a channel; null: not stated.")
    address: str | None = Field(
        default=None, description="A person's user name, or the address of a channel; null: not stated."
    )


class ContractState(Report):
    """The contract file of a table beside what the table has been judged by."""

    name: str = Field(description="Name of the contract.")
    version: str = Field(description="Version that the file states.")
    fingerprint: str = Field(description="Fingerprint of the file's columns and rules.")
    in_force: bool | None = Field(
        description="Whether the newest batch was judged by these rules; false: the file was changed since, or is "
        "newer than the state that is reported; null: nothing was judged yet."
    )
    rules: int = Field(ge=0, description="Rules in the file.")
    kept: list[str] = Field(
        default_factory=list, description="Names of those rules that nothing in this report has broken."
    )
    judged: list[RuleState] = Field(default_factory=list, description="Those rules, in the file's order.")
    max_quarantined: str | None = Field(
        default=None,
        description="How much of a batch may be held: a number of messages, or a share; null: any.",
    )
    contacts: list[Contact] = Field(
        default_factory=list, description="Whom the contract names for the data, its owners first."
    )


class TableViolations(Report):
    """What one table holds back or reports."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    verdict: TableVerdict = Field(
        description="stopped: the table waits for a person, also one to mend its contract's file; held: messages are "
        "held back; reported: all published, some with a remark; clean: nothing to say; empty: the table has not been "
        "run yet."
    )
    messages: int | None = Field(default=None, description="Messages in raw; null: not counted.")
    held_open: int = Field(default=0, ge=0, description="Messages held back now.")
    held_share: float | None = Field(
        default=None, description="held_open divided by all messages in raw (0 to 1); null: raw's size is not known."
    )
    oldest_open: datetime | None = Field(
        default=None, description="When the oldest message that is still held was detected; null: none is held."
    )
    superseded: int = Field(default=0, ge=0, description="Held messages that a later good one overtook.")
    released: int = Field(default=0, ge=0, description="Held messages that were released.")
    reported: int = Field(default=0, ge=0, description="Messages published with a remark.")
    last_publish: datetime | None = Field(
        default=None, description="When the newest batch was published; null: none was, or it is not kept."
    )
    unpublished: int | None = Field(
        default=None,
        description="Messages in raw that the mirror was not made from yet, at most; null: there is no mirror yet.",
    )
    masked: dict[str, str] = Field(
        default_factory=dict,
        description="How columns of the mirror are hidden, by column: null, redact, hash, last4, drop.",
    )
    contract: ContractState | None = Field(
        default=None, description="The table's contract; null: it has none, or the file cannot be followed."
    )
    contract_error: str | None = Field(
        default=None, description="Why the contract cannot be followed, and what to do; null: it can, or is none."
    )
    violations: list[ViolationGroup] = Field(
        default_factory=list,
        description="Groups by code, rule and column: what stops the table first, then the most open ones.",
    )
    sample_columns: SampleColumns | None = Field(
        default=None, description="Which columns the samples show; null: none were asked for."
    )
    trend: list[TrendPoint] = Field(
        default_factory=list,
        description="The batches whose snapshots the table still keeps, oldest first; neighbours are added up where "
        "there are many.",
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
    as_of: datetime = Field(
        description="The time whose state is reported: when the report was made, unless a past one was asked for."
    )
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
    rule: str | None = Field(default=None, description="Rule of the contract; for UNDECODABLE what the message is.")
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


# --- cdcm quarantine show -----------------------------------------------------------------------------------------


class ViolationDetail(QuarantineRow):
    """One violation, with everything that is known of it but values."""

    done: Literal["held", "reported", "stopped"] = Field(description="What was done with the message.")
    schema_id: int | None = Field(
        default=None, description="Registry's id of the schema the message was written with; null: it has none."
    )
    schema_name: str | None = Field(
        default=None, description="That schema as the message names it, as in the places of reports; null: it has none."
    )
    explanation: str = Field(description="What the code means, in one sentence.")
    remedy: str = Field(description="What to do about it.")


class QuarantineDetails(Report):
    """What ``cdcm quarantine show`` prints."""

    pipeline: str = Field(description="Name of the pipeline.")
    as_of: datetime = Field(description="When it was looked up.")
    table: str = Field(description="Name of the mirror.")
    violations: list[ViolationDetail] = Field(description="The violations, newest first.")
