"""The violation report and the quarantine list, from rows of quarantine tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdc_materializer.errors import Code
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import TableVerdict, TableViolations
from cdc_materializer.report.violations import (
    LIST_COLUMNS,
    REMEDIES,
    REPORT_COLUMNS,
    QuarantineFilter,
    quarantine_list,
    treatment,
    violation_report,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CANARY = "ann@example.test"


@dataclass(frozen=True)
class Table:
    """A configured table, as far as the report looks."""

    topic: str
    mirror: TableName


@dataclass
class Lake:
    """Quarantine tables in memory; `ran` are mirrors that have been published to."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)

    def values_of(self, name: TableName, columns: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return the asked columns only, as the catalog's reader does."""
        rows = self.tables.get(str(name))
        return None if rows is None else [{column: row[column] for column in columns} for row in rows]

    def marker_of(self, name: TableName) -> Marker | None:
        """Return some marker for mirrors that ran."""
        return Marker("shop", "b", "t", None, Offsets({0: 1}), {}, None, None, {}) if str(name) in self.ran else None


ORDERS = Table("pga.shop.orders", TableName.parse("shop.orders"))
PAYMENTS = Table("pga.shop.payments", TableName.parse("shop.payments"))


def _row(offset: int, **changes: object) -> dict[str, Any]:
    """One quarantine row: broken rule `known-status`, held, open, an hour after the message."""
    row: dict[str, Any] = {
        "topic": "pga.shop.orders",
        "partition": 0,
        "offset": offset,
        "timestamp": NOW - timedelta(days=1) + timedelta(minutes=offset),
        "key": f'{{"mail":"{CANARY}"}}',
        "code": "CONTRACT",
        "rule": "known-status",
        "severity": "error",
        "action": "quarantine",
        "status": "open",
        "column": "status",
        "detected_at": NOW - timedelta(hours=3) + timedelta(minutes=offset),
        "batch_id": "b1",
    }
    return row | changes


def _orders(*rows: dict[str, Any], messages: int | None = None) -> TableViolations:
    lake = Lake({"shop.orders__quarantine": list(rows)}, {"shop.orders"})
    counted = {"shop.orders": messages} if messages is not None else {}
    return violation_report("shop", [ORDERS], lake, as_of=NOW, messages=counted).tables[0]


def test_a_group_tells_what_how_many_where_and_since_when() -> None:
    """Violations of one code, rule and column are one entry with counts, share, first and last message and age."""
    table = _orders(_row(7), _row(5), _row(9, status="superseded"), _row(6, rule="other"), messages=200)

    group = table.violations[0]

    assert (group.code, group.rule, group.column, group.action) == ("CONTRACT", "known-status", "status", "held")
    assert (group.count, group.open, group.share) == (3, 2, 0.015)
    assert (group.first.offset, group.last.offset) == (5, 9)
    assert group.first.timestamp == NOW - timedelta(days=1) + timedelta(minutes=5)
    assert group.since == NOW - timedelta(hours=3) + timedelta(minutes=5)
    assert group.explanation == Code.CONTRACT.explanation
    assert group.remedy == REMEDIES[Code.CONTRACT]
    assert [entry.rule for entry in table.violations] == ["known-status", "other"]


def test_messages_are_counted_once_however_many_rules_they_break() -> None:
    """A message open for any reason is held; one whose every hold is over is superseded or released."""
    table = _orders(
        _row(1),
        _row(1, rule="other"),
        _row(2, status="superseded"),
        _row(3, status="superseded"),
        _row(3, rule="other"),
        _row(4, status="released"),
    )

    assert (table.held_open, table.superseded, table.released) == (2, 1, 1)


def test_a_message_tried_again_is_one_violation() -> None:
    """The row detected last says how it stands; at the same moment, the one that is no longer open."""
    later = _row(1, status="superseded", detected_at=NOW)
    assert _orders(later, _row(1)).violations[0].count == 1
    assert _orders(_row(1), later).held_open == 0
    assert _orders(later, _row(1, detected_at=NOW)).held_open == 0
    assert _orders(_row(1, status="released", detected_at=NOW - timedelta(days=1)), _row(1)).held_open == 1


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([_row(1)], TableVerdict.HELD),
        ([_row(1, status="superseded")], TableVerdict.CLEAN),
        ([_row(1, action="warn", status="released")], TableVerdict.REPORTED),
        ([_row(1), _row(2, action="warn", status="released")], TableVerdict.HELD),
        ([_row(1, action="block"), _row(2)], TableVerdict.STOPPED),
        ([_row(1, code="OFFSET_GAP", rule=None, action=None)], TableVerdict.STOPPED),
        ([_row(1, code="OFFSET_GAP", rule=None, action=None, status="released")], TableVerdict.CLEAN),
        ([], TableVerdict.CLEAN),
    ],
)
def test_the_verdict_is_the_worst_that_applies_now(rows: list[dict[str, Any]], verdict: TableVerdict) -> None:
    """What is over does not count against a table; a remark does, since the row with it is published."""
    assert _orders(*rows).verdict is verdict


def test_published_remarks_are_counted_apart_from_held_messages() -> None:
    """A warning never counts as held or released."""
    table = _orders(_row(1, action="warn", status="released"), _row(2, action="report", status="released"))

    assert (table.reported, table.held_open, table.released) == (2, 0, 0)
    assert {group.action for group in table.violations} == {"reported"}


def test_an_empty_lake_answers_well() -> None:
    """Before the first run there are no tables; a table that ran without violations is clean."""
    report = violation_report("shop", [ORDERS, PAYMENTS], Lake(ran={"shop.payments"}), as_of=NOW)

    assert [table.verdict for table in report.tables] == [TableVerdict.EMPTY, TableVerdict.CLEAN]
    assert report.totals.tables == 2
    assert report.totals.held_open == report.totals.reported == 0


def test_totals_add_up_over_tables() -> None:
    """Totals are sums; codes count what is open or only reported."""
    lake = Lake(
        {
            "shop.orders__quarantine": [_row(1), _row(2, status="superseded")],
            "shop.payments__quarantine": [
                _row(1, topic="pga.shop.payments"),
                _row(2, topic="pga.shop.payments", code="UNDECODABLE", rule=None, action="hold"),
                _row(3, topic="pga.shop.payments", action="warn", status="released"),
            ],
        }
    )

    totals = violation_report("shop", [ORDERS, PAYMENTS], lake, as_of=NOW).totals

    assert (totals.tables, totals.tables_with_open, totals.held_open, totals.superseded) == (2, 2, 3, 1)
    assert totals.by_code == {"CONTRACT": 3, "UNDECODABLE": 1}


def test_the_report_never_reads_or_shows_keys() -> None:
    """Keys are in quarantine by design; the report does not ask for them."""
    lake = Lake({"shop.orders__quarantine": [_row(1)]})

    report = violation_report("shop", [ORDERS], lake, as_of=NOW)

    assert "key" not in REPORT_COLUMNS
    assert CANARY not in report.to_json()


def test_rows_without_times_or_with_naive_ones_are_reported() -> None:
    """A message without a timestamp, or a reader that leaves the zone out, does not break the report."""
    naive = (NOW - timedelta(hours=1)).replace(tzinfo=None)

    group = _orders(_row(1, timestamp=None, detected_at=naive), _row(2, timestamp=naive)).violations[0]

    assert group.first.timestamp is None
    assert group.last.timestamp == NOW - timedelta(hours=1)


def test_an_unknown_code_is_reported_too() -> None:
    """A row of a newer version is held, and said to be unknown."""
    group = _orders(_row(1, code="BRAND_NEW", action=None)).violations[0]

    assert (group.action, group.code) == ("held", "BRAND_NEW")
    assert "does not know" in group.explanation


def test_every_code_has_a_remedy_and_a_treatment() -> None:
    """Whatever code a row has, the report says what to do."""
    assert set(REMEDIES) == set(Code)
    assert {treatment(_row(1, code=str(code), action=None)) for code in Code} == {"held", "reported", "stopped"}


def test_the_list_shows_the_newest_rows_with_their_keys() -> None:
    """Newest first, cut at the limit, with the number of all that match."""
    lake = Lake({"shop.orders__quarantine": [_row(1), _row(3), _row(2)]})

    listed = quarantine_list("shop", [ORDERS, PAYMENTS], lake, as_of=NOW, limit=2, wanted=QuarantineFilter())

    assert (listed.total, listed.limit, [row.offset for row in listed.rows]) == (3, 2, [3, 2])
    assert listed.rows[0].key == f'{{"mail":"{CANARY}"}}'
    assert listed.rows[0].table == "shop.orders"
    assert set(LIST_COLUMNS) | {"table"} == set(type(listed.rows[0]).model_fields)


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (QuarantineFilter(tables=frozenset({"shop.payments"})), [4]),
        (QuarantineFilter(code="UNDECODABLE"), [2]),
        (QuarantineFilter(rule="other"), [3]),
        (QuarantineFilter(status="superseded"), [3]),
        (QuarantineFilter(rule="other", status="open"), []),
        (QuarantineFilter(), [4, 3, 2, 1]),
    ],
)
def test_the_list_is_filtered(wanted: QuarantineFilter, offsets: list[int]) -> None:
    """By table, code, rule and status, all of which have to match."""
    lake = Lake(
        {
            "shop.orders__quarantine": [
                _row(1),
                _row(2, code="UNDECODABLE", rule=None, action="hold"),
                _row(3, rule="other", status="superseded"),
            ],
            "shop.payments__quarantine": [_row(4)],
        }
    )

    listed = quarantine_list("shop", [ORDERS, PAYMENTS], lake, as_of=NOW, limit=10, wanted=wanted)

    assert [row.offset for row in listed.rows] == offsets
