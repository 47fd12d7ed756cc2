"""Contract files that are not as ODCS has them, or have parts that would look like a promise and be none."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import load_contract
from tests.unit.contracts import HEAD, problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write


def test_an_odcs_model_error_names_the_line(write_contract: "Write") -> None:
    """What the ODCS models refuse is told with the line of the value, and the nearest key where one is unknown."""
    path = write_contract("- name: a\n  required: perhaps")

    assert [(p.line, p.where, p.message) for p in problems_of(path)] == [
        (11, "schema[0].properties[1].required", "not as ODCS says: it is not true or false.")
    ]
    path.write_text("apiVersion: v3.0.2\nkind: DataContract\nschema: []\nstauts: x\n")
    assert [p.do for p in problems_of(path)] == ["Did you mean status?"]


@pytest.mark.parametrize(
    ("team", "where", "message"),
    [
        ("Sales", "team", "not as ODCS says: it is not a mapping of keys and it is not a list."),
        ("{name: 5}", "team.name", "not as ODCS says: it is not a text."),
        ("[ann]", "team[0]", "not as ODCS says: it is not a mapping of keys."),
    ],
)
def test_what_can_be_written_in_two_ways_is_refused_once(tmp_path: Path, team: str, where: str, message: str) -> None:
    """As what it was meant to be: a team is a mapping, or in earlier versions of ODCS a list."""
    path = tmp_path / "contract.yaml"
    path.write_text(f"{HEAD}team: {team}\n", encoding="utf-8")

    assert [(p.where, p.message) for p in problems_of(path)] == [(where, message)]


def test_a_table_that_is_described_twice_is_a_problem(tmp_path: Path) -> None:
    """No run could choose one of them."""
    path = tmp_path / "contract.yaml"
    table = HEAD.partition("schema:\n")[2]
    path.write_text(f"{HEAD}{table}", encoding="utf-8")

    (problem,) = problems_of(path)

    assert (problem.where, problem.do) == ("schema[1]", "Keep one, or mend its name.")


@pytest.mark.parametrize(
    ("named", "do"), [("freshnes", ["Did you mean freshness?"]), ("latencyy", ["Did you mean latency?"]),
                      ("retention", []), ("frequency", [])]
)  # fmt: skip
def test_a_service_level_that_is_named_nearly_as_one_of_age_is_a_problem(
    tmp_path: Path, named: str, do: list[str]
) -> None:
    """It would look as if a table's age were promised, and nothing would be late. No run is refused for it."""
    path = tmp_path / "contract.yaml"
    path.write_text(f"{HEAD}slaProperties: [{{property: {named}, value: 4, unit: h}}]\n", encoding="utf-8")

    assert [problem.do for problem in problems_of(path)] == do
    assert load_contract(path).freshness is None
