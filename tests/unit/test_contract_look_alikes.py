"""What looks like a rule of a contract and would be none, or one that nothing can keep."""

from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import load_contract
from cdc_materializer.errors import ContractInvalid
from tests.unit.contracts import of_json_schema, problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write

_GX = "type: custom\n      engine: greatExpectations\n      implementation: {type: expect_column_values_to_be_null}"
_QUERY = "type: sql\n      query: SELECT count(*) FROM {object}\n      mustBe: 0"


@pytest.mark.parametrize(
    ("rule", "key", "line"),
    [
        ("type: text\n      metric: nullValues", "metric", 13),
        ("type: text\n      rule: nullValues", "rule", 13),
        ("type: text\n      query: SELECT 1", "query", 13),
        ("type: text\n      mustBe: 0", "mustBe", 13),
        ("type: text\n      mustBeBetween: [1, 2]", "mustBeBetween", 13),
        ("type: text\n      engine: soda", "engine", 13),
        ("type: text\n      implementation: x", "implementation", 13),
        ("type: text\n      arguments: {validValues: [1]}", "arguments", 13),
        ("type: text\n      customProperties:\n        - {property: action, value: block}", "action", 14),
        ("type: text\n      customProperties:\n        - {property: shadow, value: true}", "shadow", 14),
        (f"{_QUERY}\n      metric: nullValues", "metric", 15),
        (f"{_QUERY}\n      engine: soda", "engine", 15),
        (f"{_QUERY}\n      implementation: x", "implementation", 15),
        (f"{_QUERY}\n      arguments: {{validValues: [1]}}", "arguments", 15),
        ("type: library\n      metric: nullValues\n      mustBe: 0\n      query: SELECT 1", "query", 15),
        ("metric: nullValues\n      mustBe: 0\n      query: SELECT 1", "query", 14),
        ("metric: nullValues\n      mustBe: 0\n      engine: greatExpectations", "engine", 14),
        ("metric: nullValues\n      mustBe: 0\n      implementation: x", "implementation", 14),
        (f"{_GX}\n      metric: nullValues", "metric", 15),
        (f"{_GX}\n      query: SELECT 1", "query", 15),
        (f"{_GX}\n      arguments: {{validValues: [1]}}", "arguments", 15),
    ],
)
def test_what_the_type_of_a_rule_does_not_use_is_refused(
    write_contract: "Write", rule: str, key: str, line: int
) -> None:
    """It would be read by nobody, and look as if it were enforced."""
    path = write_contract(f"- name: a\n  quality:\n    - {rule}")

    with pytest.raises(ContractInvalid):
        load_contract(path)
    (problem,) = problems_of(path)

    assert (problem.line, problem.message.startswith(f"{key} says nothing beside type")) == (line, True)


def test_a_metric_under_two_names_is_refused(write_contract: "Write") -> None:
    """One of the two would be left out."""
    path = write_contract("- {name: a, quality: [{metric: nullValues, rule: duplicateValues, mustBe: 0}]}")

    assert [problem.message for problem in problems_of(path)] == ["metric and rule name different metrics."]


def test_a_description_is_no_rule_and_no_problem(write_contract: "Write") -> None:
    """ODCS's `text` says something to people."""
    path = write_contract(
        """
        - name: a
          quality:
            - {type: text, name: x, description: As the source has it., dimension: accuracy, severity: info}
            - type: text
              description: Asked of people.
              customProperties: [{property: ticket, value: 7}]
        """
    )

    assert load_contract(path).rules == ()
    assert problems_of(path) == []


def _of_schema(write_contract: "Write", schema: str) -> list[str]:
    path = write_contract(of_json_schema(schema))
    load_contract(path)
    return [f"{problem.line} {problem.message}" for problem in problems_of(path)]


def test_a_format_of_a_json_schema_is_told_and_refused_by_no_run(write_contract: "Write") -> None:
    """JSON Schema has it for a note, and so have Great Expectations; whoever writes it may think otherwise."""
    schema = "{properties: {mail: {format: email}, days: {items: {anyOf: [{format: date}, {format: email}]}}}}"

    assert _of_schema(write_contract, schema) == [
        "15 the JSON schema has the formats date, email, which are not judged."
    ]


def test_a_property_that_is_called_format_is_none(write_contract: "Write") -> None:
    """Nor is one among values."""
    schema = "{properties: {format: {type: string}}, const: {format: email}, required: [format]}"

    assert _of_schema(write_contract, schema) == []


def _lengths(*rules: str) -> str:
    head = "- name: t\n  physicalType: text\n  quality:\n"
    return head + "".join(
        "    - {type: custom, engine: greatExpectations, implementation: {type: expect_column_value_lengths_to_"
        f"{rule}}}}}\n"
        for rule in rules
    )


@pytest.mark.parametrize(
    "rule",
    [
        "be_between, kwargs: {min_value: 2, max_value: 3, strict_min: true, strict_max: true}",
        "be_between, kwargs: {min_value: 2, max_value: 2, strict_min: true}",
        "be_between, kwargs: {max_value: 0, strict_max: true}",
    ],
)
def test_lengths_that_no_text_has_are_refused(write_contract: "Write", rule: str) -> None:
    """A length is a whole number from 0, so that there is none between 2 and 3."""
    (problem,) = problems_of(write_contract(_lengths(rule)))

    assert (problem.line, problem.message.startswith("no value can pass")) == (13, True)


@pytest.mark.parametrize(
    "rules",
    [
        (
            "be_between, kwargs: {min_value: 2, strict_min: true}",
            "be_between, kwargs: {max_value: 3, strict_max: true}",
        ),
        ("be_between, kwargs: {min_value: 2, strict_min: true}", "equal, kwargs: {value: 2}"),
    ],
)
def test_so_are_those_that_no_text_has_together(write_contract: "Write", rules: tuple[str, str]) -> None:
    """Each may be kept alone."""
    (problem,) = problems_of(write_contract(_lengths(*rules)))

    assert problem.message == "no value can pass this rule and the one of line 13 together."


@pytest.mark.parametrize(
    "rule",
    [
        "be_between, kwargs: {min_value: 2, max_value: 4, strict_min: true, strict_max: true}",
        "be_between, kwargs: {min_value: 2, max_value: 3, strict_min: true}",
        "be_between, kwargs: {max_value: 1, strict_max: true}",
    ],
)
def test_lengths_that_one_text_has_are_let_pass(write_contract: "Write", rule: str) -> None:
    """One length is enough."""
    assert problems_of(write_contract(_lengths(rule))) == []
