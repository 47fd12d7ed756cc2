"""`ProtobufToAvro`, the JVM's half of reading Protobuf, as a function of columns.

Spark has no such function of its own that comes with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_materializer.decode import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column

_SOURCE = Path(__file__).with_name("ProtobufToAvro.java")


def as_avro(octets: Column, program: str) -> Column:
    """The Avro datum of a Protobuf message; NULL where the bytes are not what their schema says.

    Args:
        octets: the binary message.
        program: how it is read (`protobuf.Translation`).
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    given: Any = octets
    return ClassicColumn(java_class.new(_SOURCE, program).of(given._jc))  # noqa: SLF001
