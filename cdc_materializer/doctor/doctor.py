"""`cdcm doctor`: looks at everything that a run needs, and says how to mend what is wrong; without Spark.

One check after the other, from the machine to the tables. What fails is a finding and never the end: later checks that
depend on it are left out. A problem has the exit code of a run that would meet it; warnings are for people to judge.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_materializer import jars
from cdc_materializer.catalog.catalog import Tables, needs_spark, open_tables
from cdc_materializer.clocks import Clock, SystemClock
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.config.formats import AUTO
from cdc_materializer.config.values import reveal
from cdc_materializer.contract import lint, load_contract
from cdc_materializer.contract.model import Limit
from cdc_materializer.contract.relations import Elsewhere, columns_elsewhere
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.doctor.tables import check_rows, check_table
from cdc_materializer.doctor.topics import check_compacted, check_schemas, check_servers
from cdc_materializer.errors import (
    EXIT_LAKE,
    EXIT_USAGE,
    CdcError,
    Code,
    ConfigError,
    ContractInvalid,
    DifferenceFound,
    worst_exit_code,
)
from cdc_materializer.recognise import NO_REGISTRY, UNKNOWN_SCHEMA, Recognised, recognise
from cdc_materializer.registry import ADD_REGISTRY, RegisteredSchema, Registry, Wanted, open_registry
from cdc_materializer.registry.schemas import id_bytes_of
from cdc_materializer.report.models import VerifyReport
from cdc_materializer.report.remedies import REMEDIES
from cdc_materializer.report.setup_models import DoctorCheck, DoctorOutcome, DoctorReport
from cdc_materializer.report.wording import quantity
from cdc_materializer.source import Message, Source, TopicState, open_source, state_of
from cdc_materializer.source_settings import doubts
from cdc_materializer.status import configured_tables, exit_code_of_error

#: How many messages of each end of a topic are looked at.
SAMPLE_MESSAGES = 20
#: How many settings a finding names.
_PLACES_MAX = 5
#: An id to ask the registry for: any answer will do, that it does not know it too.
_SOME_ID = 1
_CLOCK = SystemClock()
_RESOLVE = "python -m cdc_materializer.jars"


def examine(
    path: Path,
    load: Callable[[Path], Config],
    *,
    rows: bool = False,
    fold: Callable[[Config], VerifyReport] | None = None,
    clock: Clock = _CLOCK,
) -> DoctorReport:
    """Make every check that can be made.

    Args:
        path: the pipeline's file.
        load: reads it.
        rows: whether to look through the keys of the mirrors' rows too.
        fold: compares the mirrors with what raw gives (`proof.verify_tables`); None where that is not to be looked at.
        clock: says what time it is.
    """
    checks = [*_machine()]
    try:
        config = load(path)
    except CdcError as error:
        return DoctorReport(pipeline=None, checks=[*checks, problem("configuration", error)])
    checks.append(fine("configuration", f"{path} can be followed."))
    checks += _plain_secrets(config)
    checks += _pipeline(config, clock, rows=rows)
    checks += _folded(config, fold) if fold is not None else []
    return DoctorReport(pipeline=config.name, checks=checks)


def exit_code(found: DoctorReport) -> int:
    """0 without a problem, else the worst of what a run would end with."""
    return worst_exit_code(check.exit_code for check in found.checks if check.outcome == "problem")


def fine(name: str, message: str, table: str | None = None) -> DoctorCheck:
    """A check that found nothing wrong."""
    return DoctorCheck(name=name, outcome="ok", message=message, table=table)


def problem(name: str, error: CdcError, table: str | None = None) -> DoctorCheck:
    """A check that ended with an error."""
    return DoctorCheck(
        name=name, outcome="problem", message=error.what, do=error.do, table=table, exit_code=error.exit_code
    )


# --- the machine
# ---------------------------------------------------------------------------------------------------------


def _machine() -> Iterator[DoctorCheck]:
    yield fine("Python", f"{platform.python_version()}.")
    try:
        java, version = jars.found_java()
        yield fine("Java", f"{version}, {java}.")
    except CdcError as error:
        yield problem("Java", error)
    yield _libraries()


def _libraries() -> DoctorCheck:
    found = jars.inspect()
    name, where = "Java libraries", f"in {found.folder}"
    if found.wrong:
        message = f"{', '.join(found.wrong)} {where}: the content is not what this version was tested with."
        do = f"Replace them by those of cdc_materializer/ivy.xml: remove the folder, then `{_RESOLVE}`."
        outcome: DoctorOutcome = "warning" if found.is_own else "problem"
        return DoctorCheck(name=name, outcome=outcome, message=message, do=do, exit_code=EXIT_USAGE)
    if found.is_own and not found.jars:
        message = f"There is no *.jar {where}, which CDCM_JARS names."
        do = "Put the libraries of cdc_materializer/ivy.xml there, or unset CDCM_JARS to have them downloaded."
        return DoctorCheck(name=name, outcome="problem", message=message, do=do, exit_code=EXIT_USAGE)
    if found.missing:
        message = (
            f"{len(found.missing)} are not {where}: {', '.join(found.missing[:3])}{' …' * (len(found.missing) > 3)}."  # noqa: PLR2004 - enough to see which
        )
        do = "Add them." if found.is_own else f"The first run downloads them (about 70 MB), as does `{_RESOLVE}`."
        return DoctorCheck(name=name, outcome="warning", message=message, do=do)
    return fine(name, f"{found.jars} with the right checksums, {where}.")


# --- the pipeline
# --------------------------------------------------------------------------------------------------------


def _plain_secrets(config: Config) -> Iterator[DoctorCheck]:
    """Tell of secrets that whoever reads the file, or its history in version control, knows."""
    places = config.plain_secrets
    if not places:
        return
    names = ", ".join(f"`{place}`" for place in places[:_PLACES_MAX]) + " …" * (len(places) > _PLACES_MAX)
    message = f"{config.path} has {quantity(len(places), 'secret')} as plain text: {names}."
    do = "Write `${NAME}` for an environment variable, or `${file:PATH}` for a file that this user alone may read."
    yield DoctorCheck(name="secrets", outcome="warning", message=message, do=do)


def _pipeline(config: Config, clock: Clock, *, rows: bool) -> Iterator[DoctorCheck]:
    try:
        source = open_source(config.source)
        topics = source.topics()
        yield fine("source", f"Answers, with {len(topics)} topics.")
        tables: tuple[TableConfig, ...] = configured_tables(config, (), source)
        answers: Source | None = source
    except CdcError as error:
        yield problem("source", error)
        tables = tuple(table for table in config.tables if not table.is_glob)
        answers = None
    registry_checks, registry = _registry(config)
    yield from registry_checks
    lake_checks, lake = _catalog(config, tables)
    yield from lake_checks
    # Of a source that does not answer, nobody knows which mirrors its globs stand for.
    elsewhere = columns_elsewhere(config, [table.mirror for table in tables]) if answers is not None else None
    for table in tables:
        yield from _contract(config, table, elsewhere)
        yield from _table(config, table, answers, registry, lake, clock)
        if rows:
            yield from _rows(table, lake)


def _rows(table: TableConfig, lake: Tables | None) -> Iterator[DoctorCheck]:
    name = str(table.mirror)
    if lake is None:
        do = f"`cdcm verify --table {name}` looks at them through Spark."
        yield DoctorCheck(name="rows", outcome="warning", message="Keys were not looked at.", do=do, table=name)
        return
    try:
        yield from check_rows(table, lake)
    except CdcError as error:
        yield problem("rows", error, name)


def _folded(config: Config, fold: Callable[[Config], VerifyReport]) -> Iterator[DoctorCheck]:
    """Whether mirrors are what the messages in raw give, less what is held."""
    try:
        found = fold(config)
    except CdcError as error:
        yield problem("fold", error)
        return
    for table in found.tables:
        name = table.table
        if table.error is not None:
            code = exit_code_of_error(table.error)
            message = f"{table.error.code}: {table.error.message}"
            yield DoctorCheck(name="fold", outcome="problem", message=message, table=name, exit_code=code)
        elif table.equal:
            yield fine("fold", f"Equal to the fold of {quantity(table.messages, 'message')}.", name)
        else:
            keys = table.missing + table.unexpected + table.different
            message = f"{quantity(keys, 'key')} of {name} differ from what raw gives."
            do = f"See `cdcm verify --table {name}`, which repairs them with `--repair`."
            code = DifferenceFound.exit_code
            yield DoctorCheck(name="fold", outcome="problem", message=message, do=do, table=name, exit_code=code)


def _contract(config: Config, table: TableConfig, elsewhere: Elsewhere | None) -> Iterator[DoctorCheck]:
    if table.contract is None:
        return
    name = str(table.mirror)
    key, names = table.known_key(), table.final_names
    (file,) = lint(table.contract, None, name, config.root, key, names, elsewhere).files
    if not file.problems:
        yield fine("contract", f"{file.path}: {file.columns} columns, {file.rules} rules.", name)
        return
    first = file.problems[0]
    at = f"has {quantity(len(file.problems), 'problem')}; line {first.line}" if first.line else "cannot be read"
    message = f"{file.path} {at}: {first.message}"
    do = f"{first.do} All of them: `cdcm contract lint`."
    yield DoctorCheck(name="contract", outcome="problem", message=message, do=do, table=name, exit_code=EXIT_USAGE)


@dataclass
class _Silent:
    """A registry that cannot be asked: who needs a schema of it learns that at once."""

    error: CdcError
    id_bytes: int
    found: tuple[SchemaName, ...] = ()
    place: str = ""

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:  # noqa: ARG002 - as every registry is asked
        """Find no schema.

        Raises:
            CdcError: what is wrong with the registry.
        """
        raise self.error


def _registry(config: Config) -> tuple[list[DoctorCheck], Registry | None]:
    if config.registry is None:
        return [], None
    try:
        registry = open_registry(config.registry)
        if registry is not None:
            registry.schema(_SOME_ID)
    except CdcError as error:
        return [problem("registry", error)], _Silent(error, id_bytes_of(config.registry.id))
    return [fine("registry", "Answers.")], registry


def _catalog(config: Config, tables: tuple[TableConfig, ...]) -> tuple[list[DoctorCheck], Tables | None]:
    checks = [*_warehouse(config)]
    if needs_spark(config.catalog):
        message = "Only Spark can open a catalog of this kind, so the tables were not looked at."
        do = "Look with `cdcm verify`, which starts Spark; `status`, `report`, `quarantine list` and `maintain` cannot."
        return [*checks, DoctorCheck(name="catalog", outcome="warning", message=message, do=do)], None
    try:
        lake = open_tables(config.catalog)
        for table in tables[:1]:
            lake.lines_of(table.mirror.raw)
    except CdcError as error:
        return [*checks, problem("catalog", error)], None
    return [*checks, fine("catalog", f"`{config.catalog.name}` answers.")], lake


def _warehouse(config: Config) -> Iterator[DoctorCheck]:
    """Whether a warehouse on this machine can be written to."""
    place = reveal(config.catalog.properties).get("warehouse", "")
    if not place.startswith("file://"):
        return
    folder = Path(place.removeprefix("file://"))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        yield fine("warehouse", f"{folder} can be written to.")
        return
    message = f"{there} cannot be written to, so no table can be made in {folder}."
    do = "Mend its permissions, or name another `warehouse` under `catalog`."
    yield DoctorCheck(name="warehouse", outcome="problem", message=message, do=do, exit_code=EXIT_LAKE)


def _table(
    config: Config,
    table: TableConfig,
    source: Source | None,
    registry: Registry | None,
    lake: Tables | None,
    clock: Clock,
) -> Iterator[DoctorCheck]:
    name = str(table.mirror)
    topic: TopicState | None = None
    if source is not None:
        try:
            topic = state_of(source, table.topic, table.topics)
            for one in table.topics or (table.topic,):
                yield from _looked_at(table, one, source.sample(one, SAMPLE_MESSAGES), registry)
            yield from check_servers(table)
            yield from check_compacted(table, lake, topic, source, clock.now())
        except CdcError as error:
            yield problem("topic", error, name)
    if lake is not None:
        try:
            yield from check_table(config.name, table, lake, topic, _limit(table), source)
            if registry is not None and not isinstance(registry, _Silent):
                yield from check_schemas(table, lake, registry)
        except CdcError as error:
            yield problem("tables", error, name)


def _limit(table: TableConfig) -> Limit | None:
    """How much of a batch may be held; of a contract that cannot be followed that was said."""
    if table.contract is None:
        return None
    try:
        return load_contract(table.contract, str(table.mirror)).max_quarantined
    except ContractInvalid:
        return None


def _looked_at(
    table: TableConfig, topic: str, messages: Sequence[Message], registry: Registry | None
) -> Iterator[DoctorCheck]:
    try:
        found = recognise(topic, messages, registry)
    except CdcError:
        if not isinstance(registry, _Silent):
            raise
        message = f"{topic} names its schemas by id, and the registry cannot be asked: its messages were not looked at."
        do = "See what is said of the registry."
        yield DoctorCheck(name="topic", outcome="warning", message=message, do=do, table=str(table.mirror))
        return
    yield from _messages(table, topic, found)


def _messages(table: TableConfig, topic: str, found: Recognised) -> Iterator[DoctorCheck]:
    """What a topic's messages say of the settings that they were written with."""
    name = str(table.mirror)
    # What is missing otherwise, the settings may say.
    is_set = found.reason != UNKNOWN_SCHEMA and (table.contract is not None or bool(table.key))
    if found.reason == NO_REGISTRY:
        yield problem("topic", ConfigError(f"{topic} cannot be read: {found.reason}.", ADD_REGISTRY), name)
    elif found.reason is not None and not is_set:
        message = f"{topic} cannot be mirrored as it is: {found.reason}."
        is_unknown = found.reason == UNKNOWN_SCHEMA
        do = REMEDIES[Code.SCHEMA_UNKNOWN] if is_unknown else "Mend the topic's connector, or the table's settings."
        yield DoctorCheck(name="topic", outcome="warning", message=message, do=do, table=name)
    elif found.why:
        yield fine("topic", f"{topic}: {found.why}.", name)
    else:
        yield fine("topic", f"{topic} is there.", name)
    if found.format is not None and table.format not in (AUTO, found.format):
        message = f"{topic} looks like `{found.format}`, and the table's `format` is `{table.format}`."
        do = f"Set `format: {found.format}`, unless you know better."
        yield DoctorCheck(name="topic", outcome="warning", message=message, do=do, table=name)
    for message, do in doubts(found, table):
        yield DoctorCheck(name="source settings", outcome="warning", message=message, do=do, table=name)
