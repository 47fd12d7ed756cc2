"""A folder of recorded topics (design section 4.3), which behaves as a broker.

A topic is one file, `<topic>.jsonl` or `<topic>.jsonl.gz`. The driver checks every line once, so that a wrong one is
named by its number, and keeps what it found while the file stays as it was; Spark reads the messages themselves.
"""

import binascii
import gzip
import json
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeGuard, cast

from cdc_materializer.errors import SourceUnavailable, TopicMissing
from cdc_materializer.names import nearest
from cdc_materializer.offsets import Offsets
from cdc_materializer.source.failures import READ_REFUSED
from cdc_materializer.source.messages import MESSAGE_COLUMNS, MESSAGE_SCHEMA, Message, TopicState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cdc_materializer.offsets import Span

_SUFFIXES = (".jsonl", ".jsonl.gz")
#: The column that takes a line which Spark's JSON reader could not read.
_BROKEN = "__cdc_broken"
#: Spark's JSON reader refuses longer strings than this option says; by default it stops at 20 million characters.
_STRING_LENGTH_MAX = 2**31 - 1
_CORRECT_LINE = "Correct the line, or record the topic again."


@dataclass(slots=True)
class _Scan:
    """What is known of a file after its complete lines were checked up to a byte."""

    stamp: tuple[int, int, int]  # inode, size, time of the last change
    position: int = 0
    lines: int = 0
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    last_line: bytes = b""


class RecordedSource:
    """A folder of recorded topics; see `Source` for what it promises.

    A partition exists once it has a message: an empty file has none, so its first message can have any offset.
    Holes between offsets are no gap. A line that is cut at the end of the file is not there yet.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder; nothing is read yet."""
        self._folder = folder
        self._scans: dict[Path, _Scan] = {}

    def topics(self) -> tuple[str, ...]:
        """List the topics by their files; see `Source.topics`."""
        return tuple(sorted(self._files()))

    def state(self, topic: str) -> TopicState:
        """Check the topic's lines and say where it begins and ends; see `Source.state`.

        Raises:
            SourceUnavailable: a line is no message of this topic, or offsets do not rise within a partition; the
                file and the number of the line are named, its content never.
        """
        scan = self._scan(self._file(topic))
        ends = {partition: offset + 1 for partition, offset in scan.last.items()}
        return TopicState(topic, None, Offsets(scan.first), Offsets(ends))

    def sample(self, topic: str, count: int) -> tuple[Message, ...]:
        """Take messages from both ends of the file, partition by partition; see `Source.sample`."""
        path = self._file(topic)
        complete = self._scan(path).position
        first: dict[int, list[Message]] = {}
        last: dict[int, deque[Message]] = {}
        with closing(_opened(path)) as file:
            for line in _lines(file, complete):
                message = _message(line)
                if len(first.setdefault(message.partition, [])) < count:
                    first[message.partition].append(message)
                else:
                    last.setdefault(message.partition, deque(maxlen=count)).append(message)
        taken = [message for part in (*first.values(), *last.values()) for message in part]
        return tuple(sorted(taken, key=lambda message: (message.offset, message.partition)))

    def is_compacted(self, topic: str) -> bool:
        """Say no: nothing removes lines; see `Source.is_compacted`."""
        self._file(topic)
        return False

    def deletes_kept(self, topic: str) -> None:
        """Say that it is not compacted; see `Source.deletes_kept`."""
        self._file(topic)

    def read(self, spark: "SparkSession", span: "Span") -> "DataFrame":
        """Let Spark read the span's lines; see `Source.read`."""
        from pyspark.sql import functions as sf

        path = self._file(span.topic)
        if path.name.startswith(("_", ".")):
            what = f"Spark does not read files whose name begins with `{path.name[0]}`, such as {path}."
            raise SourceUnavailable(what, "Only tables' topics are read; record the topic under another name.")
        self._check_held(path, span)
        lines = (
            spark.read.schema(f"{MESSAGE_SCHEMA}, {_BROKEN} STRING")
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", _BROKEN)
            .option("lineSep", "\n")
            .option("maxStringLen", _STRING_LENGTH_MAX)
            .json(_literal_path(path))
        )
        broken = sf.col(_BROKEN).isNotNull() & ~_is_cut(sf.col(_BROKEN))
        refusal = sf.raise_error(sf.lit(f"{READ_REFUSED}{path} changed while it was read."))
        kept = sf.when(broken, refusal.cast("boolean")).otherwise(_in_span(span))
        return lines.where(kept).select(*MESSAGE_COLUMNS)

    def _check_held(self, path: Path, span: "Span") -> None:
        """Refuse a span that the file no longer holds: Spark would find fewer messages and say nothing."""
        scan = self._scan(path)
        for partition, start, end in span.ranges():
            if partition not in scan.first or start < scan.first[partition] or end > scan.last[partition] + 1:
                what = f"The recorded topic {path} was changed and no longer holds what was planned to be read."
                raise SourceUnavailable(what, "Run again; if messages are gone, the next run says so.")

    def _files(self) -> dict[str, list[Path]]:
        try:
            paths = sorted(self._folder.iterdir())
        except OSError as error:
            what = f"The folder of recorded topics {self._folder} cannot be read ({error.strerror})."
            raise SourceUnavailable(what, "Correct source.files in the configuration.") from error
        files: dict[str, list[Path]] = {}
        for path in paths:
            suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
            if suffix is not None and path.is_file():
                files.setdefault(path.name.removesuffix(suffix), []).append(path)
        return files

    def _file(self, topic: str) -> Path:
        """Find the topic's one file; a name is only ever compared, so it cannot lead out of the folder."""
        files = self._files()
        if topic not in files:
            near = nearest(topic, files)
            hint = f" Did you mean {near}?" if near else ""
            what = f"There is no recorded topic {topic} in {self._folder}.{hint}"
            raise TopicMissing(what, f"Put {topic}.jsonl there, or correct the topic under tables.")
        found = files[topic]
        if len(found) > 1:
            what = f"The topic {topic} is recorded twice, in {' and '.join(str(path) for path in found)}."
            raise SourceUnavailable(what, "Keep one of the two files.")
        return found[0]

    def _scan(self, path: Path) -> _Scan:
        """Check the lines that were not checked yet."""
        try:
            status = path.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            scan = self._scans.get(path)
            if scan is None or scan.stamp != stamp:
                scan = self._continued(path, stamp)
                self._scans.pop(path, None)
                _check_lines(path, scan)
                self._scans[path] = scan
        except (OSError, EOFError, zlib.error) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not a complete file"
            what = f"The recorded topic {path} cannot be read ({reason})."
            raise SourceUnavailable(what, "Restore the file, or correct its permissions.") from error
        return scan

    def _continued(self, path: Path, stamp: tuple[int, int, int]) -> _Scan:
        """Go on after the last checked line where the file only grew; begin anew where it is another one."""
        known = self._scans.get(path)
        if known is None or path.suffix == ".gz" or not known.last_line.endswith(b"\n"):
            return _Scan(stamp)
        if known.stamp[0] != stamp[0]:
            return _Scan(stamp)
        with path.open("rb") as file:
            file.seek(known.position - len(known.last_line))
            if file.read(len(known.last_line)) != known.last_line:
                return _Scan(stamp)
        return _Scan(stamp, known.position, known.lines, dict(known.first), dict(known.last), known.last_line)


def _check_lines(path: Path, scan: _Scan) -> None:
    """Check what follows the scan's position and note it there; a line that is cut at the end is left for later."""
    topic = _topic(path)
    with closing(_opened(path)) as file:
        file.seek(scan.position)
        for line in file:
            if not line.endswith(b"\n") and _parsed(line) is None:
                return
            scan.lines += 1
            scan.position += len(line)
            scan.last_line = line
            fault = None if line.isspace() else _fault(line, topic, scan)
            if fault is not None:
                what = f"The recorded topic {path}, line {scan.lines}: {fault}."
                raise SourceUnavailable(what, _CORRECT_LINE)


def _fault(line: bytes, topic: str, scan: _Scan) -> str | None:
    """Say what is wrong with a line, without its content; note the offset of a right one."""
    message = _parsed(line)
    if message is None:
        return "it is not a JSON object"
    for name in ("topic", "partition", "offset", "key", "value"):
        if name not in message:
            return f"it has no `{name}`"
    partition, offset = message["partition"], message["offset"]
    if message["topic"] != topic:
        return "its `topic` is not the one that the file is named after"
    if not (_is_number(partition, 31) and _is_number(offset, 63)):
        return "`partition` and `offset` must be whole numbers from zero up"
    last = scan.last.get(partition, -1)
    if offset <= last:
        return f"offset {offset} of partition {partition} comes after offset {last}; offsets must rise"
    scan.first.setdefault(partition, offset)
    scan.last[partition] = offset
    return _content_fault(message)


def _content_fault(message: dict[str, object]) -> str | None:
    """Say which field Spark could not read as its type: it would turn it into null or lose the line."""
    for name in ("key", "value"):
        if not _is_bytes(message[name]):
            return f"`{name}` must be base64 or null"
    if not _is_instant(message.get("timestamp")):
        return "`timestamp` must be like 2026-11-21T10:00:00.123Z"
    kind = message.get("timestampType")
    if kind is not None and not _is_number(kind, 31):
        return "`timestampType` must be a number"
    headers = message.get("headers")
    if headers is not None and not (isinstance(headers, list) and all(map(_is_header, headers))):
        return "`headers` must be a list of objects with `key` (text) and `value` (base64 or null), or null"
    return None


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _lines(file: IO[bytes], complete: int) -> Iterator[bytes]:
    """The lines up to a byte that have something in them."""
    position = 0
    while position < complete and (line := file.readline()):
        position += len(line)
        if not line.isspace():
            yield line


def _message(line: bytes) -> Message:
    """The message of a line that was checked."""
    found = json.loads(line)
    octets = [None if found[name] is None else binascii.a2b_base64(found[name]) for name in ("key", "value")]
    return Message(found["partition"], found["offset"], *octets)


def _is_number(value: object, bits: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**bits


def _is_bytes(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return True


def _is_instant(value: object) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_header(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("key"), str) and _is_bytes(value.get("value", False))


def _topic(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _literal_path(path: Path) -> str:
    """Name a local file for Spark, which would take some characters of a path for a pattern."""
    escaped = "".join(f"\\{character}" if character in "{}[]*?\\" else character for character in str(path.resolve()))
    return f"file://{escaped}"


def _in_span(span: "Span") -> "Column":
    from pyspark.sql import functions as sf

    partition, offset = sf.col("partition"), sf.col("offset")
    within = sf.lit(False)
    for number, start, end in span.ranges():
        within = within | ((partition == number) & (offset >= start) & (offset < end))
    return within


def _is_cut(line: "Column") -> "Column":
    """Tell a line that is still being written from one that the driver read and Spark cannot: its braces are open."""
    from pyspark.sql import functions as sf

    opened, closed = (sf.size(sf.split(line, brace)) for brace in (r"\{", r"\}"))
    return ~sf.rtrim(line).endswith("}") | (opened > closed)
