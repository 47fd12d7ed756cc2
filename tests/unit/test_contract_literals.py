"""Bounds and set members fitted to a column's type."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from cdc_materializer.contract.literals import Misfit, Side, fit_bound, fit_members

_D = Decimal


@pytest.mark.parametrize(
    ("value", "ddl", "side", "literal"),
    [
        (_D("0.001"), "decimal(12,2)", Side.UP, _D("0.01")),
        (_D("0.009"), "decimal(12,2)", Side.DOWN, _D("0.00")),
        (_D("-0.001"), "decimal(12,2)", Side.UP, _D("0.00")),
        (_D("0.5"), "bigint", Side.UP, 1),
        (_D("0.5"), "bigint", Side.DOWN, 0),
        (2**53 + 1, "bigint", Side.UP, 2**53 + 1),
        (2**63, "bigint", Side.UP, _D(2**63)),
        (_D(10**37), "decimal(12,2)", Side.UP, _D(10**37)),
        (10**37 + 1, "decimal(38,0)", Side.DOWN, _D(10**37 + 1)),
        (_D("0.1"), "double", Side.UP, 0.1),
        (9007199254740993, "double", Side.DOWN, 9007199254740992.0),
        (9007199254740993, "double", Side.UP, 9007199254740994.0),
        (9007199254740995, "double", Side.DOWN, 9007199254740994.0),
        (_D("0.7"), "float", Side.UP, 0.699999988079071),
        (_D("0.70"), "float", Side.DOWN, 0.699999988079071),
        (_D("0.1"), "float", Side.DOWN, 0.10000000149011612),
        (_D("0.10000000149011612"), "float", Side.DOWN, 0.10000000149011612),
        (_D("0.6999999"), "float", Side.UP, 0.6999999284744263),
        (_D("0.69999998"), "float", Side.DOWN, 0.69999998),
        (16777217, "float", Side.UP, 16777217.0),
        (_D("1e39"), "float", Side.DOWN, 1e39),
        (_D("-1e39"), "float", Side.UP, -1e39),
        (_D("3.4028235e38"), "float", Side.DOWN, 3.4028234663852886e38),
        (_D("1e-45"), "float", Side.UP, 1.401298464324817e-45),
        (0, "float", Side.UP, 0.0),
        ("2026-11-21", "date", Side.UP, "2026-11-21"),
        (date(2026, 11, 21), "date", Side.UP, "2026-11-21"),
        ("2026-11-21T10:00:00+02:00", "timestamp", Side.UP, "2026-11-21 08:00:00.000000+00:00"),
        ("2026-11-21 10:00:00.5 +02:00", "timestamp", Side.UP, "2026-11-21 08:00:00.500000+00:00"),
        ("2026-11-21", "timestamp", Side.UP, "2026-11-21 00:00:00.000000+00:00"),
        (datetime(2026, 11, 21, tzinfo=UTC), "timestamp", Side.UP, "2026-11-21 00:00:00.000000+00:00"),
        ("2026-11-21T10:00:00.5", "timestamp_ntz", Side.UP, "2026-11-21 10:00:00.500000"),
    ],
)
def test_a_bound_becomes_a_literal_of_the_column_s_own_type(
    value: object, ddl: str, side: Side, literal: object
) -> None:
    """A bound that the column cannot hold moves to the next value that it can, on the side asked for."""
    fitted = fit_bound(value, ddl, side)

    assert fitted == literal
    assert type(fitted) is type(literal)


@pytest.mark.parametrize(
    ("value", "ddl"),
    [
        ("soon", "int"),
        (True, "int"),
        (float("nan"), "double"),
        (_D(10**400), "double"),
        (_D(10**38), "bigint"),
        ("2026-11-21T10:00:00Z", "timestamp_ntz"),
        ("yesterday", "timestamp"),
        ("2026-11-21T10:00:00", "date"),
        (1, "string"),
        (1, "boolean"),
        ("x", "array<string>"),
    ],
)
def test_a_value_of_another_kind_does_not_fit(value: object, ddl: str) -> None:
    """A comparison that would need a cast is refused, in words that show no value."""
    with pytest.raises(Misfit) as misfit:
        fit_bound(value, ddl, Side.UP)

    assert str(value) not in str(misfit.value)


@pytest.mark.parametrize(
    ("values", "ddl", "kept"),
    [
        ([_D("1.10"), _D("0.005"), 2, None], "decimal(12,2)", [_D("1.10"), _D("2.00")]),
        ([10**10], "decimal(12,2)", []),
        ([10**38 - 1, -(10**38 - 1)], "decimal(38,0)", [_D(10**38 - 1), _D(-(10**38 - 1))]),
        ([1, _D("1.0"), _D("1.5")], "int", [1, 1]),
        (["a", ""], "string", ["a", ""]),
        ([True], "boolean", [True]),
        ([_D("0.1"), _D(10**400)], "double", [0.1]),
        (
            [_D("0.7"), _D("0.1"), _D("0.10000000149011612"), _D("-1e39"), 2],
            "float",
            [0.699999988079071, 0.10000000149011612, 0.10000000149011612, 2.0],
        ),
    ],
)
def test_members_that_the_column_cannot_hold_are_left_out(values: list[object], ddl: str, kept: list[object]) -> None:
    """They could only match by rounding; nulls would hide all others."""
    assert fit_members(values, ddl) == kept
