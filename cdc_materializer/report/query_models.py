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
