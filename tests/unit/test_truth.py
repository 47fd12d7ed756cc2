"""Values as PostgreSQL writes them, and rows compared by them."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from cdc_materializer.truth import Truth, as_postgresql, compare


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "integer", None),
        (5_000_000_000, "bigint", "5000000000"),
        (True, "boolean", "true"),
        ("é", "text", "é"),
        (Decimal("10.25"), "numeric(14,4)", "10.2500"),
        (Decimal("10.2500"), "numeric(12,2)", "10.2500"),
        (Decimal("12345678.9000"), "numeric(14,4)", "12345678.9000"),
        (datetime(2026, 11, 21, 10, 0, 0, 500_000, UTC), "timestamp with time zone", "2026-11-21 10:00:00.5+00"),
        (datetime(2026, 11, 21, 10, tzinfo=UTC), "timestamp with time zone", "2026-11-21 10:00:00+00"),
        (
            datetime(2026, 11, 3, 8, 0, 0, 1, UTC).replace(tzinfo=None),
            "timestamp without time zone",
            "2026-11-03 08:00:00.000001",
        ),
        (date(2026, 12, 2), "date", "2026-12-02"),
        (["t1", None, 'x,"y"'], "text[]", '{t1,NULL,"x,\\"y\\""}'),
        ([], "text[]", "{}"),
        (["", "null", "a b", "\\"], "text[]", '{"","null","a b","\\\\"}'),
    ],
)
def test_a_value_is_written_as_the_database_writes_it(value: object, kind: str, text: str | None) -> None:
    """A value that does not fit its column's scale is written in full, so it is told apart."""
    assert as_postgresql(value, kind) == text


def test_rows_are_compared_by_key_and_column() -> None:
    """Missing, unexpected and different rows are told apart; columns of the mirror alone are named."""
    kinds = {"id": "integer", "name": "text"}
    rows = ({"id": "1", "name": "a"}, {"id": "2", "name": None}, {"id": "3", "name": "c"})
    mirror = [{"id": 1, "name": "a", "old": 1}, {"id": 2, "name": "b", "old": 1}, {"id": 4, "name": "d", "old": 1}]
    found = compare(Truth(("id",), kinds, rows), ["id", "name", "old"], mirror)

    assert (found.equal, found.missing, found.unexpected) == (1, ("3",), ("4",))
    assert found.different == {"2": ("name",)}
    assert found.extra == ("old",)
