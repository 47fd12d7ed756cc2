"""What `quarantine list` and `quarantine show` tell, from rows of quarantine tables."""

from typing import Any

import pytest

from cdc_materializer.errors import Code, UsageError
from cdc_materializer.report.quarantined import (
    QuarantineFilter,
    parse_place,
    quarantine_details,
    quarantine_list,
)
from cdc_materializer.report.remedies import remedy
from cdc_materializer.report.violation_models import QuarantineDetails
from cdc_materializer.report.violations import REPORT_COLUMNS
from tests.unit.quarantines import CANARY, NOW, ORDERS, PAYMENTS, Lake, line
from tests.unit.quarantines import row as _row


def test_the_list_shows_the_newest_rows_with_their_keys() -> None:
    """Newest first, cut at the limit, with the number of all that match."""
    lake = Lake({"shop.orders__quarantine": [_row(1), _row(3), _row(2)]})

    listed = quarantine_list("shop", [ORDERS, PAYMENTS], lake, as_of=NOW, limit=2, wanted=QuarantineFilter())

    assert (listed.total, listed.limit, [row.offset for row in listed.rows]) == (3, 2, [3, 2])
    assert listed.rows[0].key == f'{{"mail":"{CANARY}"}}'
    assert listed.rows[0].table == "shop.orders"
    assert set(REPORT_COLUMNS) | {"table"} == set(type(listed.rows[0]).model_fields)


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


def test_remarks_of_a_batch_that_was_stopped_are_not_listed() -> None:
    """They would stand there as released, and nobody has published their messages; what is held of these is listed."""
    rows = [
        *[_row(offset, action="warn", status="released") for offset in (99, 100)],
        _row(101, rule="tried", action="shadow_unjudged", status="released", batch_id="", key=None),
        _row(102),
    ]
    lake = Lake({"shop.orders__quarantine": rows}, lines={"shop.orders": [line(1, 60, "b1", read=9)]})

    listed = quarantine_list("shop", [ORDERS], lake, as_of=NOW, limit=9, wanted=QuarantineFilter())

    assert [row.offset for row in listed.rows] == [102, 99]
    with pytest.raises(UsageError, match="has nothing of the message 0/100"):
        quarantine_details("shop", ORDERS, lake, as_of=NOW, place=(0, 100))


def _details(*rows: dict[str, Any], **asked: Any) -> QuarantineDetails:  # noqa: ANN401 - a place or a key
    lake = Lake({"shop.orders__quarantine": list(rows)}, schemas={(0, 1): (3, 4), (0, 2): (3, None)})
    return quarantine_details("shop", ORDERS, lake, as_of=NOW, **asked)


def test_a_violation_is_told_with_everything_but_values() -> None:
    """Code, rule, column, place, schema, what it means and what to do; one entry a code and rule."""
    found = _details(_row(1), _row(1, rule="other"), _row(2), place=(0, 1))

    assert [detail.rule for detail in found.violations] == ["known-status", "other"]
    first = found.violations[0]
    assert (first.offset, first.schema_id, first.done, first.column) == (1, 4, "held", "status")
    assert (first.explanation, first.remedy) == (Code.CONTRACT.explanation, remedy("CONTRACT", None, "shop.orders"))


def test_the_remedy_of_a_message_with_a_schema_asks_nothing_of_the_contract() -> None:
    """The time's unit is the schema's."""
    rows = [_row(offset, code="SCHEMA_INCOMPATIBLE", rule=None, action="hold") for offset in (1, 3)]

    assert ["`time_unit`" in _details(*rows, place=(0, offset)).violations[0].remedy for offset in (1, 3)] == [
        False,
        True,
    ]


def test_the_key_stands_for_the_schema_of_a_message_without_a_value() -> None:
    """A tombstone has one schema only."""
    assert _details(_row(2), place=(0, 2)).violations[0].schema_id == 3


@pytest.mark.parametrize(
    ("key", "offsets"),
    [
        ('{"id":7}', [1]),
        ('{"id": 7}', [1]),
        ("7", [1]),
        ("x y", [2]),
        ('{"line":2,"id":7}', [3]),
        ("true", [4]),
    ],
)
def test_a_row_is_found_by_its_key(key: str, offsets: list[int]) -> None:
    """As the list shows it, however it is spaced and ordered; of a single column the value is enough."""
    keys = ('{"id":7}', '{"id":"x y"}', '{"id":7,"line":2}', '{"id":true}', None, "no JSON")
    found = _details(*(_row(offset, key=text) for offset, text in enumerate(keys, start=1)), key=key)

    assert [detail.offset for detail in found.violations] == offsets


@pytest.mark.parametrize("asked", [{"place": (0, 9)}, {"key": CANARY + "x"}, {"place": (0, 1), "key": "other"}])
def test_what_is_not_there_is_told_without_repeating_the_key(asked: dict[str, Any]) -> None:
    """A key can be somebody's address; what was asked for is not said again."""
    with pytest.raises(UsageError, match=r"has nothing of .*See `cdcm quarantine list --table shop\.orders") as raised:
        _details(_row(1), **asked)

    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["9", "0/", "/9", "a/b", "0/9/1", "-1/9", "0/²", f"0/{2**63}", f"{2**31}/0", "0/" + "9" * 5_000]
)
def test_a_place_is_partition_and_offset(text: str) -> None:
    """As lists print it; everything else is refused."""
    assert parse_place("0/9") == (0, 9)
    assert parse_place(f"{2**31 - 1}/{2**63 - 1}") == (2**31 - 1, 2**63 - 1)
    with pytest.raises(UsageError, match="no place of a message"):
        parse_place(text)
