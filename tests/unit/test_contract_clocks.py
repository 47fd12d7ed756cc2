"""Times of day in contracts, and numbers that YAML 1.1 reads in base 60 or 8."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.contract import load_contract
from tests.unit.contracts import problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write

_TEN_THIRTY = 37_800_000_000


def _kwargs(path: Path, of: str = "t") -> dict[str, Any]:
    return next(dict(rule.kwargs) for rule in load_contract(path).rules if rule.column == of)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("10:30:00", _TEN_THIRTY),
        ("'10:30:00'", _TEN_THIRTY),
        ("10:30", _TEN_THIRTY),
        ("9:30", _TEN_THIRTY - 3_600_000_000),
        ("00:00", 0),
        ("10:30:00.5", _TEN_THIRTY + 500_000),
        ("23:59:59.999999", 86_399_999_999),
        ("37800000000", _TEN_THIRTY),
    ],
)
@pytest.mark.parametrize("declared", ["logicalType: time", "physicalType: time(6)"])
def test_a_bound_of_a_time_of_day_is_read_as_one(
    write_contract: "Write", declared: str, written: str, micros: int
) -> None:
    """With quotes and without it is the number of microseconds since midnight, which the column holds."""
    path = write_contract(f"- {{name: t, {declared}, logicalTypeOptions: {{minimum: {written}}}}}")

    assert _kwargs(path) == {"min_value": micros}
    assert problems_of(path) == []


@pytest.mark.parametrize(
    ("quality", "kwargs"),
    [
        ("{metric: invalidValues, mustBe: 0, arguments: {validValues: [10:30, '10:30:00.000001']}}",
         {"value_set": [_TEN_THIRTY, _TEN_THIRTY + 1]}),
        ("{metric: missingValues, mustBe: 0, arguments: {missingValues: [00:00:00]}}", {"value_set": [0]}),
        ("{metric: missingValues, mustBeLessThan: 9, arguments: {missingValues: [null, 00:00]}}",
         {"columns": ["t"], "missing": [None, 0], "unit": "rows", "condition": "mustBeLessThan", "value": 9}),
        ("{metric: invalidValues, mustBeLessThan: 9, arguments: {validValues: [10:30]}}",
         {"columns": ["t"], "missing": [None], "unit": "rows", "condition": "mustBeLessThan", "value": 9,
          "rows": {"expect_column_values_to_be_in_set": {"value_set": [_TEN_THIRTY]}}}),
        (("{type: custom, engine: greatExpectations, implementation: "
          "{type: expect_column_max_to_be_between, kwargs: {max_value: 10:30:00, strict_max: true}}}"),
         {"max_value": _TEN_THIRTY, "strict_max": True}),
        (("{type: custom, engine: greatExpectations, implementation: "
          "'{\"type\": \"expect_column_distinct_values_to_be_in_set\", \"kwargs\": {\"value_set\": [\"10:30\"]}}'}"),
         {"value_set": [_TEN_THIRTY]}),
    ],
)  # fmt: skip
def test_so_is_what_other_rules_of_such_a_column_are_given(
    write_contract: "Write", quality: str, kwargs: dict[str, Any]
) -> None:
    """Sets, what stands for no value, and the bounds of measures that are times of day themselves."""
    path = write_contract(f"- {{name: t, physicalType: time, quality: [{quality}]}}")

    assert _kwargs(path) == kwargs
    assert problems_of(path) == []


def test_of_pairs_each_member_is_read_as_its_own_column_is(write_contract: "Write") -> None:
    """A pair of a time of day and a number has both as their columns do."""
    path = write_contract(
        """
        - {name: t, physicalType: time}
        - name: n
          physicalType: bigint
          quality:
            - type: custom
              engine: greatExpectations
              implementation:
                type: expect_column_pair_values_to_be_in_set
                kwargs: {column_A: t, column_B: n, value_pairs_set: [[10:30, 5], [null, 6]]}
        """
    )

    assert load_contract(path).rules[0].kwargs["value_pairs_set"] == [[_TEN_THIRTY, 5], [None, 6]]


@pytest.mark.parametrize("written", ["24:00:00", "24:00", "10:60", "10:30:60", "noon", "'10:30Z'", "-1:30", "10:30:1"])
def test_what_is_no_time_of_day_is_refused_beside_one(write_contract: "Write", written: str) -> None:
    """A bound that no clock shows would let everything pass, or nothing."""
    path = write_contract(f"- name: t\n  physicalType: time\n  logicalTypeOptions:\n    minimum: {written}")

    (problem,) = problems_of(path)

    assert (problem.line, "a time of day is written HH:MM, HH:MM:SS or HH:MM:SS.ffffff" in problem.message) == (
        12,
        True,
    )


def test_a_time_beside_a_column_of_numbers_is_none(write_contract: "Write") -> None:
    """A plain number has no clock; the text is no number, as it is with quotes."""
    path = write_contract("- {name: t, physicalType: bigint, logicalTypeOptions: {minimum: 10:30:00}}")

    assert "the column holds numbers, the value is none" in problems_of(path)[0].message


@pytest.mark.parametrize(
    "options", ["logicalTypeOptions: {minimum: 0100}", "enum: [{value: 010}]", "enum: [{value: '07'}]"]
)
def test_a_number_that_begins_with_zero_is_refused(write_contract: "Write", options: str) -> None:
    """Some readers of YAML take it for octal and others do not, so that the file would mean two things."""
    (problem,) = problems_of(write_contract(f"- {{name: n, physicalType: int, {options}}}"))

    assert (problem.line, "begins with 0, which some readers" in problem.message) == (10, True)


def test_texts_that_look_like_octal_or_base_60_are_texts(write_contract: "Write") -> None:
    """A postal code and a ratio stay as they are written."""
    path = write_contract("- {name: t, physicalType: text, enum: [{value: 0100}, {value: 10:30}, {value: 1:30.5}]}")

    assert _kwargs(path)["value_set"] == ["0100", "10:30", "1:30.5"]


@pytest.mark.parametrize("written", ["1_000", "0x3E8", "1000", "0b1111101000", "1_000.0", "+1.0e+3", "'1e3'"])
def test_other_numbers_are_read_as_before(write_contract: "Write", written: str) -> None:
    """Nothing but base 60 and octal is taken from what YAML 1.1 calls a number."""
    path = write_contract(f"- {{name: n, physicalType: 'decimal(9,2)', logicalTypeOptions: {{minimum: {written}}}}}")

    assert float(_kwargs(path, "n")["min_value"]) == 1000
    assert problems_of(path) == []


def test_a_time_of_day_and_its_microseconds_are_one_contract(write_contract: "Write") -> None:
    """How a bound is written is no part of what it says."""
    fingerprints = {
        load_contract(
            write_contract(f"- {{name: t, physicalType: time, logicalTypeOptions: {{minimum: {written}}}}}")
        ).fingerprint
        for written in ("10:30", "'10:30:00'", "37800000000")
    }

    assert len(fingerprints) == 1
