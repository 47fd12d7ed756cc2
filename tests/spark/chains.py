"""Whether the changes of each row are a chain in the order of its versions."""

from typing import TYPE_CHECKING

from cdc_materializer.versions import in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


def broken(history: "DataFrame") -> list["Row"]:
    """The changes of rows with the key `id` that do not begin where the one before them ended."""
    history.createOrReplaceTempView("told")
    events, order = in_order("told", ["id"], "`")
    sides = f"op, partition, offset, to_json(before) AS found, LAG(to_json(after)) OVER ({order}) AS left"
    told = history.sparkSession.sql(f"WITH {events} SELECT {sides} FROM __cdc_events_of_row")
    return told.where("op <> 't' AND NOT found <=> left").collect()
