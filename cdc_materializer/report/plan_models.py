"""What `cdcm run --plan --json` prints; see `models` for what holds of all documents."""

from typing import Literal

from pydantic import Field

from cdc_materializer.report.models import ErrorInfo, Report


class ColumnPlan(Report):
    """A column that a table gets."""

    name: str = Field(description="Its name.")
    type: str = Field(description="Its Spark type.")
    beside: str | None = Field(default=None, description="Column whose values it takes that do not fit; null: none.")


class TypePlan(Report):
    """A column, or a part of one, whose type changes in place."""

    path: str = Field(description="The column; fields, elements and values of it behind a dot.")
    old: str | None = Field(default=None, description="Spark type that it has; null: it is a field that is added.")
    new: str = Field(description="Spark type that it gets.")


class RenamePlan(Report):
    """A column that is renamed and keeps its values."""

    old: str = Field(description="Name that it has.")
    new: str = Field(description="Name that it gets.")


class MisfitPlan(Report):
    """A column whose type some messages have changed so that it cannot take all of their values."""

    column: str = Field(description="The column.")
    table_type: str = Field(description="Spark type that it has and keeps.")
    writer_type: str = Field(description="Spark type of the messages.")
    handling: Literal["hold", "new_column", "stop"] = Field(
        description="What becomes of values that do not fit: their messages are held, they go into the column "
        "`beside`, or the table stops."
    )
    beside: str | None = Field(default=None, description="Column that takes them; null: none.")


class DeclaredPlan(Report):
    """A column that a contract declares as what its messages can be read as, and that is in another type."""

    column: str = Field(description="The column.")
    table_type: str = Field(description="Spark type that it has and keeps, until `cdcm replay … --publish`.")
    declared_type: str = Field(description="Spark type that the contract declares.")


class TablePlan(Report):
    """What a run would change of one table's columns before it writes rows, and how these reach it."""

    table: str = Field(description="Name of the mirror; of a topic or glob that none can be made of, its own.")
    topic: str = Field(description="Topic that feeds it.")
    action: Literal["create", "change", "none", "stop"] = Field(
        description="Whether the mirror is made, its columns change, or stay as they are, or the table would stop."
    )
    messages: int = Field(
        default=0,
        ge=0,
        description="At most so many messages were looked at: raw's that no batch has read, the topic's.",
    )
    batches: int = Field(
        default=0, ge=0, description="At least so many batches a run makes of them, at most `records_max` each."
    )
    apply: Literal["append", "merge_on_read", "copy_on_write"] | None = Field(
        default=None,
        description="How the first of them reaches the mirror: appended, behind marks that delete the earlier rows of "
        "its keys, or with the files anew that have such rows; null: it does not.",
    )
    pruned_by: str | None = Field(
        default=None,
        description="Column of the key by whose values files are left out of the search for earlier rows; null: the "
        "keys of all files are read.",
    )
    key: list[str] = Field(default_factory=list, description="Columns that identify a row.")
    added: list[ColumnPlan] = Field(default_factory=list, description="Columns that are added; all, of a new mirror.")
    types: list[TypePlan] = Field(default_factory=list, description="Types that change in place.")
    renamed: list[RenamePlan] = Field(default_factory=list, description="Columns that are renamed.")
    comments: list[str] = Field(default_factory=list, description="Columns whose comment changes.")
    misfits: list[MisfitPlan] = Field(default_factory=list, description="Types that changed and do not fit.")
    declared: list[DeclaredPlan] = Field(
        default_factory=list, description="Types of the contract that a replay would give columns."
    )
    unknown_schemas: int = Field(default=0, ge=0, description="Schemas that the registry does not know.")
    refused: list[str] = Field(
        default_factory=list, description="What other messages are, that are recognised and not read."
    )
    error: ErrorInfo | None = Field(default=None, description="Why the table would stop; null: it would not.")


class PlanReport(Report):
    """What ``cdcm run`` would change of the tables' columns; nothing was written."""

    pipeline: str = Field(description="Name of the pipeline.")
    tables: list[TablePlan] = Field(default_factory=list, description="One entry a table, in the file's order.")
    exit_code: int = Field(default=0, exclude=True, description="What the command exits with; no part of the document.")
