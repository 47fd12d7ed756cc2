"""Golden cases on their way through the real pipeline: whole, cut, with each batch crashing once, and sent again.

Cases go through one run side by side, each as a table of its own, so that they share the session and its planning.
"""

import functools
import itertools
import math
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from cdc_materializer import pipeline
from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.batch.steps import Batch
from cdc_materializer.changes import model as m
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import CdcError
from cdc_materializer.explain.explain import fates
from cdc_materializer.explain.log import log_of
from cdc_materializer.lake import lake
from cdc_materializer.line.line import Line
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.report.models import TableRun, TableVerify
from cdc_materializer.report.replay_models import TableReplay
from cdc_materializer.run.run import run_once
from cdc_materializer.source import TopicState
from tests.cases.case import FOLDER, Case
from tests.cases.recording import Recorder
from tests.cases.schemas import write_schemas
from tests.model.positions import position
from tests.spark.soundness import made_by_others, what_is_unsound

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ALL = os.environ.get("CDCM_TESTS") == "all"
#: The ways in which a case goes: as it is; in small batches; each batch crashing before its publication, and again;
#: each step's messages sent once more, which changes no row; and as it is in Avro, or in JSON without a schema, where
#: the case is in JSON that has one.
WHOLE, CUT, CRASHED, RESENT, AVRO, PLAIN = "whole", "cut", "crashed", "resent", "avro", "plain"
#: The contract that then gives the types.
_PLAIN_CONTRACT = FOLDER / "plain" / "contract.yaml"
#: In at most so many batches does a step go by default when it is cut; with CDCM_TESTS=all in as many as the case says.
_BATCHES = 4
#: The cases that go cut by default too: those of the fold itself. The later ones take three times as long.
_CUT_BY_DEFAULT = range(60)
#: What expected.yaml has of every message's fate, at the end of a case, and what case.yaml says where it has none.
WHY, WHY_STOPS = "why", "why_stops"
#: What the hashes of masked columns are keyed with; those in expected.yaml are made with it.
_MASK_KEY = "the key of golden cases"
_numbers = itertools.count()


def ways(case: Case) -> list[str]:
    """The ways that a case goes by default, or with CDCM_TESTS=all."""
    asked = case.data.get("also", [])
    found = [WHOLE, *([CUT] if case.cut and (ALL or CUT in asked or case.number in _CUT_BY_DEFAULT) else [])]
    found += [CRASHED] if CRASHED in asked or ALL else []
    found += [RESENT] if RESENT in asked or (ALL and _can_be_sent_again(case)) else []
    return [*found, *[way for way in (AVRO, PLAIN) if way in asked]]


def _can_be_sent_again(case: Case) -> bool:
    """Whether every message of a case is told by its position when it comes again; snapshot rows are not."""
    messages = [message for step in case.steps for message in step.get("messages", [])]
    told = all(
        str(message.get("op", "")).lower() in {"c", "u", "d", "t"} and _has_position(message)
        for message in messages
        if not message.get("tombstone")
    )
    is_plain = not {"table", "unregistered", "not_resent"} & set(case.data) and case.contract is None
    return told and is_plain and not case.stops and all(set(step) == {"messages"} for step in case.steps)


def _has_position(message: Mapping[str, Any]) -> bool:
    """Whether a change tells its place in the database's log; PostgreSQL's has a number, unless the case takes it."""
    source = message.get("source", {})
    if source.get("connector", "postgresql") == "postgresql":
        return message.get("lsn", 0) is not None
    return position({"ts_ms": message.get("ts_ms", 0), **source}) is not None


#: What became of a message, by its partition and offset.
Fate: TypeAlias = tuple[int, int, str]
#: A message as raw has it: topic, offset, key and value. (Of several topics raw numbers the partitions anew.)
Stored: TypeAlias = tuple[str, int, bytes | None, bytes | None]


@dataclass
class State:
    """What a table looks like after a run, in the terms of expected.yaml."""

    run: TableRun
    exit_code: int
    rows: list[dict[str, Any]] | None
    types: dict[str, str]
    quarantine: list[dict[str, Any]]
    history: list[dict[str, Any]]
    raw: list[Stored]
    unsound: list[str]
    others: list[int]
    verified: TableVerify | None = None
    #: Or what `why` stopped for.
    fates: list[Fate] | CdcError | None = None
    replayed: TableReplay | None = None


@dataclass
class Passage:
    """One case on its way through the pipeline."""

    case: Case
    way: str
    topic: str
    table: str
    #: Whether it is rebuilt at its end, where it goes as it is; with CDCM_TESTS=all each is.
    replays: bool = ALL
    recorder: Recorder = field(init=False)
    states: list[State] = field(default_factory=list)
    #: What the topic had by each step.
    sent: list[list[Stored]] = field(default_factory=list)
    #: Whether one of its batches was done twice.
    has_crashed: bool = False

    def __post_init__(self) -> None:
        """Make the recorder that keeps the topic's messages."""
        self.recorder = Recorder(self.case, self.topic)

    @property
    def is_cut(self) -> bool:
        """Whether it goes in small batches."""
        return self.way == CUT

    @property
    def has_mirror(self) -> bool:
        """Whether its last step left a mirror."""
        return bool(self.states) and self.states[-1].rows is not None

    @property
    def is_told(self) -> bool:
        """Whether `why` is asked for all messages: a fold more, so by default where the case says what it tells."""
        is_wanted = WHY in self.case.expected[-1] or WHY_STOPS in self.case.data
        return self.has_mirror and (is_wanted or ALL) and (self.way == WHOLE or (is_wanted and ALL))

    @property
    def is_replayed(self) -> bool:
        """Whether its mirror is rebuilt at its end: a replay takes as long as the case."""
        return self.replays and self.way == WHOLE and self.has_mirror

    @property
    def limit(self) -> int | None:
        """The most messages of a batch; None where it goes whole."""
        if not self.is_cut or self.case.cut is None:
            return None
        if ALL or any("quarantine_cut" in expected for expected in self.case.expected):
            return self.case.cut
        most = max(len(step.get("messages", [])) for step in self.case.steps)
        return max(self.case.cut, math.ceil(most / _BATCHES))

    def entry(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        settings = {**self.case.data.get("table", {}), **step.get("table", {})}
        named = self.case.contract.with_name(step.get("contract", "contract.yaml")) if self.case.contract else None
        contract = {"contract": str(named)} if named else {}
        limit = {"records_max": self.limit} if self.limit is not None else {}
        topic = f"{self.topic}.*" if self.case.data.get("several_topics") else self.topic
        return {"topic": topic, "mirror": self.table, **settings, **contract, **limit}

    def record(self, folder: Path, step: Mapping[str, Any]) -> None:
        """Append the step's messages to the topic, and register what it registers."""
        self.recorder.unregistered -= set(step.get("register", []))
        self.recorder.replaced = step.get("replaced", self.recorder.replaced)
        self.recorder.begin_step()
        if step.get("topic") == "again":
            self.recorder.begin_again()
        for message in step.get("messages", []):
            self.recorder.add(message)
        self.recorder.forget(step.get("forget", 0))
        if self.way == RESENT:
            self.recorder.repeat()
        self.sent.append([(one.topic, one.offset, one.key, one.value) for one in self.recorder.messages()])
        self.recorder.write(folder)
        write_schemas(folder / "schemas", self.recorder.schemas(), self.recorder.other_schemas())


def passages(
    chosen: Sequence[tuple[Case, str]], spark: "SparkSession", config: Config, replayed: Collection[int] = ()
) -> list[Passage]:
    """The chosen cases and ways, gone through all their steps; those of the numbers `replayed` are rebuilt at the end.

    Those that stop go with others that stop with the same exit codes, for that is the command's.
    """
    space = f"cases_{next(_numbers)}"
    every = []
    for case, way in chosen:
        # A contract may name the table.
        home = space if way == WHOLE else f"{space}_{way}"
        gone = _encoded(case, way)
        topic, replays = f"{home}.c{case.number:04d}.{case.name}", ALL or case.number in replayed
        every.append(Passage(gone, way, topic, f"{home}.{case.name}", replays))
    groups: dict[tuple[bool, str, tuple[int, ...]], list[Passage]] = {}
    for passage in every:
        exits = tuple(one.get("exit", 0) for one in passage.case.expected) if passage.case.stops else ()
        groups.setdefault((passage.way == CRASHED, passage.case.registry_id, exits), []).append(passage)
    for (crashes, _, _), group in groups.items():
        with _each_batch_crashes_once() if crashes else _nothing() as crashed:
            walk(group, spark, config)
        for passage in group:
            passage.has_crashed = passage.table in crashed
    return every


def _encoded(case: Case, way: str) -> Case:
    """A case in the encoding of a way."""
    if way == AVRO:
        return replace(case, data={**case.data, "encoding": "avro"})
    if way == PLAIN:
        return replace(case, data={**case.data, "encoding": "json-plain"}, contract=_PLAIN_CONTRACT)
    return case


@contextmanager
def _nothing() -> Iterator[set[str]]:
    yield set()


class _Crash(Exception):
    """The end of a process, as far as a batch can tell."""


@contextmanager
def _each_batch_crashes_once() -> Iterator[set[str]]:
    """Do each batch twice, the first time all but the last step, in which its mirror would be published; of which."""
    armed, crashed = threading.local(), set[str]()
    advance, publish = pipeline.advance, lake.Lake._fast_forward

    def crashing(self: lake.Lake, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it is
        if getattr(armed, "mirror", None) in [str(getattr(argument, "name", "")) for argument in arguments]:
            crashed.add(armed.mirror)
            raise _Crash
        return publish(self, *arguments, **options)

    def twice(line: Line, topic: TopicState) -> Batch | None:
        armed.mirror = str(line.mirror)
        try:
            return advance(line, topic)
        except _Crash:
            armed.mirror = None
            return advance(line, topic)
        finally:
            armed.mirror = None

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lake.Lake, "_fast_forward", crashing)
        patched.setattr(pipeline, "advance", twice)
        yield crashed


def walk(group: Sequence[Passage], spark: "SparkSession", config: Config) -> None:
    """Take passages through their steps, side by side."""
    folder = config.root / f"cases_{next(_numbers)}"
    for at in range(max((len(passage.case.steps) for passage in group), default=0)):
        going = [passage for passage in group if at < len(passage.case.steps)]
        (folder / "schemas" / "ids").mkdir(parents=True, exist_ok=True)
        for passage in going:
            passage.record(folder, passage.case.steps[at])
        path = config.root / f"{folder.name}.yaml"
        registry = {"files": f"{folder.name}/schemas", "id": group[0].case.registry_id}
        source = {"source": {"files": folder.name}, "registry": registry, "masks": {"key": _MASK_KEY}}
        tables = [passage.entry(passage.case.steps[at]) for passage in going]
        path.write_text(yaml.safe_dump({"name": "cases", **source, "tables": tables}), encoding="utf-8")
        loaded = load_config(path)
        for passage in going:
            if passage.case.steps[at].get("adopt"):
                adopt_table(loaded, passage.table, Decision("a test", datetime.now(UTC), "as the case says"), spark)
        report = run_once(loaded, spark)
        with ThreadPoolExecutor(4) as pool:
            look = functools.partial(_state, spark, loaded, report.exit_code)
            states = list(pool.map(look, report.tables))
        for passage, state in zip(going, states, strict=True):
            passage.states.append(state)
        # Where batches looked into their past, `verify`, which does not, has to find the same; it costs a batch a case.
        ended = [passage for passage in going if at == len(passage.case.steps) - 1]
        last = [passage for passage in ended if ALL or passage.way in (CUT, CRASHED)]
        with ThreadPoolExecutor(4) as pool:
            verify = functools.partial(_verified, spark, loaded)
            for passage, verified in zip(last, pool.map(verify, last), strict=True):
                passage.states[-1].verified = verified
        with ThreadPoolExecutor(4) as pool:
            told = [one for one in ended if one.is_told]
            tell = functools.partial(_fates, spark, loaded)
            for passage, fates in zip(told, pool.map(tell, told), strict=True):
                passage.states[-1].fates = fates
        for passage in ended:
            if passage.is_replayed:
                found = replay_tables(loaded, (passage.table,), ReplayOptions(), spark)
                passage.states[-1].replayed = found.tables[0]


def _state(spark: "SparkSession", config: Config, exit_code: int, run: TableRun) -> State:
    mirror = f"lake.{run.table}"
    exists = spark.catalog.tableExists(mirror)
    types = {kind.name: kind.dataType.simpleString() for kind in spark.table(mirror).schema} if exists else {}
    rows = [plain(row.asDict(recursive=True)) for row in _readable(spark, mirror, types)] if exists else None
    held = []
    if spark.catalog.tableExists(f"{mirror}__quarantine"):
        held = [plain(row.asDict()) for row in spark.table(f"{mirror}__quarantine").collect()]
    has_raw = spark.catalog.tableExists(f"{mirror}__raw")
    stored = spark.table(f"{mirror}__raw").select("topic", "offset", "key", "value").collect() if has_raw else []
    raw = [(row["topic"], row["offset"], _octets(row["key"]), _octets(row["value"])) for row in stored]
    name = TableName.parse(run.table)
    unsound, others = what_is_unsound(config, name), made_by_others(config, name)
    return State(run, exit_code, rows, types, held, _changes(spark, mirror), raw, unsound, others)


def _octets(found: bytearray | None) -> bytes | None:
    return None if found is None else bytes(found)


def _changes(spark: "SparkSession", mirror: str) -> list[dict[str, Any]]:
    if not spark.catalog.tableExists(f"{mirror}__history"):
        return []
    return [plain(row.asDict(recursive=True)) for row in spark.table(f"{mirror}__history").collect()]


def _verified(spark: "SparkSession", config: Config, passage: Passage) -> TableVerify:
    return verify_tables(config, spark, VerifyOptions([passage.table])).tables[0]


def _fates(spark: "SparkSession", config: Config, passage: Passage) -> list[Fate] | CdcError:
    try:
        with log_of(config, passage.table, spark) as log, fates(log) as found:
            rows = found.select("partition", "offset", "outcome").collect()
    except CdcError as error:
        return error
    return sorted((row["partition"], row["offset"], row["outcome"]) for row in rows)


def _readable(spark: "SparkSession", mirror: str, types: Mapping[str, str]) -> list["Row"]:
    # Instants as text: as Python values they would be in the machine's own time zone.
    columns = [m.column(name).cast("string") if kind == "timestamp" else m.column(name) for name, kind in types.items()]
    return (
        spark.table(mirror).select(*[column.alias(name) for column, name in zip(columns, types, strict=True)]).collect()
    )


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """A value as YAML has it: structs as mappings, decimals and times as text."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value) if isinstance(value, Decimal) else value
