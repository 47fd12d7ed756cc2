"""What a terminal shows while a command works; nothing at all where nobody watches."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from cdc_materializer.cli.output import Output
from cdc_materializer.errors import CdcError

if TYPE_CHECKING:
    from cdc_materializer.batch.steps import Batch
    from cdc_materializer.config import Config, TableConfig
    from cdc_materializer.run.run import RunOptions


class _Display:
    """Shown between enter and exit, on standard error: a spinner, what is worked on, columns, and the time it takes."""

    def __init__(self, output: Output, *columns: ProgressColumn) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *columns,
            TimeElapsedColumn(),
            console=output.err,
            transient=True,
            disable=not output.shows_progress,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Steps(_Display):
    """One line that says what is being done, and for how long."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._task: TaskID | None = None

    def begin(self, what: str) -> None:
        """Say what is being done from now on."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what)


class RunProgress(_Display):
    """One bar a table: the messages done of all that waited when the run began."""

    def __init__(self, output: Output) -> None:
        super().__init__(output, BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("messages"))
        self._shown = output.shows_progress
        self._tasks: dict[str, TaskID] = {}
        self._turn = threading.Lock()

    def expect(self, config: "Config", options: "RunOptions") -> None:
        """Find out, beside the start of Spark, how much there is to do."""
        if self._shown:
            threading.Thread(target=self._ask, args=(config, options), daemon=True).start()

    def _ask(self, config: "Config", options: "RunOptions") -> None:
        from cdc_materializer.progress import backlogs
        from cdc_materializer.run.run import open_work

        # What goes wrong here goes wrong in the run as well, which tells it.
        with suppress(CdcError):
            work = open_work(config, options, refuse=False)
            for backlog in backlogs(config, work.source, work.tables):
                if not backlog.is_done:
                    self._bar(str(backlog.table.mirror), backlog.messages)

    def advance(self, table: "TableConfig", batch: "Batch") -> None:
        """Take note of a published batch; called from the tables' own threads."""
        name = str(table.mirror)
        self._progress.advance(self._bar(name, None), sum(batch.counts.values()))

    def _bar(self, name: str, total: int | None) -> TaskID:
        with self._turn:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=total)
            elif total is not None:
                self._progress.update(self._tasks[name], total=total)
            return self._tasks[name]

    def pause(self) -> None:
        """Clear the bars: what they counted towards has been reached."""
        with self._turn:
            for task in self._tasks.values():
                self._progress.remove_task(task)
            self._tasks.clear()
