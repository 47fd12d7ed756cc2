"""What `cdcm query --json` prints; see `models` for what holds of all documents."""

from typing import Any

from pydantic import AwareDatetime, Field

from cdc_materializer.report.models import Report


class QueryColumn(Report):
    """A column of an answer."""

    name: str = Field(description="Its name.")
    type: str = Field(description="Its Spark type.")


class Freshness(Report):
    """What a mirror has in the answer that it has not got yet."""

    table: str = Field(description="Name of the mirror.")
    messages: int = Field(default=0, ge=0, description="Messages that are not published yet, and were folded.")
    held: int = Field(default=0, ge=0, description="How many of them a run would hold; their rows are as they were.")
    newest: AwareDatetime | None = Field(default=None, description="Kafka's time of the newest of them; null: none.")


class AsOfReport(Report):
    """The rows of a table as its source had them at a moment, and how exact that is."""

    pipeline: str = Field(description="Name of the pipeline.")
    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    position: str = Field(description="The highest position of the source's log that counts.")
    time: AwareDatetime | None = Field(default=None, description="The time that was asked for; null: a position was.")
    snapshot: int | None = Field(
        default=None, description="Newest snapshot of the mirror that holds just these rows; null: none that is kept."
    )
    exact: bool = Field(description="True when the log leaves nothing open.")
    notes: list[str] = Field(default_factory=list, description="What it leaves open, in sentences.")
    count: int = Field(ge=0, description="How many rows there were.")
    columns: list[QueryColumn] = Field(default_factory=list, description="The columns, in their order.")
    rows: list[list[Any]] = Field(
        default_factory=list, description="The first rows, as `cdcm query` tells them, masked as the contract says."
    )
    more: bool = Field(default=False, description="True when there are more rows than were asked for.")


class QueryReport(Report):
    """The answer to a query: row values, as the mirrors' readers see them."""

    pipeline: str = Field(description="Name of the pipeline.")
    columns: list[QueryColumn] = Field(default_factory=list, description="The columns, in their order.")
    rows: list[list[Any]] = Field(
        default_factory=list,
        description="The rows, each with its values in the order of the columns; decimals as texts, with all digits.",
    )
    more: bool = Field(default=False, description="True when the query gives more rows than were asked for.")
    fresh: list[Freshness] = Field(default_factory=list, description="With --fresh, each mirror that the query names.")
