"""What `cdcm init --json` and `cdcm doctor --json` print; see `models` for what holds of all documents."""

from typing import Literal, TypeAlias

from pydantic import Field, computed_field

from cdc_materializer.report.models import Report

# --- cdcm init ----------------------------------------------------------------------------------------------------


class InitTopic(Report):
    """One topic, and what was made of it."""

    topic: str = Field(description="Topic.")
    mirror: str | None = Field(default=None, description="Mirror that the file names for it; null: none, see reason.")
    contract: str | None = Field(default=None, description="Contract that was drafted for it; null: none.")
    format: str | None = Field(default=None, description="Format that its messages have; null: none that is read.")
    encoding: str | None = Field(default=None, description="`avro`, `json` or `protobuf`; null: none of them.")
    why: str = Field(default="", description="What the format was told by.")
    key: list[str] = Field(default_factory=list, description="Columns that identify a row.")
    columns: dict[str, str] = Field(default_factory=dict, description="Type of each column of the mirror, as Spark's.")
    remarks: list[str] = Field(default_factory=list, description="What else was noticed.")
    reason: str | None = Field(default=None, description="Why it was not taken; null: it was.")


class InitReport(Report):
    """What ``cdcm init`` found and wrote."""

    pipeline: str = Field(description="Name of the pipeline.")
    config: str = Field(description="The pipeline's file.")
    read_from: Literal["topics", "raw"] = Field(default="topics", description="What the messages were read from.")
    written: list[str] = Field(description="Files that were written; none where no topic could be taken.")
    topics: list[InitTopic] = Field(description="One entry a topic, by name.")


# --- cdcm doctor --------------------------------------------------------------------------------------------------


DoctorOutcome: TypeAlias = Literal["ok", "warning", "problem"]


class DoctorCheck(Report):
    """One check of the set-up."""

    name: str = Field(description="What was checked.")
    outcome: DoctorOutcome = Field(description="How it went.")
    message: str = Field(description="What was found. Never a row's values.")
    do: str | None = Field(default=None, description="How to mend it; null: there is nothing to mend.")
    table: str | None = Field(default=None, description="The mirror that it is about; null: all of them.")
    exit_code: int = Field(default=0, description="For a problem: the exit code of a run that meets it.")


class DoctorReport(Report):
    """What ``cdcm doctor`` found."""

    pipeline: str | None = Field(description="Name of the pipeline; null: its file could not be read.")
    checks: list[DoctorCheck] = Field(description="Every check that was made, in order.")

    @computed_field(description="True when no check found a problem; warnings do not count.")  # type: ignore[prop-decorator] # mypy 4473
    @property
    def healthy(self) -> bool:
        """Tell whether no check found a problem."""
        return not any(check.outcome == "problem" for check in self.checks)
