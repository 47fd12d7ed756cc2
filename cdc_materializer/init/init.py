"""`cdcm init`: a pipeline.yaml and a contract a table, from what the topics show; without Spark.

Both ends of each table's topic are looked at (see `recognise`). What is written is read back before it gets its name,
so that it can be followed; a file that is there is never touched unless that is asked for.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cdc_materializer.config import load_config
from cdc_materializer.config.connections import web_address
from cdc_materializer.contract import lint
from cdc_materializer.errors import ConfigError, InvalidName, InvariantBroken, SourceUnavailable, UsageError
from cdc_materializer.init.contract import contract_text, is_personal
from cdc_materializer.init.pipeline import Entry, Place, pipeline_name, pipeline_text
from cdc_materializer.names import TableName, is_table_topic, nearest, shown
from cdc_materializer.observed import observe
from cdc_materializer.recognise import recognise
from cdc_materializer.registry import ConfluentRegistry, RecordedRegistry, Registry, RegistryAccess
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.setup_models import InitReport, InitTopic
from cdc_materializer.source import KafkaSource, RecordedSource, Source

#: How many messages are looked at, at each end of each partition.
SAMPLE_MESSAGES = 200
#: What Kafka allows as the name of a topic; a file with a recorded one can be called anything.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: So many names of topics are told where none matches.
_TOLD = 10
#: The folder of contracts, beside pipeline.yaml.
CONTRACTS = "contracts"
#: The folder of schemas beside recorded topics, where nobody names another.
SCHEMAS = "schemas"
#: What errors call a setting of the pipeline's file, and the option that stands for it here.
_OPTIONS = {
    "source.files in the configuration": "--files",
    "registry.files in the configuration": "--schemas",
    "under registry.files": "with --schemas",
    "registry.url": "--registry",
}
#: What to do about a file that is there already.
_ELSEWHERE = "Take it away, name another place with -c, or replace what is there with --force."
_KAFKA_SETTINGS = "under source.kafka"
_OF_KAFKA = (
    "Check --bootstrap and that the broker runs. Where it asks for TLS or a login, write the pipeline's file yourself, "
    "with their properties under `source.kafka`; after a run `cdcm init --raw` drafts the contracts."
)


@dataclass(frozen=True)
class Origin:
    """Where to look: a folder of recorded topics, or a broker; and where their schemas are.

    Attributes:
        files: the folder of recorded topics.
        schemas: the folder of recorded schemas; left out: `schemas` in that folder, if there is one.
        bootstrap: the broker's address.
        registry: the registry's address.
        topics: globs; only topics that one of them matches are looked at.
    """

    files: Path | None = None
    schemas: Path | None = None
    bootstrap: str | None = None
    registry: str | None = None
    topics: tuple[str, ...] = ("*",)


def initialise(
    origin: Origin, config: Path, *, force: bool = False, tell: Callable[[str], object] = lambda _: None
) -> InitReport:
    """Look at the topics and write the pipeline's file and its contracts.

    Args:
        origin: where to look.
        config: the pipeline's file; contracts go into a folder beside it.
        force: replace files that are there.
        tell: is told which topic is looked at.

    Raises:
        UsageError: it is not said where to look, no topic is like one that was named, or a file is there already.
        SourceUnavailable: the topics or their schemas cannot be read.
    """
    origin = _checked(origin)
    refuse_existing([config], force=force)
    with _options_named():
        source, registry = _opened(origin)
        existing = source.topics()
        entries = list(_entries(source, registry, _wanted(origin.topics, existing), tell))
    taken = [entry for entry in entries if entry.mirror is not None]
    name = pipeline_name([entry.found.topic for entry in taken])
    option = NextSteps(config).option
    written: list[Path] = []
    if taken:
        files = {
            config.parent / (entry.contract or ""): contract_text(
                entry.found, entry.mirror, entry.observed, option=option
            )
            for entry in taken
            if entry.mirror is not None
        }
        # The pipeline's file comes last: it is not there before all that it names is.
        files[config] = pipeline_text(name, _place(origin, config.absolute().parent), entries, option)
        refuse_existing(files, force=force)
        write_files(files, config.absolute().parent, config)
        written = [config, *(path for path in files if path != config)]
    return InitReport(
        pipeline=name, config=str(config), written=[str(path) for path in written], topics=[*map(told, entries)]
    )


@contextmanager
def _options_named() -> Iterator[None]:
    """Name the command's options where an error names settings of the pipeline's file: that is yet to be written."""
    try:
        yield
    except SourceUnavailable as error:
        do = _OF_KAFKA if _KAFKA_SETTINGS in error.do else error.do
        for setting, option in _OPTIONS.items():
            do = do.replace(setting, option)
        raise type(error)(error.what, do) from error


def _checked(origin: Origin) -> Origin:
    if (origin.files is None) == (origin.bootstrap is None):
        what = "Nothing says where to look." if origin.files is None else "Both a folder and a broker are named."
        raise UsageError(what, "Give --files FOLDER, or --bootstrap HOST:PORT with --registry URL.")
    if origin.registry is not None and origin.schemas is not None:
        raise UsageError("Both a registry and a folder of schemas are named.", "Give --registry or --schemas.")
    if origin.registry is not None:
        parts = web_address(origin.registry)
        if parts is None or "@" in parts.netloc:
            what = "The registry's address must begin with http:// or https://, and have no user or password in it."
            raise UsageError(
                what, "Where it asks for them, write the file yourself, with `basic_auth` under `registry`."
            )
    beside = origin.files / SCHEMAS if origin.files is not None else None
    if origin.schemas is None and origin.registry is None and beside is not None and beside.is_dir():
        return replace(origin, schemas=beside)
    return origin


def _opened(origin: Origin) -> tuple[Source, Registry | None]:
    source: Source = (
        RecordedSource(origin.files)
        if origin.files is not None
        else KafkaSource({"bootstrap.servers": origin.bootstrap or ""})
    )
    if origin.schemas is not None:
        return source, RecordedRegistry(origin.schemas)
    return source, None if origin.registry is None else ConfluentRegistry(RegistryAccess(origin.registry))


def _place(origin: Origin, root: Path) -> Place:
    """The origin as the file has it: folders relative to the file, where they are below it."""
    files, schemas = (None if path is None else _from(root, path) for path in (origin.files, origin.schemas))
    return Place(files, schemas, origin.bootstrap, origin.registry)


def _from(root: Path, path: Path) -> str:
    near = os.path.relpath(path.absolute(), root)
    return str(path.absolute()) if near.startswith("..") else near


def _wanted(globs: Sequence[str], existing: Sequence[str]) -> list[str]:
    """The topics of tables that the globs match, in the order of their names.

    Raises:
        UsageError: one of the user's globs matches none.
    """
    tables = [topic for topic in existing if is_table_topic(topic, existing)]
    for glob in globs:
        if glob == "*" or _matches(tables, glob):
            continue
        if _matches(existing, glob):
            what = f"`--topic {shown(glob)}` matches only topics that by their names carry no table's changes."
            raise UsageError(what, "Write its entry yourself, with a `mirror`; or name another topic.")
        near, more = nearest(glob, tables), len(tables) - _TOLD
        names = ", ".join(map(shown, tables[:_TOLD])) + (f" and {more} more" if more > 0 else "")
        do = f"Did you mean {shown(near)}?" if near else f"Topics of tables are {names or 'not there yet'}."
        raise UsageError(f"No topic matches `--topic {shown(glob)}`.", do)
    return [topic for topic in tables if any(fnmatch.fnmatchcase(topic, glob) for glob in globs)]


def _matches(topics: Sequence[str], glob: str) -> bool:
    return any(fnmatch.fnmatchcase(topic, glob) for topic in topics)


def _entries(
    source: Source, registry: Registry | None, topics: Sequence[str], tell: Callable[[str], object]
) -> Iterator[Entry]:
    mirrors: dict[str, str] = {}
    contracts: set[str] = set()
    for topic in topics:
        tell(topic)
        messages = source.sample(topic, SAMPLE_MESSAGES)
        found = recognise(topic, messages, registry)
        reason = found.reason if _TOPIC.fullmatch(topic) else "its name is none that a Kafka topic can have"
        if reason is not None:
            yield Entry(found, reason=reason)
            continue
        try:
            mirror = TableName.from_topic(topic)
        except InvalidName as error:
            yield Entry(found, reason=f"{error.what.rstrip('.')}; name another with `mirror:`")
            continue
        # Names that differ only in case would share a folder on some file systems.
        other = mirrors.setdefault(str(mirror).lower(), topic)
        if other != topic:
            yield Entry(found, reason=f"it would go to {mirror}, as {other} does: name another with `mirror:`")
            continue
        observed = observe(found, messages, registry, is_personal)
        yield Entry(found, mirror, contract_file(mirror, contracts), observed=observed)


def contract_file(mirror: TableName, taken: set[str]) -> str:
    """Name the contract after the table, with the namespace where another table has that name."""
    name = mirror.name if mirror.name.lower() not in taken else str(mirror)
    taken.add(name.lower())
    return f"{CONTRACTS}/{name}.yaml"


def told(entry: Entry) -> InitTopic:
    """A topic and what was made of it, for the report."""
    found = entry.found
    return InitTopic(
        topic=found.topic,
        mirror=None if entry.mirror is None else str(entry.mirror),
        contract=entry.contract,
        format=found.format,
        encoding=found.encoding,
        why=found.why,
        key=list(found.schema.key),
        columns=found.schema.types,
        remarks=list(found.remarks),
        reason=entry.reason,
    )


def refuse_existing(paths: Sequence[Path] | Mapping[Path, str], *, force: bool, do: str = _ELSEWHERE) -> None:
    """Raise UsageError where one of some files is there, unless it is to be replaced; `do` says what to do then."""
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        what = f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already; nothing was written."
        raise UsageError(what, do)


def write_files(files: Mapping[Path, str], root: Path, config: Path | None = None) -> None:
    """Write files below a folder, each whole or not at all, and none before all of them were read back.

    Args:
        files: what goes into them: contracts, and the pipeline's file last.
        root: the folder.
        config: the pipeline's file; None where it is not among them.

    Raises:
        UsageError: they cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cdcm-init-", dir=root) as work:
            staged = {path: Path(work) / path.absolute().relative_to(root) for path in files}
            for path, text in files.items():
                staged[path].parent.mkdir(exist_ok=True)
                staged[path].write_text(text, encoding="utf-8")
            _read_back(staged, config)
            for path in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                staged[path].replace(path)
    except OSError as error:
        what = f"{error.filename or root} cannot be written: {error.strerror}."
        raise UsageError(what, "Name another place with -c.") from error


def _read_back(staged: Mapping[Path, Path], config: Path | None) -> None:
    """See that the files can be followed: the configuration is read, the contracts are checked."""
    try:
        if config is not None:
            load_config(staged[config])
    except ConfigError as error:
        raise InvariantBroken(f"The drafted configuration cannot be read: {error.what}", "Please report it.") from error
    for path, file in staged.items():
        problems = [problem for found in lint(file).files for problem in found.problems] if path != config else []
        if problems:
            what = f"The drafted contract {path.name} cannot be followed: line {problems[0].line}."
            raise InvariantBroken(what, "Please report it, with the schema of the topic.")
