"""What anyone can put into a topic or a registry, given to what reads it first: no bytes may do harm.

A target takes bytes and gives nothing back; it raises only where the code is wrong. `run.py` has atheris choose the
bytes by which of the code they reach, `tests/unit/test_fuzz.py` has hypothesis choose them.
"""

import itertools
import time
from collections.abc import Callable, Mapping

from pyspark.sql import Row

from cdc_materializer.changes.messages import check_readable
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.naming import ID_BYTES, LEGACY_ID_BYTES, NAME_BYTES_MAX, SchemaName, named_in_bytes
from cdc_materializer.decode.proto_files import bundle
from cdc_materializer.decode.protobuf import translation
from cdc_materializer.decode.wire import WireSchemaInvalid
from cdc_materializer.decode.writers import SCHEMA_LENGTH_MAX, Writer, avro_writer, block_writer, json_writer
from cdc_materializer.decoders.decoders import Lookup, decoders_of
from cdc_materializer.errors import EXIT_BUG, CdcError
from cdc_materializer.recognise import recognise
from cdc_materializer.registry.fingerprints import fingerprint_of
from cdc_materializer.registry.references import Reference, Registered
from cdc_materializer.source import Message
from cdc_materializer.testing import MemoryRegistry

_SECONDS_MAX = 20
_KINDS = ("AVRO", "JSON", "PROTOBUF")
_PROTOBUF = bundle(
    'syntax = "proto3"; message A { int64 a = 1; message B { int64 b = 1; } } message C { bytes c = 1; }', {}
)


def framing(data: bytes) -> None:
    """The first bytes of a key or value: what they name is a name, and what is behind it begins inside of them."""
    for id_bytes in (ID_BYTES, LEGACY_ID_BYTES):
        name, begin = named_in_bytes(data, id_bytes)
        assert 0 <= begin <= len(data)
        if name is not None:
            assert SchemaName.parse(str(name)) == name
            _ask_of(name)


def headers(data: bytes) -> None:
    """A header's bytes as each kind of name: it can be asked what it is, and one that is too long is no name."""
    text = data.hex().upper()
    _ask_of(SchemaName("encoding", text))
    _ask_of(SchemaName("hash", text))
    assert not (len(data) > NAME_BYTES_MAX and SchemaName("hash", text).is_possible)
    group, _, rest = data.partition(b"/")
    artifact, _, version = rest.partition(b"/")
    _ask_of(SchemaName("artifact", "/".join(part.hex().upper() for part in (group, artifact, version))))


def schemas(data: bytes) -> None:
    """A registered text or a schema block: a decoder of bounded size, or the one error that holds its messages."""
    text = data.decode("utf-8", "replace")
    makers: Mapping[str, Callable[[str, str], Writer]] = {
        "id:1": avro_writer,
        "block:1": block_writer,
        "id:2": json_writer,
    }
    for selector, make in makers.items():
        start = time.monotonic()
        try:
            writer = make(selector, text)
            check_readable(writer, Options())
        except WireSchemaInvalid:
            continue
        finally:
            assert time.monotonic() - start < _SECONDS_MAX
        assert len(writer.avro or "") <= 4 * SCHEMA_LENGTH_MAX


def indexes(data: bytes) -> None:
    """Which message of a Protobuf file it is: one that it has, or the error that holds the message."""
    try:
        found = translation(_PROTOBUF, data)
    except WireSchemaInvalid:
        return
    assert found.program


def references(data: bytes) -> None:
    """Lines as schemas, each of which refers to all others: put together, in bounded time."""
    texts = data.decode("utf-8", "replace").split("\n")[:8]
    refers = tuple(Reference(str(at), str(at), 1) for at in range(len(texts)))
    known = [Registered(text, "AVRO", refers) for text in texts]
    start = time.monotonic()
    fingerprint_of(known[0], lambda wanted: known[int(wanted.subject)])
    assert time.monotonic() - start < _SECONDS_MAX


def messages(data: bytes) -> None:
    """Keys and values, line by line: what they are is told, whatever they are."""
    lines = [line or None for line in data.split(b"\n")[:8]]
    registry = MemoryRegistry()
    for kind in _KINDS:
        registry.add((lines[0] or b"").decode("utf-8", "replace"), kind=kind)
    asked = [Message(0, at, key, value) for at, (key, value) in enumerate(itertools.pairwise(lines))]
    recognise("shop.public.orders", asked, registry)


def writers(data: bytes) -> None:
    """Two texts as the schemas of values and keys: a table is planned, or refused with the error of a user."""
    value, _, key = data.decode("utf-8", "replace").partition("\n")
    registry = MemoryRegistry({1: value, 2: key or value})
    asked = [
        _pair(value_writer="id:00000001", key_writer="id:00000002"),
        _pair(value_writer="block:1", value_block=value, key_writer="block:2", key_block=key or value),
    ]
    try:
        decoders_of(asked, Lookup(registry, None, Options(), None))
    except CdcError as error:
        assert error.exit_code != EXIT_BUG  # noqa: PT017 - others are for the user


def _pair(**told: str) -> Row:
    names = ("value_writer", "key_writer", "value_block", "key_block")
    return Row(**{name: told.get(name) for name in names}, last=(1, 0))


def _ask_of(name: SchemaName) -> None:
    """Ask a name all that a registry asks of it."""
    assert isinstance(name.is_possible, bool)
    assert name.kind != "guid" or len(name.guid) == len("00000000-0000-0000-0000-000000000000")
    assert name.number is None or name.number >= 0
    assert name.kind not in {"hash", "artifact"} or all(isinstance(part, str) for part in name.parts)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (framing, headers, schemas, indexes, references, messages, writers)
}
