"""Generated rows: what Avro carries is what JSON with schema carries is what the database was given.

CDCM_SEED chooses other rows and other damage.
"""

import io
import json
import os
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.options import Options
from cdc_materializer.decoders.decoders import Lookup, find_decoders
from cdc_materializer.testing import (
    MemoryRegistry,
)
from tests.spark.kinds import BINARY, KINDS, ROWS, TOPIC, Chance, generated_rows, messages_of, schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

#: What names the schema of a value (`schemas`), and how long it is.
_FRAME = b"\x00\x00\x00\x00\x02"
_FRAME_BYTES = len(_FRAME)
_RAW = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
_SIGNS = b'{}[]",:\\ 09.-eEtfnu'


def _changes(spark: "SparkSession", messages: dict[str, list[tuple[bytes, bytes]]]) -> "DataFrame":
    """The changes of messages: in Avro, which are partition 0, in JSON, which are 1, and with numbers in it, 2."""
    raw = [
        (TOPIC, partition, at, None, *message)
        for partition, form in enumerate(("avro", "json", "numbers"))
        for at, message in enumerate(messages.get(form, []))
    ]
    registry, options = MemoryRegistry(schemas()), Options()
    read = batch.messages(spark.createDataFrame(raw, _RAW), None, registry.id_bytes)
    decoders = find_decoders(read, Lookup(registry, None, options, None))
    return to_changes(read, decoders.writers, decoders.plan.target, options)


_SEED = int(os.environ.get("CDCM_SEED", "7"))


def test_generated_rows_are_what_the_database_was_given(spark: "SparkSession") -> None:
    """In Avro and in JSON with schema, its decimals as bytes or as numbers, all in one batch: every value exactly."""
    rows = generated_rows(Chance(_SEED))
    changes = _changes(spark, {form: messages_of(rows, form) for form in ("avro", "json", "numbers")})

    shown = [(F.hex(name) if name in BINARY else F.col(name).cast("string")).alias(name) for name in KINDS]
    found = changes.select(m.PARTITION, m.OFFSET, m.CODE, m.PROBLEMS, *shown).collect()

    assert [row[m.CODE] for row in found] == [None] * 3 * ROWS
    wrong: list[tuple[Any, ...]] = []
    for row in found:
        given = rows[row[m.OFFSET]]
        expected = {name: kind.shown(given[name]) for name, kind in KINDS.items()}
        got = {name: row[name] for name in KINDS}
        wrong += [(row[m.PARTITION], row[m.OFFSET], n, got[n], expected[n]) for n in KINDS if got[n] != expected[n]]
        wrong += [(row[m.PARTITION], row[m.OFFSET], "", row[m.CODE], problem) for problem in row[m.PROBLEMS]]
    assert wrong[:20] == []


def _damaged(octets: bytes, chance: Chance, begin: int) -> bytes:
    """The bytes with a few of them changed, left out or put in, from a place on."""
    found = bytearray(octets)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(begin, len(found) + 1)
        count = chance.randrange(3)
        found[at : at + chance.randrange(3)] = chance.choice(
            [chance.randbytes(count), bytes(chance.choices(_SIGNS, k=count))]
        )
    return bytes(found)


def _is_whole(form: str, octets: bytes, schema: Any) -> bool | None:  # noqa: ANN401 - fastavro's own form
    """Whether a reader in Python finds one datum and nothing else; None where it cannot tell."""
    try:
        if form == "json":
            return isinstance(json.loads(octets), dict)
        if octets[:_FRAME_BYTES] != _FRAME:
            return False
        datum = io.BytesIO(octets[_FRAME_BYTES:])
        fastavro.schemaless_reader(datum, schema)
        return datum.read() == b""
    except (EOFError, IndexError, json.JSONDecodeError):
        return False
    except UnicodeDecodeError:
        # In Avro it may be a text that nobody reads.
        return False if form == "json" else None
    except (ArithmeticError, ValueError, TypeError, MemoryError, AssertionError):
        return None


def test_damaged_messages_do_no_harm(spark: "SparkSession") -> None:
    """Each is one change or held, none ends the batch, and what is no datum to another reader is held."""
    chance = Chance(_SEED)
    rows = generated_rows(chance)
    schema = fastavro.parse_schema(schemas()[2])
    whole: dict[tuple[int, int], bool | None] = {}
    sent: dict[str, list[tuple[bytes, bytes]]] = {}
    for partition, form in enumerate(("avro", "json")):
        sent[form] = []
        for at, (key, value) in enumerate(messages_of(rows, form)):
            # Of Avro now and then what names its schema, too; each schema block in JSON that is another is a writer.
            begin = (at % 3 > 0) * _FRAME_BYTES if form == "avro" else value.index(b',"payload":') + len(b',"payload":')
            told = _damaged(value, chance, begin) if at % 4 else value
            sent[form].append((key, told))
            whole[partition, at] = _is_whole(form, told, schema) if told != value else True

    found = _changes(spark, sent).select(m.PARTITION, m.OFFSET, m.CODE).collect()

    codes = {(row[m.PARTITION], row[m.OFFSET]): row[m.CODE] for row in found}
    assert len(found) == len(codes) == 2 * ROWS
    assert {codes[place] for place in codes if not place[1] % 4} == {None}
    assert [place for place, is_whole in whole.items() if is_whole is False and codes[place] is None] == []
    assert sum(code is not None for code in codes.values()) > ROWS // 4
