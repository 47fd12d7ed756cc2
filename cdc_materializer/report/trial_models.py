"""What `cdcm contract test --json` prints; see `models` for what holds of all documents."""

from datetime import datetime  # pydantic reads the annotation at run time
from typing import Literal

from pydantic import Field, computed_field

from cdc_materializer.errors import MAX_QUARANTINED
from cdc_materializer.report.models import MessagePlace, Report

#: Why a rule is not judged that compares the table with what it was before a batch: history ends with one state of it.
ONE_STATE = "it compares a batch with the one before"


class RuleTrial(Report):
    """How one rule of a contract fares over history."""

    rule: str = Field(description="Name of the rule.")
    column: str | None = Field(default=None, description="Column that it speaks of; null: several.")
    expectation: str = Field(description="The expectation that states it.")
    action: str = Field(description="`quarantine`, `block` or `warn`; `shadow`: it is only tried.")
    severity: str = Field(description="Severity that the rule states.")
    states: str | None = Field(default=None, description="What the contract says of it in words.")
    messages: int = Field(default=0, ge=0, description="Messages after which the row breaks it.")
    share: float | None = Field(default=None, description="messages divided by those judged (0 to 1); null: none.")
    keys: int = Field(default=0, ge=0, description="Rows of the source that break it at some time.")
    held: int = Field(
        default=0, ge=0, description="Messages that nothing good came after: they would be held (or would stop) today."
    )
    first: MessagePlace | None = Field(default=None, description="First message that breaks it, by its timestamp.")
    last: MessagePlace | None = Field(default=None, description="Last message that breaks it.")
    schemas: dict[str, int] = Field(
        default_factory=dict,
        description="Messages that break it by the registry's id of their schema, or what it is called as in "
        "`schema_name`; `none`: they have no schema.",
    )
    why: str | None = Field(
        default=None, description="What went wrong where it is only tried and cannot be judged, by its name."
    )


class TableRuleTrial(Report):
    """Whether a rule about the whole table holds for the rows that history ends with."""

    rule: str = Field(description="Name of the rule.")
    column: str | None = Field(default=None, description="Column that it speaks of; null: several, or the table.")
    expectation: str = Field(description="The expectation, or the metric of ODCS, that states it.")
    action: str = Field(description="`block` or `warn`; `shadow`: it is only tried.")
    severity: str = Field(description="Severity that the rule states.")
    states: str | None = Field(default=None, description="What the contract says of it in words.")
    holds: bool | None = Field(description="Whether the table is as it says; null: it cannot be judged.")
    why: str | None = Field(default=None, description="Why it cannot be judged: what went wrong, by its name.")


class CodeTrial(Report):
    """A violation code that has nothing to do with a rule."""

    code: str = Field(description="Violation code.")
    messages: int = Field(ge=0, description="Messages that have it.")
    first: MessagePlace = Field(description="The first of them, by its timestamp.")


class LimitTrial(Report):
    """What history, as one batch, would hold, and how much of a batch the contract lets be held (`max_quarantined`)."""

    allows: str = Field(description="The contract's `max_quarantined`: a number of messages, or a share in percent.")
    held: int = Field(ge=0, description="Messages that would be held, for a rule or any other violation.")
    messages: int = Field(ge=0, description="Messages that they are of.")
    share: float | None = Field(description="held divided by messages (0 to 1); null: there are none.")
    blocked: bool = Field(description="Whether that is more than the contract allows, so that the batch would stop.")


class TrialReport(Report):
    """What ``cdcm contract test`` found; nothing was written."""

    pipeline: str = Field(description="Name of the pipeline.")
    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    path: str = Field(description="The contract's file.")
    name: str = Field(description="Name of the contract.")
    version: str = Field(description="Version of the contract.")
    fingerprint: str = Field(description="Fingerprint of its columns and rules.")
    in_force: bool = Field(description="Whether the mirror's newest batch was judged by it.")
    read_from: Literal["raw", "topic"] = Field(description="Where history was read; `topic`: there is no raw yet.")
    since: datetime | None = Field(default=None, description="Only messages from then on count; null: all.")
    messages: int = Field(ge=0, description="Messages read, those before `since` left out.")
    judged: int = Field(ge=0, description="Of them, those after which there is a whole row to judge.")
    broken: int = Field(ge=0, description="Of the judged, those whose row breaks a rule.")
    rules: list[RuleTrial] = Field(description="Every rule about rows, those that most break first.")
    table_rules: list[TableRuleTrial] = Field(default_factory=list, description="Every rule about the whole table.")
    codes: list[CodeTrial] = Field(default_factory=list, description="What else would be held or reported.")
    limit: LimitTrial | None = Field(default=None, description="How `max_quarantined` fares; null: there is none.")

    @computed_field(description="Rules that would have stopped batches.")  # type: ignore[prop-decorator] # mypy 4473
    @property
    def blocks(self) -> list[str]:
        """Name the rules with the action `block` that something breaks, those that cannot be judged, and the limit.

        A rule that only batches can be judged by is none of them.
        """
        of_rows = [rule.rule for rule in self.rules if rule.action == "block" and rule.messages]
        of_table = [rule for rule in self.table_rules if rule.why != ONE_STATE]
        broken = [rule for rule in of_table if not rule.holds and rule.action != "shadow"]
        limit = [MAX_QUARANTINED] if self.limit is not None and self.limit.blocked else []
        return [*of_rows, *[rule.rule for rule in broken if rule.action == "block" or rule.holds is None], *limit]
