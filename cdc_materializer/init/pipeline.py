"""The pipeline.yaml that `cdcm init` writes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_materializer.init.text import comment, comment_with, commented, scalar
from cdc_materializer.names import TableName
from cdc_materializer.observed import Observed
from cdc_materializer.recognise import Recognised


@dataclass(frozen=True)
class Place:
    """Where messages and schemas come from, as the file says it: folders, or addresses."""

    files: str | None = None
    schemas: str | None = None
    bootstrap: str | None = None
    registry: str | None = None

    @property
    def shown(self) -> str:
        """The source, for words."""
        return self.files or self.bootstrap or ""


@dataclass(frozen=True)
class Entry:
    """A topic and what is made of it: a mirror with a contract and what its rows showed, or why not.

    `origin` says in words which messages were looked at.
    """

    found: Recognised
    mirror: TableName | None = None
    contract: str | None = None
    reason: str | None = None
    observed: Mapping[str, Observed] = field(default_factory=dict)
    origin: str | None = None


def pipeline_text(name: str, place: Place, entries: Sequence[Entry], option: str = "") -> str:
    """Return pipeline.yaml: every topic that can be mirrored, and the others as comments with the reason.

    Args:
        name: the pipeline's name.
        place: where messages and schemas come from.
        entries: the topics.
        option: what comes behind a command, where the file is not the one that is looked for.
    """
    lines = [
        *comment(f"Written by `cdcm init` from what the topics of {place.shown} show."),
        comment_with(f"cdcm doctor{option}", "Check the set-up with"),
        comment_with(f"cdcm run{option}", "Bring the mirrors up to the ends of the topics with"),
        f"name: {_value(name)}",
        "source:",
        *_source(place),
        *_registry(place),
        "# The catalog is left out, so it is SQLite in ./lake, and the tables are in ./lake/warehouse.",
        "tables:",
    ]
    for entry in entries:
        lines += _table(entry)
    return "\n".join(lines) + "\n"


def pipeline_name(topics: Sequence[str]) -> str:
    """Return a name for the pipeline: the connector's prefix where all topics have one, `pipeline` otherwise."""
    prefixes = {topic.partition(".")[0] for topic in topics}
    only = prefixes.pop() if len(prefixes) == 1 else ""
    return only if re.fullmatch(r"\w[\w-]{0,127}", only) else "pipeline"


def _source(place: Place) -> Iterator[str]:
    if place.files is not None:
        yield f"  files: {_value(place.files)} # a folder of recorded topics"
    else:
        yield "  kafka: # any Kafka client property"
        yield f"    bootstrap.servers: {_value(place.bootstrap or '')}"


def _registry(place: Place) -> Iterator[str]:
    if place.schemas is not None:
        yield from ("registry:", f"  files: {_value(place.schemas)} # a folder of recorded schemas")
    elif place.registry is not None:
        yield from ("registry:", f"  url: {_value(place.registry)}")


def _value(text: str) -> str:
    """A scalar in which nothing is taken from the environment."""
    return scalar(text.replace("${", "$${"))


def _table(entry: Entry) -> Iterator[str]:
    topic = f"- topic: {_value(entry.found.topic)}"
    if entry.mirror is None:
        yield from comment(f"Not taken: {entry.reason}.", 2)
        yield from commented([topic], 2)
        return
    yield from comment(f"{entry.found.why}.", 2)
    for remark in entry.found.remarks:
        yield from comment(f"{remark}.", 2)
    yield f"  {topic}"
    yield f"    mirror: {_value(str(entry.mirror))}"
    if entry.found.format not in (None, "debezium"):
        yield f"    format: {entry.found.format}"
    yield f"    contract: {_value(entry.contract or '')}"
