"""A report of a past time or batch, rebuilt from the snapshots that the tables keep."""

from datetime import timedelta

import pytest

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.errors import UsageError
from cdc_materializer.report.violation_models import TableVerdict, ViolationReport
from cdc_materializer.report.violations import violation_report
from tests.unit.quarantines import NOW, ORDERS, PAYMENTS, Lake, line, row

#: Three batches: the first holds a message, the second is blocked and never published, the third supersedes.
_MIRROR = [line(4, 10, "b3", read=5), line(3, 20), line(2, 60, "b1", read=10, quarantined=1), line(1, 65, "start")]
_QUARANTINE = [
    line(5, 9, "b3", read=5),
    line(4, 11, "b3", read=5),
    line(3, 30, "b2", read=9),
    line(2, 61, "b1", read=10, quarantined=1),
    line(1, 65, "start"),
]
_LAKE = Lake(
    {
        "shop.orders__quarantine": [row(1, status="superseded")],
        "shop.orders__quarantine@4": [row(1), row(2, action="block", batch_id="b2")],
        "shop.orders__quarantine@3": [row(1), row(2, action="block", batch_id="b2")],
        "shop.orders__quarantine@2": [row(1)],
        "shop.orders__quarantine@1": [],
        "shop.payments__quarantine": [row(7)],
    },
    lines={
        "shop.orders": _MIRROR,
        "shop.orders__quarantine": _QUARANTINE,
        "shop.orders__raw": [
            SnapshotLine(2, 1, 2, {"total-records": "15"}, line(2, 12).timestamp_ms),
            SnapshotLine(1, None, 1, {"total-records": "10"}, line(1, 63).timestamp_ms),
        ],
        "shop.payments": [line(1, 40, "p1", read=1)],
        "shop.payments__quarantine": [line(1, 41, "p1", read=1)],
    },
)


def _report(when: str | None) -> ViolationReport:
    return violation_report("shop", [ORDERS, PAYMENTS], _LAKE, as_of=NOW, when=when)


@pytest.mark.parametrize(
    ("when", "verdict", "messages", "batches"),
    [
        ("b1", TableVerdict.HELD, 10, ["b1"]),
        ("b2", TableVerdict.STOPPED, 10, ["b1", "b2"]),
        ("b3", TableVerdict.CLEAN, 15, ["b1", "b2", "b3"]),
        ("2026-11-21T11:05Z", TableVerdict.HELD, 10, ["b1"]),
        ("2026-11-21 12:31+01:00", TableVerdict.STOPPED, 10, ["b1", "b2"]),
        ("2026-11-21T11:50:30", TableVerdict.STOPPED, 15, ["b1", "b2", "b3"]),
        ("2026-11-21T10:00", TableVerdict.EMPTY, None, []),
        (None, TableVerdict.CLEAN, 15, ["b1", "b2", "b3"]),
    ],
)
def test_a_report_is_that_of_its_time(
    when: str | None, verdict: TableVerdict, messages: int | None, batches: list[str]
) -> None:
    """Verdict, messages and trend are those of then; a batch is done with what it ended in quarantine."""
    table = _report(when).tables[0]

    assert (table.verdict, table.messages, [point.batch for point in table.trend]) == (verdict, messages, batches)


def test_the_other_tables_are_as_they_were_when_the_batch_was_done() -> None:
    """And the report's time is that moment."""
    first, last = _report("b1"), _report("b3")

    assert [table.verdict for table in first.tables] == [TableVerdict.HELD, TableVerdict.EMPTY]
    assert [table.verdict for table in last.tables] == [TableVerdict.CLEAN, TableVerdict.HELD]
    assert (first.as_of, last.as_of) == (NOW - timedelta(minutes=60), NOW - timedelta(minutes=9))


def test_a_batch_of_which_only_the_mirror_tells_held_nothing() -> None:
    """Quarantine is as it was when the mirror was published."""
    lake = Lake(_LAKE.tables, lines={**_LAKE.lines, "shop.orders": [line(9, 5, "b4", read=1), *_MIRROR]})
    table = violation_report("shop", [ORDERS], lake, as_of=NOW, when="b4").tables[0]

    assert (table.verdict, table.trend[-1].batch) == (TableVerdict.CLEAN, "b4")


def test_what_maintenance_commits_again_later_is_no_part_of_the_batch() -> None:
    """It writes the newest marker once more, on the mirror and on quarantine, long after."""
    again = {
        "shop.orders": [line(8, 3, "b5", read=1), line(7, 4, "b3", read=5), *_MIRROR],
        "shop.orders__quarantine": [line(6, 2, "b3", read=5), *_QUARANTINE],
    }
    lake = Lake(_LAKE.tables, lines={**_LAKE.lines, **again})
    found = violation_report("shop", [ORDERS], lake, as_of=NOW, when="b3")

    assert [point.batch for point in found.tables[0].trend] == ["b1", "b2", "b3"]
    assert found.as_of == NOW - timedelta(minutes=9)


def test_a_time_that_is_not_kept_any_more_is_refused() -> None:
    """Nothing is guessed where snapshots have expired; the oldest that is left is named."""
    lake = Lake(_LAKE.tables, lines={**_LAKE.lines, "shop.orders__quarantine": _QUARANTINE[:2]})

    with pytest.raises(
        UsageError, match=r"shop\.orders__quarantine keeps no state of .* oldest is of 2026-11-21T11:49"
    ):
        violation_report("shop", [ORDERS], lake, as_of=NOW, when="2026-11-21T11:00Z")


@pytest.mark.parametrize("when", ["b9", "yesterday", "", "2026-13-01"])
def test_what_is_neither_a_time_nor_a_batch_is_refused(when: str) -> None:
    """With an example of both."""
    with pytest.raises(UsageError, match="neither a time nor a batch"):
        _report(when)
