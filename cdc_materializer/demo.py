"""`cdcm demo`: the whole job on topics recorded from a real database, in a folder of its own.

What it shows is the product itself: the same configuration, the same run, report and verify as anywhere else. Only the
last step is the demo's own: the mirrors are compared with what the database itself answered when it was recorded.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from pydantic import Field

from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import EXIT_DIFFERENCE, EXIT_DONE, UsageError, worst_exit_code
from cdc_materializer.names import RESERVED_COLUMN_PREFIX
from cdc_materializer.progress import backlogs
from cdc_materializer.report.groups import OPEN
from cdc_materializer.report.html import to_html
from cdc_materializer.report.models import Report, RunReport, VerifyReport
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.violation_models import ViolationReport
from cdc_materializer.review import review
from cdc_materializer.status import exit_code_of
from cdc_materializer.truth import Compared, compare, read_truth

_FILE = "pipeline.yaml"
_PAGE = "report.html"
_TRUTH = "truth"
_NEXT = {
    "report": "what broke the contract, where it is, and what to do about it",
    "quarantine list": "every message that is held back",
    "status": "how far each table is, what it holds, and its files",
    "quarantine release shop.payments": (
        "once you have raised the limit in {folder}/contracts/payments.yaml: judges the payment again, and lets it"
        " through"
    ),
}
#: Not for the user's folder: the truth is what the demo is held to, and the code of the package is no data.
_STAYS = frozenset({_TRUTH, "__pycache__", "__init__.py", "README.md"})


class HeldRow(Report):
    """One row that the demo's mirrors do not show as the database has it, and why."""

    table: str = Field(description="Name of the mirror.")
    key: str = Field(description="The row's primary key.")
    code: str = Field(description="Violation code.")
    rule: str | None = Field(default=None, description="Rule of the contract.")
    columns: list[str] = Field(description="Columns that differ from the database; empty: the row is not there.")
    why: str = Field(description="What happened, for people who see it the first time.")


class MirrorProof(Report):
    """One mirror beside the database's own answer."""

    table: str = Field(description="Name of the mirror.")
    rows: int = Field(ge=0, description="Rows that the database has.")
    equal: int = Field(ge=0, description="Rows of which every value is the same in the mirror.")
    held: list[HeldRow] = Field(default_factory=list, description="Rows that differ, as their quarantine row says.")
    wrong: list[str] = Field(default_factory=list, description="Keys of rows that differ and should not.")
    extra_columns: list[str] = Field(
        default_factory=list, description="Columns that the database dropped or renamed; the mirror keeps them."
    )


class NextCommand(Report):
    """A command worth trying next."""

    command: str = Field(description="The command, to be run from where the demo was started.")
    shows: str = Field(description="What it shows.")


class DemoReport(Report):
    """What ``cdcm demo`` did and found."""

    folder: str = Field(description="Where the demo is.")
    run: RunReport = Field(description="What the run did.")
    violations: ViolationReport = Field(description="The contract-violation report.")
    page: str = Field(description="File with the same report as an HTML page.")
    verify: VerifyReport | None = Field(
        description="Whether the mirrors equal the fold of their raw tables; null: nothing new had come since."
    )
    truth: list[MirrorProof] = Field(description="The mirrors beside the database's own answer.")
    next: list[NextCommand] = Field(description="Commands worth trying next.")


def run_demo(folder: Path, step: Callable[[str], None] = lambda _: None, program: str = "cdcm") -> DemoReport:
    """Run the demo in a folder; again in the same one it goes on, and finds nothing new.

    Args:
        folder: a new or empty folder, or that of an earlier demo.
        step: told what is being done now.
        program: how the user starts `cdcm`, for the commands to try next.

    Raises:
        UsageError: the folder has something else in it.
        CdcError: as `run_once` and `verify_tables`.
    """
    prepare(folder)
    config = load_config(folder / _FILE)
    step("Looking for what is new")
    run, verify = _work(config, step)
    step("Comparing with the database's own answer")
    lake = open_tables(config.catalog)
    violations = review(config, datetime.now(UTC))
    steps = NextSteps(folder / _FILE)
    (folder / _PAGE).write_text(to_html(violations, steps), encoding="utf-8")
    return DemoReport(
        folder=str(folder),
        run=run,
        violations=violations,
        page=str(folder / _PAGE),
        verify=verify,
        truth=[prove(lake, table) for table in config.tables],
        next=[
            NextCommand(command=f"{program} {words}{steps.option}", shows=shows.format(folder=folder))
            for words, shows in _NEXT.items()
        ],
    )


def _work(config: Config, step: Callable[[str], None]) -> tuple[RunReport, VerifyReport | None]:
    """Run and verify in one Spark session; without Spark, and without a verify, where nothing has come."""
    from cdc_materializer.run.run import RunOptions, open_work, run_once

    work = open_work(config, RunOptions())
    if all(backlog.is_done for backlog in backlogs(config, work.source, work.tables)):
        return run_once(config), None
    from cdc_materializer.proof.proof import verify_tables
    from cdc_materializer.session.watch import opened

    step("Starting Spark (the first time it fetches 70 MB of Java libraries)")
    _preload()
    with opened(config, small=True) as spark:
        step("Bringing the mirrors up to the end of their topics")
        run = run_once(config, spark=spark)
        step("Verifying: folding every message again")
        return run, verify_tables(config, spark=spark)


def exit_code(found: DemoReport) -> int:
    """0 if everything is as the demo promises, else as `run` and `verify` say."""
    verified = exit_code_of(found.verify) if found.verify is not None else EXIT_DONE
    wrong = any(proof.wrong for proof in found.truth)
    return worst_exit_code([found.run.exit_code, verified, EXIT_DIFFERENCE if wrong else EXIT_DONE])


def prepare(folder: Path) -> None:
    """Put the demo's files into a folder, those that are not there yet: what the user changed stays.

    Raises:
        UsageError: the folder is not empty and not an earlier demo's, or cannot be written.
    """
    data = files(__package__) / "demo_data"
    signature = (data / _FILE).read_text(encoding="utf-8").splitlines()[0]
    try:
        if not _is_ours(folder, signature):
            raise UsageError(
                f"The folder {folder} has other files in it; the demo needs one of its own.",
                "Name another one: cdcm demo DIR.",
            )
        for place, source in _shipped(data):
            target = folder / place
            if not target.exists():
                _copy(source, target)
    except OSError as error:
        raise UsageError(f"The folder {folder} cannot be written: {error.strerror}.", "Name another one.") from error


def _is_ours(folder: Path, signature: str) -> bool:
    if not folder.exists() or not any(folder.iterdir()):
        return True
    with suppress(FileNotFoundError, UnicodeDecodeError):
        return (folder / _FILE).read_text(encoding="utf-8").startswith(signature)
    return False


def _shipped(data: Traversable, place: str = "") -> Iterator[tuple[str, Traversable]]:
    """Give the demo's files; pipeline.yaml first, by which a folder is known as ours if this is cut short."""
    for entry in sorted(data.iterdir(), key=lambda found: (found.name != _FILE, found.name)):
        if place == "" and entry.name in _STAYS:
            continue
        here = f"{place}{entry.name}"
        if entry.is_dir():
            yield from _shipped(entry, f"{here}/")
        else:
            yield here, entry


def _copy(source: Traversable, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.part")
    with as_file(source) as path:
        shutil.copyfile(path, beside)
    beside.replace(target)


def _preload() -> None:
    # Great Expectations takes seconds to import, as Spark does to start; neither waits for the other.
    from cdc_materializer.contract.judge import preload

    threading.Thread(target=preload, daemon=True).start()


# --- the proof ------------------------------------------------------------------------------------------------------


def prove(lake: Tables, table: TableConfig) -> MirrorProof:
    """Compare one mirror with the recorded truth; rows that differ must be in quarantine.

    A mirror that is not there, because the run failed, has no rows.
    """
    truth = read_truth(files(__package__) / "demo_data" / _TRUTH, table.mirror.name)
    mirror = lake.load(table.mirror)
    fields = mirror.schema().fields if mirror is not None else ()
    columns = [field.name for field in fields if not field.name.startswith(RESERVED_COLUMN_PREFIX)]
    rows = lake.rows(mirror, columns).to_pylist() if mirror is not None else []
    found = compare(truth, columns, rows)
    held = list(_held(lake, table, found))
    explained = {row.key for row in held}
    return MirrorProof(
        table=str(table.mirror),
        rows=len(truth.rows),
        equal=found.equal,
        held=held,
        wrong=[key for key in (*found.missing, *found.different, *found.unexpected) if key not in explained],
        extra_columns=list(found.extra),
    )


def _held(lake: Tables, table: TableConfig, found: Compared) -> Iterator[HeldRow]:
    """Give the rows that are missing or different and have an open row in quarantine."""
    rows = lake.values_of(table.mirror.quarantine, ["key", "code", "rule", "column", "status"]) or []
    reasons = {_plain_key(row["key"]): row for row in rows if row["status"] == OPEN and row["key"]}
    for key in (*found.missing, *found.different):
        if key in reasons:
            code, rule = reasons[key]["code"], reasons[key]["rule"]
            yield HeldRow(
                table=str(table.mirror),
                key=key,
                code=code,
                rule=rule,
                columns=list(found.different.get(key, ())),
                why=_STORIES.get((str(table.mirror), key, code), "Its last change is held in quarantine."),
            )


def _plain_key(text: str) -> str:
    return ", ".join(str(value) for value in json.loads(text).values())


#: What happened to the rows that the recorded history makes the line hold back.
_STORIES = {
    ("shop.customers", "1", "SCHEMA_INCOMPATIBLE"): (
        "The database changed the type of `tier` from number to text and then wrote a word into it; "
        "the mirror's column takes numbers, so the change waits, and with it the next ones of the row."
    ),
    ("shop.orders", "1", "SCHEMA_INCOMPATIBLE"): (
        "The database widened `amount` from two decimals to four and then wrote a value that needs all four; "
        "rounding it would be a lie, so the change waits."
    ),
    ("shop.payments", "50", "CONTRACT"): (
        "The contract says that no payment is above a million, and this one is: a typing mistake, or a rule that is "
        "too strict. Readers do not see the payment until somebody decides which."
    ),
}
