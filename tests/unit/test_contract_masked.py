"""Rules that see what a mask leaves of a value, and that nothing can pass then."""

import json
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import lint, load_contract
from cdc_materializer.errors import ContractInvalid

if TYPE_CHECKING:
    from tests.unit.contracts import Write

_AFTER = "  - name: orders\n    customProperties: [{property: judge, value: after}]\n"
_SET = "expect_column_values_to_be_in_set"
_PATTERN = "expect_column_values_to_match_regex"
_LENGTH = "expect_column_value_lengths_to_equal"
_LENGTHS = "expect_column_value_lengths_to_be_between"
_PAIR_SET = "expect_column_pair_values_to_be_in_set"
_HASH = "0123456789abcdef" * 4


def _rule(kind: str, **kwargs: object) -> str:
    said = json.dumps({"type": kind, "kwargs": kwargs})
    return f"{{type: custom, engine: greatExpectations, implementation: {said}}}"


def _told(
    write: "Write", mask: str, rule: str, *, before: bool = False, refused: bool = False
) -> list[tuple[int | None, str]]:
    """What the check says of a rule beside a masked column `a`, and another redacted one.

    Runs follow such a contract, unless they refuse it too.
    """
    path = write(f"""
    - name: a
      physicalType: text
      customProperties: [{{property: mask, value: '{mask}'}}]
      quality:
        - {rule}
    - {{name: b, physicalType: text, customProperties: [{{property: mask, value: redact}}]}}
    - {{name: n, physicalType: int}}
    - {{name: t, physicalType: text}}
    """)
    if not before:
        path.write_text(path.read_text("utf-8").replace("  - name: orders\n", _AFTER), encoding="utf-8")
    told = [(problem.line, problem.message) for problem in lint(path).files[0].problems]
    if refused:
        with pytest.raises(ContractInvalid, match=r"orders\.yaml:\d+"):
            load_contract(path)
    else:
        load_contract(path)
    return told


@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        ("redact", _rule(_SET, value_set=["new", "paid", None])),
        ("redact", _rule("expect_column_values_to_not_be_in_set", value_set=["***"])),
        ("redact", _rule(_PATTERN, regex="^[a-z]+$")),
        ("redact", _rule("expect_column_values_to_not_match_regex", regex="[*]")),
        ("redact", _rule(_LENGTH, value=4)),
        ("redact", _rule(_LENGTHS, min_value=3, strict_min=True)),
        ("redact", _rule("expect_column_values_to_be_json_parseable")),
        ("redact", _rule(_PAIR_SET, column_A="t", column_B="a", value_pairs_set=[["x", "new"], ["y", "paid"]])),
        ("redact", _rule("expect_select_column_values_to_be_unique_within_record", column_list=["a", "b"])),
        ("redact", _rule("expect_column_pair_values_a_to_be_greater_than_b", column_A="a", column_B="b")),
        ("hash", _rule(_SET, value_set=["new", _HASH.upper()])),
        ("hash", _rule(_LENGTHS, max_value=20)),
        ("last4", _rule(_SET, value_set=["new", "***1234"])),
        ("last4", _rule(_LENGTHS, min_value=5, max_value=7)),
        ("redact", "{metric: invalidValues, mustBe: 0, arguments: {validValues: [new, paid]}}"),
    ],
)
def test_a_rule_that_no_masked_value_can_pass_is_an_error(write_contract: "Write", mask: str, rule: str) -> None:
    """It would hold every row that has a value; with the line of the rule."""
    ((line, message),) = _told(write_contract, mask, rule)

    assert line == 15
    assert f"no value can pass: the rule sees what the mirror stores, and column a is masked ({mask})." == message


@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        ("redact", _rule("expect_column_unique_value_count_to_be_between", min_value=2)),
        ("redact", _rule("expect_column_distinct_values_to_be_in_set", value_set=["new"])),
        ("redact", _rule("expect_column_distinct_values_to_contain_set", value_set=["***", "new"])),
        ("hash", _rule("expect_column_most_common_value_to_be_in_set", value_set=["new"])),
    ],
)
def test_rules_about_the_table_see_what_masks_leave_however_rows_are_judged(
    write_contract: "Write", mask: str, rule: str
) -> None:
    """A table has its masked values, also where rows are judged before their masks."""
    for before in (True, False):
        ((_, message),) = _told(write_contract, mask, rule, before=before)
        assert "no value can pass" in message


@pytest.mark.parametrize(
    ("mask", "rule"),
    [
        ("redact", _rule(_SET, value_set=["***"])),
        ("redact", _rule("expect_column_values_to_not_be_in_set", value_set=["new"])),
        ("redact", _rule(_PATTERN, regex="^[*a]+$")),
        ("redact", _rule(_LENGTHS, max_value=3)),
        ("redact", _rule("expect_column_values_to_be_null")),
        ("redact", _rule("expect_column_pair_values_to_be_equal", column_A="a", column_B="b")),
        ("redact", _rule("expect_column_unique_value_count_to_be_between", min_value=1)),
        ("hash", _rule(_SET, value_set=["new", _HASH])),
        ("hash", _rule(_LENGTH, value=64)),
        ("hash", _rule(_PATTERN, regex="^[0-9a-f]+$")),
        ("hash", _rule("expect_column_distinct_values_to_equal_set", value_set=[_HASH])),
        ("last4", _rule(_SET, value_set=["****1234"])),
        ("last4", _rule(_LENGTHS, max_value=5)),
        ("redact", "{metric: invalidValues, mustBeLessThan: 5, unit: percent, arguments: {validValues: [new]}}"),
        ("redact", _rule(_SET, value_set=["new"], mostly=0.5)),
        (
            "redact",
            _rule(
                "expect_column_pair_values_a_to_be_greater_than_b",
                column_A="a",
                column_B="b",
                ignore_row_if="either_value_is_missing",
            ),
        ),
        (
            "redact",
            _rule(
                "expect_select_column_values_to_be_unique_within_record",
                column_list=["a", "b"],
                ignore_row_if="any_value_is_missing",
            ),
        ),
    ],
)
def test_a_rule_that_a_masked_value_may_pass_is_none(write_contract: "Write", mask: str, rule: str) -> None:
    """Told is only what is certain."""
    assert _told(write_contract, mask, rule) == []


@pytest.mark.parametrize("mask", ["redact", "hash", "last4"])
def test_what_rules_see_before_the_mask_is_judged_as_it_is(write_contract: "Write", mask: str) -> None:
    """Rules about single rows see the value itself, unless the table says otherwise."""
    assert _told(write_contract, mask, _rule(_SET, value_set=["new"]), before=True) == []


@pytest.mark.parametrize("condition", ["a = 'x'", "n = 1 AND `A` = 'x'", 'col("a").notNull()'])
def test_a_condition_that_asks_for_what_is_always_null_is_an_error(write_contract: "Write", condition: str) -> None:
    """It picks no row, or every one, whatever it was written for; case does not count, as it does not to Spark."""
    parser = "great_expectations" if "col" in condition else "spark"
    rule = _rule("expect_column_values_to_not_be_null", column="n", row_condition=condition, condition_parser=parser)

    ((line, message),) = _told(write_contract, "null", rule)

    assert line == 15
    assert message.casefold() == "its row_condition sees what the mirror stores, and column a is never there."


@pytest.mark.parametrize("condition", ["coalesce(a, t) = 'x'", "exists(array(n), a -> a > 1)"])
def test_a_condition_with_a_function_may_have_an_answer(write_contract: "Write", condition: str) -> None:
    """For what is NULL; and what a lambda calls its argument only Spark can tell from a column."""
    rule = _rule("expect_column_values_to_not_be_null", column="n", row_condition=condition, condition_parser="spark")

    assert _told(write_contract, "null", rule) == []


def test_a_masked_column_is_told_whatever_case_a_rule_has_its_name_in(write_contract: "Write") -> None:
    """To Spark `A` is the column `a`."""
    rule = _rule("expect_column_values_to_be_unique", column="A")

    for mask, says in (("null", "is always NULL there"), ("redact", "with one text in place of every value")):
        ((_, message),) = _told(write_contract, mask, rule, refused=True)
        assert says in message
