"""What `cdcm init --json` prints; see `models` for what holds of all documents."""

from pydantic import Field

from cdc_materializer.report.models import Report

# --- cdcm init ----------------------------------------------------------------------------------------------------


class InitTopic(Report):
    """One topic, and what was made of it."""

    topic: str = Field(description="Topic.")
    mirror: str | None = Field(default=None, description="Mirror that the file names for it; null: none, see reason.")
    contract: str | None = Field(default=None, description="Contract that was drafted for it; null: none.")
    format: str | None = Field(default=None, description="Format that its messages have; null: none that is read.")
    encoding: str | None = Field(default=None, description="`avro` or `json`; null: neither.")
    why: str = Field(default="", description="What the format was told by.")
    key: list[str] = Field(default_factory=list, description="Columns that identify a row.")
    columns: dict[str, str] = Field(default_factory=dict, description="Type of each column of the mirror, as Spark's.")
    remarks: list[str] = Field(default_factory=list, description="What else was noticed.")
    reason: str | None = Field(default=None, description="Why it was not taken; null: it was.")


class InitReport(Report):
    """What ``cdcm init`` found and wrote."""

    pipeline: str = Field(description="Name of the pipeline.")
    config: str = Field(description="The pipeline's file.")
    written: list[str] = Field(description="Files that were written; none where no topic could be taken.")
    topics: list[InitTopic] = Field(description="One entry a topic, by name.")
