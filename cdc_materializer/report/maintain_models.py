"""What `cdcm maintain --json` prints; see `models` for what holds of all documents."""

from typing import Literal

from pydantic import Field

from cdc_materializer.report.models import ErrorInfo, Report


class RewriteStep(Report):
    """Data files that are written anew, fewer and without deleted rows."""

    reason: Literal["small files", "deleted rows", "overlapping ranges"] = Field(
        description="What is the matter with most of them."
    )
    files: int = Field(ge=0, description="Data files that are read.")
    files_after: int = Field(ge=0, description="Data files that are written; before it is done, about.")
    delete_files: int = Field(ge=0, description="Delete files or deletion vectors that go with them.")
    bytes: int = Field(ge=0, description="Bytes that are read, and at most written.")
    saved: int = Field(
        ge=0, description="Bytes that a reader of the table is spared; each file to be opened counts as 4 MiB."
    )
    ratio: float = Field(ge=0, description="Bytes rewritten for each byte saved, 32 MiB for the commits included.")


class MaintainedTable(Report):
    """What is done, or would be, with one table of the lake, in this order."""

    table: str = Field(description="Name of the table: a mirror, or one beside it.")
    rewrite: RewriteStep | None = Field(default=None, description="Files rewritten; null: that does not pay.")
    manifests: int = Field(default=0, ge=0, description="Manifests rewritten.")
    marked: bool = Field(
        default=False, description="Whether the head got its marker again, which another tool's commit was without."
    )
    snapshots: int = Field(default=0, ge=0, description="Snapshots expired.")
    snapshots_kept: int = Field(default=0, ge=0, description="Snapshots that are left.")
    foreign_commits: int = Field(
        default=0,
        ge=0,
        description="Commits of other programs that changed rows since the newest batch; `cdcm verify` says what they "
        "did. The next run does not tell them again once the head is marked.",
    )
    orphans: int | None = Field(
        default=None,
        description="Files deleted that belong to no snapshot; null: they were not looked for, or not yet.",
    )
    orphans_due: bool = Field(default=False, description="Whether they are looked for.")
    orphans_left: str | None = Field(default=None, description="Why they are not looked for although it is time.")
    seconds: float = Field(default=0.0, ge=0, description="Wall-clock seconds.")
    error: ErrorInfo | None = Field(default=None, description="Why it was left as it is, or is done in part.")


class MaintainReport(Report):
    """What ``cdcm maintain`` did, or with ``--plan`` would do."""

    pipeline: str = Field(description="Name of the pipeline.")
    planned: bool = Field(description="True where this is a plan, and nothing was changed.")
    tables: list[MaintainedTable] = Field(
        default_factory=list, description="One entry a table that is there, those of one mirror together."
    )
    exit_code: int = Field(default=0, exclude=True, description="What the command exits with; no part of the document.")
