"""What `cdcm replay --json` prints; see `models` for what holds of all documents."""

from pydantic import Field

from cdc_materializer.report.models import ErrorInfo, MessagePlace, Report
from cdc_materializer.report.plan_models import RenamePlan


class RebuiltType(Report):
    """A column that a replay rebuilds with another type, because its source sends that."""

    column: str = Field(description="The column.")
    old: str = Field(description="Spark type that readers see.")
    new: str = Field(description="Spark type that it has when the replay is published.")


class TableReplay(Report):
    """How a mirror that was rebuilt from raw differs from the live one, and whether it took its place."""

    table: str = Field(description="Name of the mirror.")
    topic: str = Field(description="Topic that feeds it.")
    refilled: int = Field(default=0, ge=0, description="Messages that raw lacked, read from Kafka (`--from kafka`).")
    batches: int = Field(default=0, ge=0, description="Batches folded; fewer where an earlier replay was gone on with.")
    base_snapshot: int | None = Field(
        default=None, description="Snapshot of the mirror that was gone on from; null: it was rebuilt from nothing."
    )
    base_offsets: dict[str, int] | None = Field(
        default=None, description="The first offset of each partition that was read again; null: all of raw."
    )
    equal: bool = Field(
        default=False,
        description="True when both hold the same rows; columns, and what is held, may differ all the same.",
    )
    rebuilt: int = Field(default=0, ge=0, description="Rows of the rebuilt mirror.")
    live: int = Field(default=0, ge=0, description="Rows of the live mirror.")
    only_rebuilt: int = Field(default=0, ge=0, description="Keys that only the rebuilt mirror has.")
    only_live: int = Field(default=0, ge=0, description="Keys that only the live mirror has.")
    different: int = Field(default=0, ge=0, description="Keys in both with different values.")
    columns: dict[str, int] = Field(default_factory=dict, description="Differing keys by column.")
    added: list[str] = Field(default_factory=list, description="Columns that only the rebuilt mirror has.")
    types: list[RebuiltType] = Field(default_factory=list, description="Columns that were rebuilt with another type.")
    renamed: list[RenamePlan] = Field(
        default_factory=list, description="Columns that readers see under their old names until it is published."
    )
    places: list[MessagePlace] = Field(
        default_factory=list, description="Where the first differing keys were last written; never their values."
    )
    keys: list[str] = Field(
        default_factory=list,
        description="First differing keys: 16 digits of the SHA-256 of their JSON text; with `--keys` the text.",
    )
    held_live: dict[str, int] = Field(default_factory=dict, description="Open violations by code and rule, live.")
    held_rebuilt: dict[str, int] = Field(default_factory=dict, description="The same of the rebuilt mirror.")
    told_live: dict[str, int] = Field(
        default_factory=dict, description="Live rows by rule that they break and that holds none (`warn`, `shadow`)."
    )
    told_rebuilt: dict[str, int] = Field(default_factory=dict, description="The same of the rebuilt mirror.")
    broken_live: list[str] = Field(
        default_factory=list, description="Rules about the table that the live mirror breaks, or that cannot be judged."
    )
    broken_rebuilt: list[str] = Field(default_factory=list, description="The same of the rebuilt mirror.")
    published: bool = Field(default=False, description="True when the rebuilt mirror took the live one's place.")
    rolled_back: bool = Field(default=False, description="True when readers see again what a replay had replaced.")
    forgotten: bool = Field(default=False, description="True when what a replay had replaced is kept no longer.")
    live_snapshot: int | None = Field(default=None, description="Snapshot of the live mirror that was compared.")
    rebuilt_snapshot: int | None = Field(default=None, description="Snapshot of the rebuilt mirror.")
    error: ErrorInfo | None = Field(default=None, description="Why the table could not be rebuilt or swapped.")

    @property
    def changes(self) -> bool:
        """Whether to publish it changes what readers see, rows or columns, or what is held."""
        return not self.equal or self.has_other_columns or self.held_live != self.held_rebuilt

    @property
    def has_other_columns(self) -> bool:
        """Whether the rebuilt mirror has columns that the live one has not, or others names or types for them."""
        return bool(self.added or self.types or self.renamed)


class ReplayReport(Report):
    """What ``cdcm replay`` found and did."""

    pipeline: str = Field(description="Name of the pipeline.")
    tables: list[TableReplay] = Field(default_factory=list, description="One entry a table, in the file's order.")
