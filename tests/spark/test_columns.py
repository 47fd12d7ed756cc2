"""The types that are told without Spark are those of the columns that Spark makes."""

import pytest

from cdc_materializer.decode import types
from cdc_materializer.decode.columns import CONNECT, DECIMALS, LITERALS, NAMED, column_type
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType

pytestmark = pytest.mark.spark

_TEXT = WireType("string", optional=True)
_DAY = WireType("int", "io.debezium.time.Date")
WIRES = [
    *[WireType(literal) for literal in LITERALS],
    *[WireType("long", name) for name in NAMED],
    *[WireType("bytes", name, parameters={"scale": "2", "connect.decimal.precision": "12"}) for name in DECIMALS],
    WireType("bytes", CONNECT + "Decimal", parameters={"scale": "-2", "connect.decimal.precision": "5"}),
    WireType("bytes", CONNECT + "Decimal", parameters={"scale": "4", "precision": "64"}),
    WireType("declared", parameters={"ddl": "decimal(9,2)"}),
    WireType("array", items=_DAY),
    WireType("array", items=WireType("int")),
    WireType("map", items=_TEXT),
    WireType("record", fields=(("A b", _TEXT), ("day", _DAY))),
]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.literal} {wire.name}".strip())
def test_a_column_has_the_type_that_is_told_without_spark(wire: WireType) -> None:
    """What `cdcm init` drafts is what a run makes."""
    assert column_type(wire) == Reader("avro").read(wire).ddl


def test_every_named_type_is_told_without_spark() -> None:
    """A name that is added to one of the two tables is added to the other."""
    assert {*NAMED, *DECIMALS, "declared"} == {*types._NAMED}
