"""Golden cases: the data of `tests/cases` through the real pipeline. A case is added there, without code.

All chosen cases go through one run, each as a table of its own, so that they share the session and run side by side;
a case with `cut` goes a second time in batches of that many messages, so that every boundary between them is hit. Cases
with `cut_if_asked` do so too when the environment variable CDCM_TESTS is `all`.
"""

import functools
import itertools
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.config import Config, load_config
from cdc_materializer.report.models import TableRun, TableVerify
from cdc_materializer.run import run_once
from cdc_materializer.verify import verify_tables
from tests.cases.recording import Case, Recorder, cases, write_schemas
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")
_ALL = os.environ.get("CDCM_TESTS") == "all"
_numbers = itertools.count()


@dataclass
class State:
    """What a table looks like after a run, in the terms of expected.yaml."""

    run: TableRun
    exit_code: int
    rows: list[dict[str, Any]] | None
    types: dict[str, str]
    quarantine: list[dict[str, Any]]
    history: list[dict[str, Any]]
    raw: int
    verified: TableVerify | None = None


@dataclass
class Passage:
    """One case on its way through the pipeline, whole or cut."""

    case: Case
    cut: bool
    topic: str
    table: str
    recorder: Recorder = field(init=False)
    states: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the recorder that keeps the topic's messages."""
        self.recorder = Recorder(self.case, self.topic)

    def entry(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        settings = {**self.case.data.get("table", {}), **step.get("table", {})}
        contract = {"contract": str(self.case.contract)} if self.case.contract else {}
        limit = {"records_max": self.case.cut} if self.cut else {}
        return {"topic": self.topic, "mirror": self.table, **settings, **contract, **limit}

    def record(self, folder: Path, step: Mapping[str, Any]) -> None:
        """Append the step's messages to the topic, and register what it registers."""
        self.recorder.unregistered -= set(step.get("register", []))
        if step.get("topic") == "again":
            self.recorder.begin_again()
        for message in step.get("messages", []):
            self.recorder.add(message)
        self.recorder.forget(step.get("forget", 0))
        self.recorder.builder.write(folder)
        write_schemas(folder / "schemas", self.recorder.schemas())


def _passage_parameters() -> list[Any]:
    found = []
    for case in cases():
        marks = [pytest.mark.xfail(reason=case.data["xfail"])] if "xfail" in case.data else []
        for cut in [False, True] if case.cut else [False]:
            name = f"{case.number:04d}_{case.name}{'-cut' if cut else ''}"
            found.append(pytest.param((case.number, cut), id=name, marks=marks))
    return found


@pytest.fixture(scope="module")
def passages(
    request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config
) -> dict[tuple[int, bool], Passage]:
    """The chosen cases, gone through all their steps; those that stop a table run alone, for their exit code's sake."""
    chosen = {
        item.callspec.params["which"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    space = f"cases_{next(_numbers)}"
    every = {
        (case.number, cut): Passage(case, cut, f"{space}.c{case.number:04d}{'cut' if cut else ''}.{case.name}", "")
        for case in cases()
        for cut in (False, True)
        if (case.number, cut) in chosen
    }
    for passage in every.values():
        passage.table = f"{space}.{passage.case.name}{'_cut' if passage.cut else ''}"
    together = [passage for passage in every.values() if not passage.case.stops]
    for group in [together, *([passage] for passage in every.values() if passage.case.stops)]:
        _walk(group, spark, lake_config)
    return every


def _walk(group: list[Passage], spark: "SparkSession", lake_config: Config) -> None:
    folder = lake_config.root / f"cases_{next(_numbers)}"
    for at in range(max((len(passage.case.steps) for passage in group), default=0)):
        going = [passage for passage in group if at < len(passage.case.steps)]
        (folder / "schemas" / "ids").mkdir(parents=True, exist_ok=True)
        for passage in going:
            passage.record(folder, passage.case.steps[at])
        path = lake_config.root / f"{folder.name}.yaml"
        source = {"source": {"files": folder.name}, "registry": {"files": f"{folder.name}/schemas"}}
        tables = [passage.entry(passage.case.steps[at]) for passage in going]
        path.write_text(yaml.safe_dump({"name": "cases", **source, "tables": tables}), encoding="utf-8")
        config = load_config(path)
        for passage in going:
            if passage.case.steps[at].get("adopt"):
                adopt_table(config, passage.table, Decision("a test", datetime.now(UTC), "as the case says"), spark)
        report = run_once(config, spark)
        with ThreadPoolExecutor(4) as pool:
            look = functools.partial(_state, spark, report.exit_code)
            states = list(pool.map(look, report.tables))
        for passage, state in zip(going, states, strict=True):
            passage.states.append(state)
        # Where batches looked into their past, `verify`, which does not, has to find the same; it costs a batch a case.
        last = [passage for passage in going if _ALL or passage.cut if at == len(passage.case.steps) - 1]
        with ThreadPoolExecutor(4) as pool:
            verify = functools.partial(_verified, spark, config)
            for passage, verified in zip(last, pool.map(verify, last), strict=True):
                passage.states[-1].verified = verified


def _state(spark: "SparkSession", exit_code: int, run: TableRun) -> State:
    mirror = f"lake.{run.table}"
    exists = spark.catalog.tableExists(mirror)
    types = {kind.name: kind.dataType.simpleString() for kind in spark.table(mirror).schema} if exists else {}
    rows = [_plain(row.asDict(recursive=True)) for row in _readable(spark, mirror, types)] if exists else None
    held = []
    if spark.catalog.tableExists(f"{mirror}__quarantine"):
        held = [_plain(row.asDict()) for row in spark.table(f"{mirror}__quarantine").collect()]
    raw = spark.table(f"{mirror}__raw").count() if spark.catalog.tableExists(f"{mirror}__raw") else 0
    return State(run, exit_code, rows, types, held, _changes(spark, mirror), raw)


def _changes(spark: "SparkSession", mirror: str) -> list[dict[str, Any]]:
    if not spark.catalog.tableExists(f"{mirror}__history"):
        return []
    return [_plain(row.asDict(recursive=True)) for row in spark.table(f"{mirror}__history").collect()]


def _verified(spark: "SparkSession", config: Config, passage: Passage) -> TableVerify:
    return verify_tables(config, spark, [passage.table]).tables[0]


def _readable(spark: "SparkSession", mirror: str, types: Mapping[str, str]) -> list["Row"]:
    # Instants as text: as Python values they would be in the machine's own time zone.
    columns = [F.col(name).cast("string") if kind == "timestamp" else F.col(name) for name, kind in types.items()]
    return (
        spark.table(mirror).select(*[column.alias(name) for column, name in zip(columns, types, strict=True)]).collect()
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value) if isinstance(value, Decimal) else value


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def _seen(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with as much of `__cdc` as is expected of the row of the same values."""
    asked = sorted({name for row in expected for name in row.get("__cdc", {})})
    cut = []
    for row in rows:
        cdc = {name: row["__cdc"][name] for name in asked}
        cut.append({**{name: part for name, part in row.items() if name != "__cdc"}, **({"__cdc": cdc} if cdc else {})})
    return cut


@pytest.mark.parametrize("which", _passage_parameters())
def test_a_case_ends_as_it_says(passages: dict[tuple[int, bool], Passage], which: tuple[int, bool]) -> None:
    """After each step the mirror, the counts and the quarantine are those of expected.yaml."""
    passage = passages[which]
    messages = 0
    assert len(passage.states) == len(passage.case.expected), "expected.yaml has one document a step"
    for step, state, expected in zip(passage.case.steps, passage.states, passage.case.expected, strict=True):
        messages += sum(1 for message in step.get("messages", []) if "skip" not in message)
        _check_stop(state, expected)
        _check_rows(state, expected)
        _check_counts(state, expected, cut=passage.cut)
        _check_quarantine(state, expected, cut=passage.cut)
        _check_history(state, expected)
        assert state.raw == expected.get("raw", messages), "every message is in raw, once"
        assert state.verified is None or state.verified.equal, state.verified


def _check_history(state: State, expected: Mapping[str, Any]) -> None:
    wanted = _plain(expected.get("history", []))
    asked = {name for row in wanted for name in row} | {"op"}
    found = [{name: row[name] for name in asked if row[name] is not None} for row in state.history]
    assert _ordered(found) == _ordered(
        [{name: part for name, part in row.items() if part is not None} for row in wanted]
    )


def _check_stop(state: State, expected: Mapping[str, Any]) -> None:
    found = state.run.error
    assert (found.code if found else None) == expected.get("error"), found
    assert state.exit_code == expected.get("exit", 0)


def _check_rows(state: State, expected: Mapping[str, Any]) -> None:
    if expected["rows"] is None:
        assert state.rows is None, "there is a mirror"
        return
    wanted = _plain(expected["rows"])
    found = state.rows or []
    assert _ordered(_seen(found, wanted)) == _ordered(wanted)
    for name, ddl in expected.get("types", {}).items():
        assert (name, state.types.get(name)) == (name, ddl)


def _check_counts(state: State, expected: Mapping[str, Any], *, cut: bool) -> None:
    counts = {name: getattr(state.run, name) for name in OUTCOMES}
    assert sum(counts.values()) == state.run.read
    wanted = expected.get("counts_cut" if cut else "counts", expected.get("counts", {}) if not cut else None)
    if wanted is None:
        assert state.run.read == sum(expected.get("counts", {}).values())
        return
    assert {name: count for name, count in counts.items() if count} == wanted


def _check_quarantine(state: State, expected: Mapping[str, Any], *, cut: bool) -> None:
    wanted = expected.get("quarantine_cut") if cut else None
    wanted = expected.get("quarantine", []) if wanted is None else wanted
    asked = sorted({name for row in wanted for name in row} | {"offset", "code", "status"})
    found = [{name: row[name] for name in asked if row[name] is not None} for row in state.quarantine]
    wanted = [{name: part for name, part in row.items() if part is not None} for row in wanted]
    assert _ordered(found) == _ordered(wanted)
