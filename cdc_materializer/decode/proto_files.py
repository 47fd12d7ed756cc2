"""Registered Protobuf schemas as their authors wrote them, compiled on the driver: a text and those that it imports.

`protoc` does it, in a process of its own: it is the one compiler whose answer is right by definition, and a text from a
registry can be anything. The process sees an empty folder with those texts in it and nothing else of the machine, and
has little memory and little time.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from cdc_materializer.decode.wire import WireSchemaInvalid

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

#: How long all texts of one schema may be together, in characters; the longest that a connector writes is a hundredth.
TEXT_MAX = 4_000_000
#: What the compiler may use; a schema of four thousand columns takes 0.2 seconds and 80 MB.
MEMORY_MAX = 1 << 30
CPU_SECONDS_MAX = 10
#: On a machine that is busy with other things those ten seconds may take longer.
SECONDS_MAX = 120
#: How many schemas are kept compiled, and how long their texts may be together, in characters.
KEPT_MAX = 1024
KEPT_LENGTH_MAX = 4 * TEXT_MAX
_INVALID = "the registered text is not a Protobuf schema that can be read"
_MAIN = "__cdc_message.proto"
_COMPILE = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_MAX}, {MEMORY_MAX}))
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS_MAX}, {CPU_SECONDS_MAX}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from grpc_tools import protoc
sys.exit(protoc.main(sys.argv))
"""


def bundle(text: str, others: Mapping[str, str]) -> str:
    """One text of a schema's own and of all that it builds on, by the names under which they are imported."""
    return json.dumps({"text": text, "imports": dict(others)}) if others else text


def _unbundled(bundled: str) -> tuple[str, dict[str, str]]:
    # A text in Protobuf's language never begins like that.
    if not bundled.startswith("{"):
        return bundled, {}
    found = json.loads(bundled)
    return found["text"], found["imports"]


class _InterruptedError(WireSchemaInvalid):
    """Raised where the compiler did not come to an end, which it may do the next time."""


class _Kept:
    """What became of the schemas that were asked for last: their files, or why there are none."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[FileDescriptorProto, ...] | str] = {}
        self._length = 0
        self._lock = threading.Lock()

    def get(self, bundled: str) -> tuple[FileDescriptorProto, ...] | str | None:
        """What became of one; None where that is not known any more."""
        with self._lock:
            found = self._found.pop(bundled, None)
            if found is not None:
                self._found[bundled] = found
            return found

    def add(self, bundled: str, found: tuple[FileDescriptorProto, ...] | str) -> None:
        """Keep what became of one, in place of those that nobody has asked for for the longest time."""
        with self._lock:
            self._length += len(bundled) if bundled not in self._found else 0
            self._found[bundled] = found
            while self._length > KEPT_LENGTH_MAX or len(self._found) > KEPT_MAX:
                oldest = next(iter(self._found))
                del self._found[oldest]
                self._length -= len(oldest)


_KEPT = _Kept()


def compiled(bundled: str) -> tuple[FileDescriptorProto, ...]:
    """The files of a schema (`bundle`), each behind those that it imports; the last is the schema's own.

    Raises:
        WireSchemaInvalid: the text is none that protoc takes, or it takes too much of it.
    """
    found = _KEPT.get(bundled)
    if found is None:
        try:
            found = _compiled(bundled)
        except _InterruptedError:
            raise
        except WireSchemaInvalid as refused:
            found = str(refused)
        _KEPT.add(bundled, found)
    if isinstance(found, str):
        raise WireSchemaInvalid(found)
    return found


def _compiled(bundled: str) -> tuple[FileDescriptorProto, ...]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    confluent_meta()  # without which its options are read as unknown ones
    try:
        text, imports = _unbundled(bundled)
        is_long = sum(map(len, (text, *imports.values()))) > TEXT_MAX
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _invalid() from error
    if is_long:
        message = "the schema is too long with all that it refers to"
        raise WireSchemaInvalid(message)
    with tempfile.TemporaryDirectory(prefix="cdcm-protobuf-") as folder:
        compiled_set = _protoc(Path(folder), {**imports, _MAIN: text})
    try:
        return tuple(FileDescriptorSet.FromString(compiled_set).file)
    except DecodeError as error:
        # It has options of its own under the numbers of Confluent's.
        raise _invalid() from error


def _protoc(folder: Path, texts: Mapping[str, str]) -> bytes:
    sources, known, out = folder / "sources", folder / "known", folder / "out"
    sources.mkdir()
    for name, text in texts.items():
        _write(sources, name, text)
    known.write_bytes(_built_in())
    # -I: no module of a folder that this process was started in can come between.
    command = [sys.executable, "-I", "-c", _COMPILE, f"--proto_path={sources}", f"--descriptor_set_in={known}"]
    command += ["--include_imports", f"--descriptor_set_out={out}", _MAIN]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS_MAX, cwd=sources)
    except subprocess.TimeoutExpired as error:
        raise _InterruptedError(_INVALID) from error
    if done.returncode or not out.is_file():
        raise _invalid()
    return out.read_bytes()


def _write(folder: Path, name: str, text: str) -> None:
    """Put one text where an import of its name looks for it.

    Raises:
        WireSchemaInvalid: no import has such a name.
    """
    steps = PurePosixPath(name)
    if steps.is_absolute() or ".." in steps.parts or not steps.parts or "\0" in name or "\\" in name:
        raise _invalid()
    path = folder / steps
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        # One name is another one's folder, or it is longer than a file's can be.
        raise _invalid() from error


def _invalid() -> WireSchemaInvalid:
    return WireSchemaInvalid(_INVALID)


def confluent_meta() -> Any:  # noqa: ANN401 - a generated module
    """The module of the options that Confluent's converter writes beside a field (`confluent/meta.proto`)."""
    # The package around it imports its HTTP client, which warns of things that do not concern us.
    with warnings.catch_warnings(record=True):
        from confluent_kafka.schema_registry.confluent import meta_pb2
    return meta_pb2


@functools.cache
def _built_in() -> bytes:
    """The files that a registry knows without being told, so that no schema names them as references."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = FileDescriptorSet()
    for module in _built_in_modules():
        found.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    octets: bytes = found.SerializeToString(deterministic=True)
    return octets


def _built_in_modules() -> list[Any]:
    """Their modules, each behind those that it imports."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.type import date_pb2, dayofweek_pb2, decimal_pb2, latlng_pb2, money_pb2, month_pb2, timeofday_pb2

    google = [descriptor_pb2, any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2]
    types = [date_pb2, dayofweek_pb2, decimal_pb2, latlng_pb2, money_pb2, month_pb2, timeofday_pb2]
    with warnings.catch_warnings(record=True):
        from confluent_kafka.schema_registry.confluent.type import decimal_pb2 as connect_decimal_pb2
    return [*google, *types, confluent_meta(), connect_decimal_pb2]
