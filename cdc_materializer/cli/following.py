"""`cdcm run --follow`: the rounds so far as one report, and each as lines."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import needs_spark
from cdc_materializer.cli.output import now
from cdc_materializer.errors import worst_exit_code
from cdc_materializer.report.models import RunReport, TableRun
from cdc_materializer.status import exit_code_of_error

if TYPE_CHECKING:
    from cdc_materializer.config import Config
    from cdc_materializer.run.run import RunOptions

_SUMS = (
    "batches",
    "read",
    "upserted",
    "deleted",
    "unchanged",
    "superseded",
    "replayed",
    "ignored",
    "quarantined",
    "swept",
    "foreign_commits",
)


def maintaining(config: "Config", options: "RunOptions") -> "RunOptions":
    """The same options, with maintenance between the batches where it is asked for, and can be planned (`maintain`)."""
    if not config.maintenance.follow or needs_spark(config.catalog):
        return options
    from cdc_materializer.maintain import Between, MaintainOptions

    between = Between(config, MaintainOptions(now, is_over=lambda: options.is_over))
    return replace(options, between=between.after)


class Following:
    """Adds up the rounds of a run that goes on and on; holds one entry a table, however long it goes."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._tables: dict[str, TableRun] = {}
        self._failures: dict[str, int] = {}

    def add(self, found: RunReport) -> None:
        """Take a round in."""
        for run in found.tables:
            known = self._tables.get(run.table)
            self._tables[run.table] = run if known is None else added(known, run)
            self._failures.pop(run.table, None)
            if run.error is not None:
                self._failures[run.table] = exit_code_of_error(run.error)

    def report(self) -> RunReport:
        """All rounds as one: sums, and the last state of each table."""
        return RunReport(pipeline=self._pipeline, tables=list(self._tables.values()), exit_code=self.exit_code)

    @property
    def exit_code(self) -> int:
        """The worst of the tables that had failed when they were last worked on."""
        return worst_exit_code(self._failures.values())

    def failures(self, found: RunReport) -> Iterator[str]:
        """What failed in a round, one line a table."""
        for run in found.tables:
            if run.error is not None:
                yield f"{run.table}: {run.error.code}: {run.error.message}"

    def lines(self, found: RunReport) -> Iterator[str]:
        """What a round did, one line a table that had something to do; what failed comes first."""
        yield from self.failures(found)
        for run in found.tables:
            if run.error is None and run.batches:
                counts = ", ".join(f"{getattr(run, name)} {name}" for name in _SUMS[2:-1] if getattr(run, name))
                yield f"{run.table}: read {run.read} in {run.seconds:.1f} s: {counts or 'nothing to change'}"


def added(known: TableRun, later: TableRun) -> TableRun:
    """Two rounds of one table as one: the sums of both, the state of the later."""
    codes = {*known.violations, *later.violations}
    update = {
        **{name: getattr(known, name) + getattr(later, name) for name in _SUMS},
        "violations": {code: known.violations.get(code, 0) + later.violations.get(code, 0) for code in sorted(codes)},
        "seconds": round(known.seconds + later.seconds, 3),
        "raw_snapshot": later.raw_snapshot or known.raw_snapshot,
        "mirror_snapshot": later.mirror_snapshot or known.mirror_snapshot,
    }
    return later.model_copy(update=update)
