"""Conditions on rows: what of them is told without Spark, and what is left to it."""

from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import load_contract
from cdc_materializer.contract.conditions import faults
from cdc_materializer.errors import ContractInvalid
from tests.unit.contracts import problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write

COLUMNS = ("id", "Amount", "placed_at", "a.b", "doc", "date", "now", "bin")

GOOD = [
    "amount > 1.5e3 AND `a.b` IS NOT NULL",
    "doc.amonut = 'nope' or doc.`x`.y <> r'\\d'",
    "CASE WHEN id > 3 THEN true ELSE amount BETWEEN 1 AND 2 END",
    "cast(amount AS decimal(12, 2)) % 3 = 0 -- of nobody's",
    "placed_at >= timestamp '2026-11-21 10:00:00' - INTERVAL 3 DAYS",
    "date < DATE'2026-01-01' AND date <> 'todays'",
    "extract(YEAR FROM placed_at) = 2026 and substring(doc, 1, 2) in ('ab', \"it's\")",
    "exists(split(doc, ','), part -> part = amonut)",
    "now > 1 and unix_timestamp(placed_at) > 0",
    "doc not rlike '(unclosed' /* a [ that is none */ and doc <> 'it''s'",
    "doc COLLATE UTF8_LCASE = 'x' AND extract(DAYOFWEEK_ISO FROM placed_at) < 6 AND bin <> X'1F'",
    "from_json(doc, 'a int').a = 1 AND cast(doc AS struct<part:int>).part = 1 AND amount::int > 0",
    'col("Amount") >= 3',
    ' col("Amount") == "a b" ',
    "col(\"doc\") != 'x'",
    'col("date") < date("2026-01-01")',
    'col("Amount") > -1.5e3',
    'col("Amount").notNull()',
    "cast('epoch' AS date) < placed_at AND to_date(doc) > DATE'2026-01-01'",
    {"type": "pass_through", "pass_through_filter": "amount > 1"},
    {"type": "comparison", "column": {"name": "id"}, "operator": "==", "parameter": 3},
]


@pytest.mark.parametrize("condition", GOOD, ids=str)
def test_a_condition_of_a_row_has_no_fault(condition: object) -> None:
    """Words of the language, functions, fields, texts and comments are no columns; case does not count."""
    assert list(faults(condition, COLUMNS, decides=True)) == []


BAD = [
    ("amonut > 1", "names the column 'amonut', which is not declared.", "Did you mean Amount?"),
    ("`a.c` is null", "names the column 'a.c'", "Did you mean a.b?"),
    ('col("idd") >= 3', "names the column 'idd'", "Did you mean id?"),
    ({"type": "or", "conditions": [{"column": {"name": "whatever"}}]}, "names the column 'whatever'", "Declare it"),
    ({"type": "and", "conditions": [{"type": "pass_through", "pass_through_filter": "amonut > 1"}]},
     "names the column 'amonut'", "Did you mean Amount?"),
    ({"type": "pass_through", "pass_through_filter": "(id > 1"}, "a bracket", "Close it."),
    ('col("id") == 1 and col("Amount") > 5', "is not one comparison", "condition_parser: spark"),
    ('col("Amount") > 1,000', "is not one comparison", "condition_parser: spark"),
    ('col("id") == 1 or rand() > 2', "is not one comparison", "condition_parser: spark"),
    ("(id > 1", "a bracket or a quotation mark", "Close it."),
    ("id > 1)", "a bracket or a quotation mark", "Close it."),
    ("doc = 'x", "a bracket or a quotation mark", "Close it."),
    ("  ", "is empty", "leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "message", "do"), BAD, ids=[str(condition) for condition, _, _ in BAD])
def test_what_a_condition_has_wrong_is_told(condition: object, message: str, do: str) -> None:
    """Each fault says what is wrong and what to do."""
    found = list(faults(condition, COLUMNS, decides=True))

    assert [(message in what, do in remedy) for what, remedy in found] == [(True, True)]


UNDECIDED = [
    ("rand() < 0.5", "something random"),
    ("placed_at < now()", "the time of the run"),
    ("placed_at < current_timestamp", "the time of the run"),
    ("placed_at < current_date() - INTERVAL 1 DAY", "the time of the run"),
    ("date > DATE 'today'", "the time of the run"),
    ("amount < unix_timestamp()", "the time of the run"),
    ("placed_at < cast('today' AS date)", "the time of the run"),
    ("placed_at < try_cast(' Now ' AS timestamp)", "the time of the run"),
    ("placed_at < 'now'::timestamp", "the time of the run"),
    ("placed_at < date('today')", "the time of the run"),
    ("placed_at < timestamp('now')", "the time of the run"),
    ("placed_at < to_date('tomorrow')", "the time of the run"),
    ("placed_at < to_timestamp('yesterday')", "the time of the run"),
    ({"type": "pass_through", "pass_through_filter": "placed_at < now()"}, "the time of the run"),
    ({"type": "or", "conditions": [{"type": "and", "conditions": [
        {"type": "pass_through", "pass_through_filter": "amount > rand()"}]}]}, "something random"),
    ("doc = current_user()", "who runs it"),
    ("doc = session_user", "who runs it"),
    ("doc = user()", "who runs it"),
    ("count(id) OVER () > 1", "the other rows of the batch"),
    ("id IN (SELECT id FROM lake.shop.others)", "another table"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "asks"), UNDECIDED, ids=[str(condition) for condition, _ in UNDECIDED])
def test_a_condition_that_a_row_does_not_decide_holds_none(condition: object, asks: str) -> None:
    """It would be met in one batch and not in another; a rule that only warns may ask so."""
    found = list(faults(condition, COLUMNS, decides=True))

    assert [asks in what for what, _ in found] == [True]
    assert list(faults(condition, COLUMNS, decides=False)) == []


SPOKEN = [
    ("due < 'today'", True),
    ("'now' >= `Due` AND id > 1", True),
    ("due NOT BETWEEN 'yesterday' AND DATE'2026-01-01'", True),
    ("due IN ('2026-01-01', 'today')", True),
    ("due > r'today'", True),
    ("due >= date_sub('today', 30)", True),
    ("due + INTERVAL 1 DAY > 'today'", True),
    ("doc < 'today' + INTERVAL 1 DAY", True),
    ("datediff('today', due) < 30", True),
    ("year('now') = id", True),
    ("date_sub(if(id > 1 AND doc = 'x', 'now', doc), 1) > due", True),
    ("due < CASE WHEN id > 1 AND doc = 'x' THEN 'now' ELSE doc END", True),
    ("coalesce(due, 'today') IS NULL", True),
    ("doc::date < 'today'", True),
    ("part.due < 'today'", True),
    ("whatever < 'today'", True),
    ('col("due") == "today"', True),
    ('col("whatever") == "today"', True),
    ({"type": "and", "conditions": [
        {"type": "comparison", "column": {"name": "due"}, "operator": "<", "parameter": "today"}]}, True),
    ({"type": "comparison", "column": {"name": "due"}, "operator": "IN", "parameter": ["2026-01-01", "now"]}, True),
    ("due IS NOT NULL AND doc = 'today'", False),
    ("id > due AND 'today' = doc", False),
    ("due > DATE'2026-01-01' OR NOT (`Doc` <> 'now' AND (id > 1 OR doc IN ('a', 'today')))", False),
    ("concat('now', doc) <> 'now' AND due IS NULL", False),
    ("upper(trim(doc)) LIKE 'NOW'", False),
    ("doc BETWEEN 'a' AND 'now'", False),
    ("CASE WHEN id = 1 THEN 'now' ELSE doc END = 'today'", False),
    ("due > 'epoch'", False),
    ('col("doc") == "today"', False),
    ({"type": "comparison", "column": {"name": "doc"}, "operator": "==", "parameter": "today"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "asks"), SPOKEN, ids=[str(condition) for condition, _ in SPOKEN])
def test_a_word_beside_a_date_is_the_time_of_the_run(condition: object, *, asks: bool) -> None:
    """Spark makes a time of it there, and leaves it a word among texts; a column of no known type may be either."""
    columns, timeless = ("id", "due", "doc", "part", "whatever"), ("id", "doc")
    found = list(faults(condition, columns, decides=True, timeless=timeless))

    assert ["the time of the run" in what for what, _ in found] == ([True] if asks else [])
    assert list(faults(condition, columns, decides=False, timeless=timeless)) == []


def test_a_contract_s_dates_are_those_that_it_declares(write_contract: "Write") -> None:
    """The type of the column says whether a word beside it is a time."""
    asked = "{type: expect_column_values_to_not_be_null, kwargs: {row_condition: due < 'now', condition_parser: spark}}"

    def told(kind: str) -> list[bool]:
        path = write_contract(f"""
        - {{name: due, {kind}}}
        - name: n
          physicalType: int
          quality: [{{type: custom, engine: greatExpectations, implementation: {asked}}}]
        """)
        return ["the time of the run" in problem.message for problem in problems_of(path)]

    asking = ("physicalType: date", "physicalType: timestamp", "description: of no type")
    assert [told(kind) for kind in (*asking, "physicalType: text")] == [[True], [True], [True], []]


@pytest.mark.parametrize(
    ("action", "mostly", "refused"),
    [("quarantine", 1, True), ("block", 1, True), ("warn", 1, False), ("block", 0.5, False)],
)
def test_a_rule_that_holds_rows_is_refused_with_the_line_of_its_condition(
    write_contract: "Write", action: str, mostly: float, *, refused: bool
) -> None:
    """One that warns changes no table, and one about the table is judged once, on what the batch makes of it."""
    path = write_contract(f"""
    - name: n
      physicalType: int
      quality:
        - type: custom
          engine: greatExpectations
          implementation:
            type: expect_column_values_to_not_be_null
            kwargs:
              row_condition: id > rand()
              condition_parser: spark
              mostly: {mostly}
          customProperties: [{{property: action, value: {action}}}]
    """)

    problems = problems_of(path)

    assert [("random" in problem.message, problem.line) for problem in problems] == ([(True, 18)] if refused else [])


def test_a_column_that_only_a_condition_names_is_an_error_with_its_line(write_contract: "Write") -> None:
    """Also where the rule is about the table."""
    path = write_contract("""
    - name: n
      physicalType: int
      quality:
        - type: custom
          engine: greatExpectations
          implementation:
            type: expect_column_mean_to_be_between
            kwargs:
              min_value: 1
              condition_parser: spark
              row_condition: ammount > 1
    """)

    with pytest.raises(ContractInvalid, match=r"orders\.yaml:20.*row_condition names the column 'ammount'"):
        load_contract(path)
