"""Rows of quarantine that no message carries: a stop, or what is told of a rule (`quarantine`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch import verdict
from cdc_materializer.contract import Action
from cdc_materializer.errors import TRIED_UNJUDGED, Code
from cdc_materializer.merge_quarantine import QUARANTINE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.line.line import Line
    from cdc_materializer.marker.marker import Marker
    from cdc_materializer.offsets import Span


def remark(line: Line, rule: str, place: tuple[int, int], *, is_judged: bool) -> DataFrame:
    """A quarantine row of a rule that no message of a batch tells of and nothing stops for."""
    # Of a rule that the contract has no more since, that much is known.
    said = {"action": str(Action.WARN), **said_of(line, rule), "status": verdict.RELEASED}
    return row_without_message(line, Code.CONTRACT, place, said if is_judged else {**said, "action": TRIED_UNJUDGED})


def end_of(marker: Marker, span: Span | None = None) -> tuple[int, int]:
    """Where a batch has ended, for rows of quarantine that no message carries; best where it has read something."""
    read = [(partition, end) for partition, _, end in span.ranges()] if span is not None else []
    return next(iter([*read, *marker.offsets.items()]), (0, 0))


def said_of(line: Line, name: str) -> dict[str, str | None]:
    """What the contract says of a rule, by column of quarantine; what a batch may hold is none of its rules."""
    rules = {rule.name: rule for rule in (line.contract.rules if line.contract is not None else ())}
    if name not in rules:
        return {"rule": name}
    rule = rules[name]
    return {"rule": name, "column": rule.column, "severity": rule.severity, "action": rule.told_action}


def row_without_message(line: Line, code: Code, place: tuple[int, int], said: Mapping[str, str | None]) -> DataFrame:
    """A quarantine row of what no message carries."""
    now = F.lit(line.now()).cast("timestamp")
    values = {
        "topic": F.lit(line.table.topic),
        "partition": F.lit(place[0]),
        "offset": F.lit(place[1]).cast("bigint"),
        "code": F.lit(str(code)),
        "severity": F.lit("error"),
        "detected_at": now,
        "batch_id": F.lit(""),
        **{name: F.lit(text) for name, text in said.items()},
    }
    return line.lake.spark.range(1).select(
        *[
            values.get(column.name, F.lit(None)).cast(column.type).alias(column.name)
            for column in QUARANTINE_SCHEMA.columns
        ]
    )
