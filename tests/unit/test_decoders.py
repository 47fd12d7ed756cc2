"""The writers of a batch, from what its messages name."""

import pytest
from pyspark.sql import Row

from cdc_materializer.changes.debezium import Options
from cdc_materializer.decoders import Lookup, decoders_of
from cdc_materializer.errors import ConfigError
from cdc_materializer.schema import Column, TableSchema

TABLE = TableSchema((Column("id", "bigint"), Column("name", "string")), ("id",))
STRANGE = ["id:7B226964", "guid:" + "00" * 16, "fingerprint:" + "00" * 8, "content:" + "00" * 8, "artifact:/61/31"]


def row(value: str | None, key: str | None = "json") -> Row:
    """One pair of writers, without schema blocks."""
    return Row(value_writer=value, key_writer=key, value_block=None, key_block=None, last=(0, 0))


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("side", ["value", "key"])
def test_without_a_registry_bytes_that_look_like_a_schemas_name_are_held_alone(name: str, side: str) -> None:
    """Anyone can write a zero byte into a topic of JSON; its other messages are read all the same."""
    strange = row(name) if side == "value" else row("json", name)

    found = decoders_of([strange, row("json")], Lookup(None, None, Options(), TABLE, ("orders",)))

    assert found.writers.unknown == (name,)
    assert [writer.selector for writer in found.writers.values] == ["json"]


@pytest.mark.parametrize(
    "rows",
    [
        [row("id:00000001", "id:00000002")],
        [row("id:00000001"), row("id:00000003")],
        # Values in JSON alone are not enough: no message would be read.
        [row("json", "id:00000002"), row(None, "id:00000002")],
        [row("id:00000001", "id:00000002"), row("unknown", None), row(None, None)],
    ],
)
def test_a_batch_that_cannot_be_read_without_a_registry_stops(rows: list[Row]) -> None:
    """A registry that is missing in the configuration is said, and not taken for messages to be held."""
    with pytest.raises(ConfigError, match="no registry is configured"):
        decoders_of(rows, Lookup(None, None, Options(), TABLE))
