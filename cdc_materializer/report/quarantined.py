"""Quarantine tables -> what `cdcm quarantine list` and `show` print: the rows one by one, with their keys."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cdc_materializer.decode.told_schema import ToldSchema
from cdc_materializer.errors import UsageError
from cdc_materializer.names import shown
from cdc_materializer.report.groups import Row, about, in_utc, is_unpublished, latest_rows, treatment
from cdc_materializer.report.past import newest_marker
from cdc_materializer.report.remedies import explanation, remedy
from cdc_materializer.report.violation_models import QuarantineDetails, QuarantineList, QuarantineRow, ViolationDetail
from cdc_materializer.report.violations import (
    REPORT_COLUMNS,
    QuarantineLake,
    ReportedTable,
    schema_fields,
    schemas_of,
)

Place = tuple[int, int]
#: No longer than an offset is: Python reads no number of thousands of digits.
_PLACE = re.compile(r"([0-9]{1,19})/([0-9]{1,19})")
#: The largest numbers that Kafka has for them.
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True)
class QuarantineFilter:
    """Which quarantine rows to list; None takes all."""

    tables: frozenset[str] | None = None
    code: str | None = None
    rule: str | None = None
    status: str | None = None

    def takes(self, table: str, row: Mapping[str, Any]) -> bool:
        """Tell whether a row is wanted."""
        if self.tables is not None and table not in self.tables:
            return False
        wanted = {"code": self.code, "rule": self.rule, "status": self.status}
        return all(value is None or row[name] == value for name, value in wanted.items())


def quarantine_list(
    pipeline: str,
    tables: Iterable[ReportedTable],
    lake: QuarantineLake,
    *,
    as_of: datetime,
    limit: int,
    wanted: QuarantineFilter,
) -> QuarantineList:
    """List quarantine rows, newest first, at most ``limit`` of those that the filter takes.

    Raises LakeUnavailable where a table is there and cannot be read.
    """
    found: list[QuarantineRow] = []
    for table in tables:
        name = str(table.mirror)
        if wanted.tables is not None and name not in wanted.tables:
            continue
        found += [QuarantineRow(**_listed(name, row)) for row in _rows(table, lake) if wanted.takes(name, row)]
    found.sort(key=_newness, reverse=True)
    return QuarantineList(pipeline=pipeline, as_of=as_of, total=len(found), limit=limit, rows=found[:limit])


def quarantine_details(
    pipeline: str,
    table: ReportedTable,
    lake: QuarantineLake,
    *,
    as_of: datetime,
    place: Place | None = None,
    key: str | None = None,
) -> QuarantineDetails:
    """Tell everything but values about the violations of one message, or of one row of the source.

    Args:
        pipeline: name of the pipeline.
        table: the table.
        lake: reader of the tables.
        as_of: the time.
        place: partition and offset of the message.
        key: the row's key: JSON text as the list shows it, or the plain value of a key of one column.

    Raises:
        LakeUnavailable: a table is there and cannot be read.
        UsageError: quarantine has nothing of the kind.
    """
    of_place = [row for row in _rows(table, lake) if place is None or place == (row["partition"], row["offset"])]
    taken = [row for row in of_place if key is None or _is_key(row["key"], key)]
    if not taken:
        asked = [
            f"the message {place[0]}/{place[1]}" if place is not None else "",
            "that key" if key is not None else "",
        ]
        raise UsageError(
            f"Quarantine of {table.mirror} has nothing of {' and '.join(filter(None, asked)) or 'any message'}.",
            f"See `cdcm quarantine list --table {table.mirror} --status all`.",
        )
    told = schemas_of(table.mirror, lake, {(row["partition"], row["offset"]) for row in taken})
    details = [_detail(str(table.mirror), row, told) for row in taken]
    details.sort(key=_newness, reverse=True)
    return QuarantineDetails(pipeline=pipeline, as_of=as_of, table=str(table.mirror), violations=details)


def _detail(table: str, row: Row, told: Mapping[Place, ToldSchema]) -> ViolationDetail:
    code, rule, of_what, done = row["code"], row["rule"], about(row), treatment(row)
    schema = schema_fields(told if of_what == "messages" else {}, (row["partition"], row["offset"]))
    has_schema = any(part is not None for part in schema.values())
    return ViolationDetail(
        **_listed(table, row),
        done=done,
        **schema,
        explanation=explanation(code, rule, about=of_what, done=done),
        remedy=remedy(code, rule, table, about=of_what, done=done, has_schema=has_schema),
    )


def parse_place(text: str) -> Place:
    """Read a message's place as lists print it, ``partition/offset``.

    Raises:
        UsageError: it is none.
    """
    found = _PLACE.fullmatch(text)
    place = (int(found[1]), int(found[2])) if found is not None else None
    if place is None or place[0] > _PARTITION_MAX or place[1] > _OFFSET_MAX:
        raise UsageError(
            f"{shown(text)} is no place of a message.",
            "Write partition/offset as `cdcm quarantine list` does, such as 0/9.",
        )
    return place


def _rows(table: ReportedTable, lake: QuarantineLake) -> list[Mapping[str, Any]]:
    """The rows of a quarantine table, without what is remarked of messages that nobody has published."""
    rows = latest_rows(lake.values_of(table.mirror.quarantine, REPORT_COLUMNS) or ())
    published = newest_marker(lake.lines_of(table.mirror))
    return [row for row in rows if published is None or not is_unpublished(row, published.offsets)]


def _is_key(held: str | None, asked: str) -> bool:
    """Tell whether a key in quarantine is the one that was asked for; the order of a key's columns does not count."""
    if held is None:
        return False
    columns, wanted = _loaded(held), _loaded(asked)
    if held == asked or (isinstance(columns, dict) and columns == wanted):
        return True
    if not isinstance(columns, dict) or len(columns) != 1:
        return False
    (value,) = columns.values()
    return asked == (value if isinstance(value, str) else json.dumps(value))


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _newness(row: QuarantineRow) -> tuple[datetime, datetime, int]:
    oldest = datetime.min.replace(tzinfo=UTC)
    return row.detected_at or oldest, row.timestamp or oldest, row.offset


def _listed(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    moments = {name: in_utc(row[name]) for name in ("timestamp", "detected_at")}
    return {"table": table} | {name: row[name] for name in REPORT_COLUMNS} | moments
