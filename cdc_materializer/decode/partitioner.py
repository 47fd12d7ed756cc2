"""Where a producer puts a message: Kafka's own partitioner, which chooses by the bytes of the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode import java_class

_SOURCE = Path(__file__).with_name("KafkaPartitioner.java")


def is_placed(key: Column, partition: Column, partitions: int) -> Column:
    """Whether a message is in the partition in which Kafka's own partitioner puts its key; NULL without a key.

    Args:
        key: the binary key, whole, with what names its schema.
        partition: the message's.
        partitions: how many the topic has.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    given: Any = key
    number = ClassicColumn(java_class.new(_SOURCE).of(given._jc))  # noqa: SLF001
    return F.pmod(number, F.lit(partitions)) == partition
