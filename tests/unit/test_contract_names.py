"""The names of rules to which a contract gives none."""

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import load_contract
from tests.unit.contracts import Write

if TYPE_CHECKING:
    from cdc_materializer.contract.model import Contract

_GX = "type: custom, engine: greatExpectations, implementation"
_SOME = [
    f"{{{_GX}: {{type: expect_column_values_to_be_between, kwargs: {{min_value: {least}, "
    f"row_condition: {condition}, condition_parser: spark}}}}}}"
    for least, condition in ((10, "kind = 'a'"), (5, "kind = 'b'"), (5, "kind = 'a'"))
]


def _contract(write_contract: "Write", *quality: str, options: str = "") -> "Contract":
    listed = "".join(f"\n    - {one}" for one in quality)
    return load_contract(
        write_contract(
            f"- name: x\n  physicalType: int{options}\n  quality:{listed}\n- {{name: kind, physicalType: text}}"
        )
    )


def _named(contract: "Contract") -> dict[str, object]:
    return {rule.name: dict(rule.kwargs) for rule in contract.rules}


@pytest.mark.parametrize("order", list(permutations(_SOME)), ids=str)
def test_the_order_of_rules_without_names_says_nothing(write_contract: "Write", order: tuple[str, ...]) -> None:
    """Each has the same name wherever it stands, so that quarantine means the same rule and the contract is one."""
    plain, other = _contract(write_contract, *_SOME), _contract(write_contract, *order)

    assert _named(other) == _named(plain)
    assert sorted(_named(other)) == ["x.between", "x.between.2", "x.between.3"]
    assert other.fingerprint == plain.fingerprint


def test_rules_that_differ_in_what_they_do_are_told_apart(write_contract: "Write") -> None:
    """Two that ask the same, of which one warns."""
    rule = f"{{{_GX}: {{type: expect_column_values_to_be_between, kwargs: {{min_value: 1}}}}%s}}"
    one, other = rule % "", rule % ", customProperties: [{property: action, value: warn}]"

    found = [
        {rule.name: rule.action for rule in _contract(write_contract, *order).rules}
        for order in ((one, other), (other, one))
    ]

    assert found[0] == found[1]


def test_the_rule_of_an_option_keeps_the_plain_name(write_contract: "Write") -> None:
    """It comes before those under `quality`, whatever these are."""
    options = "\n  logicalTypeOptions: {minimum: 7}"

    found = _named(_contract(write_contract, *_SOME[:2], options=options))

    assert found["x.between"] == {"min_value": 7}
    assert sorted(found) == ["x.between", "x.between.2", "x.between.3"]


def test_a_stated_name_is_passed_over(write_contract: "Write") -> None:
    """What the file calls a rule no other one is called."""
    named = _SOME[0].replace("{type", "{name: x.between, type", 1)

    assert [rule.name for rule in _contract(write_contract, named, _SOME[1]).rules] == ["x.between", "x.between.2"]
