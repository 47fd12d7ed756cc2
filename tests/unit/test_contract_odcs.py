"""Contract files: what is read, and which rules it becomes."""

from decimal import Decimal
from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.contract import Action, Contract, Scope, lint, load_contract
from cdc_materializer.contract.model import Contact, ContactKind
from cdc_materializer.errors import ContractInvalid
from tests.unit.contracts import HEAD, against_odcs, problems_of

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh
    from tests.unit.contracts import Write

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "contracts").glob("*.yaml"))
SHIPPED = [*EXAMPLES, *sorted((ROOT / "cdc_materializer" / "demo_data" / "contracts").glob("*.yaml"))]


def _rules(contract: Contract) -> dict[str, tuple[str, dict[str, Any], Action]]:
    return {rule.name: (rule.expectation, dict(rule.kwargs), rule.action) for rule in contract.rules}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_that_ship_have_no_problem(path: Path) -> None:
    """Each file in contracts/ loads, has rules, and passes its own check."""
    assert problems_of(path) == []
    assert load_contract(path).rules


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.parent.name}/{path.stem}")
def test_what_ships_is_valid_odcs(path: Path) -> None:
    """The contracts that ship are valid by the schema of its version, by which other tools judge them."""
    assert against_odcs(path) == []


def test_there_are_examples() -> None:
    """The test above has something to look at."""
    assert {"customers", "order_lines", "orders", "payments"} <= {path.stem for path in EXAMPLES}


def test_columns_are_read_with_their_types(write_contract: "Write") -> None:
    """Columns keep the file's order; their type is Spark's."""
    contract = load_contract(
        write_contract("- {name: amount, physicalType: 'numeric(12,2)', required: true}\n- {name: x}")
    )

    columns = [(c.name, c.type, c.required, c.primary_key) for c in contract.columns]

    assert columns == [
        ("id", "bigint", False, True),
        ("amount", "decimal(12,2)", True, False),
        ("x", None, False, False),
    ]


def test_options_of_a_column_become_rules(write_contract: "Write") -> None:
    """Bounds, lengths, patterns and enumerations are rules named after their column; numbers are exact."""
    contract = load_contract(
        write_contract("""
        - name: amount
          physicalType: numeric(12,2)
          required: true
          logicalTypeOptions: {minimum: 0.1, exclusiveMaximum: 100}
        - name: code
          logicalType: string
          logicalTypeOptions: {minLength: 2, maxLength: 3, pattern: '^[A-Z]+$'}
          enum: [{value: AB}, {value: CD}]
        """)
    )

    assert _rules(contract) == {
        "amount.required": ("expect_column_values_to_not_be_null", {}, Action.QUARANTINE),
        "amount.between": (
            "expect_column_values_to_be_between",
            {"min_value": Decimal("0.1"), "max_value": 100, "strict_max": True},
            Action.QUARANTINE,
        ),
        "code.enum": ("expect_column_values_to_be_in_set", {"value_set": ["AB", "CD"]}, Action.QUARANTINE),
        "code.length": (
            "expect_column_value_lengths_to_be_between",
            {"min_value": 2, "max_value": 3},
            Action.QUARANTINE,
        ),
        "code.pattern": ("expect_column_values_to_match_regex", {"regex": "^[A-Z]+$"}, Action.QUARANTINE),
    }


def test_library_metrics_become_rules_with_their_action(write_contract: "Write") -> None:
    """nullValues, missingValues and invalidValues with mustBe 0 speak of single rows."""
    contract = load_contract(
        write_contract("""
        - name: status
          logicalType: string
          quality:
            - {type: library, metric: nullValues, mustBe: 0}
            - {name: filled, metric: missingValues, mustBe: 0, arguments: {missingValues: [null, '', n/a]}}
            - {name: told, metric: missingValues, mustBe: 0, arguments: {missingValues: ['', n/a]}}
            - {name: there, metric: missingValues, mustBe: 0, arguments: {missingValues: []}}
            - name: known
              metric: invalidValues
              mustBe: 0
              arguments: {validValues: [a, b]}
              severity: warning
              customProperties: [{property: action, value: warn}]
            - {name: shape, rule: invalidValues, mustBe: 0, arguments: {validValues: [a], pattern: a}}
            - {type: text, description: Written for people.}
        """)
    )

    assert _rules(contract) == {
        "status.not_null": ("expect_column_values_to_not_be_null", {}, Action.QUARANTINE),
        "filled.null": ("expect_column_values_to_not_be_null", {}, Action.QUARANTINE),
        "filled.missing": ("expect_column_values_to_not_be_in_set", {"value_set": ["", "n/a"]}, Action.QUARANTINE),
        # NULL is missing where the list says so, or nothing at all, as under any other condition than `mustBe: 0`.
        "told.missing": ("expect_column_values_to_not_be_in_set", {"value_set": ["", "n/a"]}, Action.QUARANTINE),
        "there": ("expect_column_values_to_not_be_null", {}, Action.QUARANTINE),
        "known": ("expect_column_values_to_be_in_set", {"value_set": ["a", "b"]}, Action.WARN),
        "shape.values": ("expect_column_values_to_be_in_set", {"value_set": ["a"]}, Action.QUARANTINE),
        "shape.pattern": ("expect_column_values_to_match_regex", {"regex": "a"}, Action.QUARANTINE),
    }
    assert {rule.name: rule.severity for rule in contract.rules}["known"] == "warning"


@pytest.mark.parametrize(
    "written",
    [
        "{type: expect_column_values_to_be_between, kwargs: {min_value: 0.5}}",
        "{expectation_type: expectColumnValuesToBeBetween, kwargs: {column: qty, min_value: 0.5}, meta: {by: me}}",
        "{type: ExpectColumnValuesToBeBetween, kwargs: {min_value: 0.5, notes: why}}",
        '\'{"type": "expect_column_values_to_be_between", "kwargs": {"min_value": 0.5}}\'',
        "'{type: expect_column_values_to_be_between, kwargs: {min_value: 0.5}}'",
    ],
)
@pytest.mark.parametrize("engine", ["greatExpectations", "great-expectations", "great_expectations"])
def test_an_expectation_is_read_in_any_spelling(write_contract: "Write", written: str, engine: str) -> None:
    """Mapping or text, YAML or JSON, snake or camel case: the same rule, with exact numbers."""
    path = write_contract(
        f"- {{name: qty, physicalType: 'numeric(4,1)', quality: [{{type: custom, engine: {engine}, "
        f"implementation: {written}}}]}}"
    )

    rule = load_contract(path).rules[0]

    assert (rule.name, rule.column, rule.expectation) == ("qty.between", "qty", "expect_column_values_to_be_between")
    assert rule.kwargs == {"min_value": Decimal("0.5")}


def test_a_rule_of_the_table_may_name_its_columns(write_contract: "Write") -> None:
    """Rules about several columns of a row stand under the table or under a column."""
    path = write_contract("- {name: a, physicalType: int}\n- {name: b, physicalType: int}")
    path.write_text(
        path.read_text()
        + indent(
            dedent("""\
            quality:
              - type: custom
                engine: greatExpectations
                implementation:
                  type: expect_column_pair_values_a_to_be_greater_than_b
                  kwargs: {column_A: a, column_B: b, row_condition: id > 3, condition_parser: spark}
            """),
            "    ",
        )
    )

    rule = load_contract(path).rules[0]

    assert (rule.name, rule.column) == ("a.pair_values_a_to_be_greater_than_b", None)
    assert rule.line == 15


def test_the_mirror_s_name_picks_one_of_several_tables(write_contract: "Write") -> None:
    """A file with several tables serves the mirror that one of them is named after."""
    path = write_contract("")
    path.write_text(path.read_text() + "  - name: payments\n    properties: [{name: pid, physicalType: int}]\n")

    assert [c.name for c in load_contract(path, "shop.payments").columns] == ["pid"]
    assert [c.name for c in load_contract(path, "orders").columns] == ["id"]
    with pytest.raises(ContractInvalid, match=r":6, schema: the contract has 2 tables and nothing says which one"):
        load_contract(path)
    with pytest.raises(ContractInvalid, match=r"not exactly one of them is shop\.customers"):
        load_contract(path, "shop.customers")
    path.write_text(path.read_text() + "  - name: payments\n    properties: [{name: x, physicalType: int}]\n")
    with pytest.raises(ContractInvalid, match=r"not exactly one of them is shop\.payments"):
        load_contract(path, "shop.payments")


@pytest.mark.parametrize(
    ("place", "written", "line", "said"),
    [
        ("    properties:", "max_quarantine", 8, "Did you mean max_quarantined?"),
        ("    properties:", "jugde", 8, "Did you mean judge?"),
        ("    properties:", "team", None, None),
        ("schema:", "max_quarantined", 6, "Move it there."),
        ("schema:", "owner", None, None),
    ],
)
def test_a_property_that_would_be_passed_over_is_a_problem(
    write_contract: "Write", place: str, written: str, line: int | None, said: str | None
) -> None:
    """One that is misspelt, or stands where it means nothing, would leave a threshold out; others are anybody's."""
    path = write_contract("")
    indented = " " * (len(place) - len(place.lstrip()))
    stated = f"{indented}customProperties: [{{property: {written}, value: 5%}}]\n{place}"
    path.write_text(path.read_text().replace(place, stated, 1))

    assert [(one.line, one.do) for one in problems_of(path)] == ([(line, said)] if said else [])


def test_all_tables_of_a_file_are_checked_where_nothing_picks_one(write_contract: "Write") -> None:
    """Each with its lines; what is wrong with the file itself is told once."""
    path = write_contract("")
    more = "  - name: payments\n    properties: [{name: pid, physicalType: int, required: true}]\n"
    path.write_text(path.read_text() + more)

    (whole,) = lint(path).files
    assert (whole.problems, whole.columns, whole.rules, whole.fingerprint) == ([], 2, 1, None)
    wrong = more.replace("required", "requierd") + "slaProperties: [{property: latency, value: 4, unit: x}]\n"
    path.write_text(path.read_text().replace(more, wrong))
    assert [(one.line, one.message[:20]) for one in lint(path).files[0].problems] == [
        (12, "ODCS does not know t"),
        (13, "unknown unit 'x' of "),
    ]


def test_a_primary_key_that_is_called_unique_is_held_to_it(write_contract: "Write") -> None:
    """The contract's key need not be the topic's, by which rows are told apart."""
    path = write_contract("- {name: code, physicalType: text, unique: true}")
    path.write_text(path.read_text().replace("primaryKey: true,", "primaryKey: true, unique: true,"))

    assert [rule.name for rule in load_contract(path).rules] == ["id.unique", "code.unique"]


def test_what_the_primary_key_has_beside_the_tables_key_is_required(write_contract: "Write") -> None:
    """As ODCS says of its columns. Rows without the table's own key are held for that, so that says nothing more."""
    path = write_contract("- {name: Region, physicalType: text, primaryKey: true}\n- {name: a, physicalType: int}")
    contract = load_contract(path)

    found = contract.of_table(("ID",))
    assert [(rule.name, rule.column, rule.told_action, rule.line) for rule in found.row_rules] == [
        ("Region.primary_key", "Region", "quarantine", 10)
    ]
    assert found.fingerprint == contract.fingerprint
    assert contract.of_table(("id",), ("id", "a")).rules == ()
    assert contract.of_table(("id",), ("id", "REGION")).rules == found.rules
    assert contract.rules == contract.of_table(()).rules == contract.of_table(("id", "region")).rules == ()
    required = path.read_text().replace("text, primaryKey", "text, required: true, primaryKey")
    path.write_text(required)
    assert [rule.name for rule in load_contract(path).of_table(("id",)).rules] == ["Region.required"]
    shadowed = "- name: orders\n    customProperties: [{property: shadow, value: true}]"
    path.write_text(required.replace("required: true, ", "").replace("- name: orders", shadowed))
    assert [rule.shadow for rule in load_contract(path).of_table(("id",)).rules] == [True]


def test_rule_names_are_unique_and_stable(write_contract: "Write") -> None:
    """Unnamed rules are numbered; a name given twice is a problem."""
    twice = "{{type: library, metric: nullValues, mustBe: 0{}}}"
    path = write_contract(f"- {{name: a, quality: [{twice.format('')}, {twice.format('')}]}}")
    assert [rule.name for rule in load_contract(path).rules] == ["a.not_null", "a.not_null.2"]

    path = write_contract(f"- {{name: a, quality: [{twice.format(', name: x')}, {twice.format(', name: x')}]}}")
    assert [p.message for p in problems_of(path)] == ["the rule name 'x' is used twice."]


def test_the_fingerprint_is_of_what_the_contract_judges(write_contract: "Write") -> None:
    """Order, comments, descriptions and spellings of a number do not count; a bound, an action or a type does."""
    a = "- {name: a, physicalType: int, logicalTypeOptions: {minimum: 1}}"
    b = "- {name: b, enum: [{value: x}, {value: y}], logicalType: string}"
    first = load_contract(write_contract(f"{a}\n{b}")).fingerprint

    same = f"# why\n{b.replace('x}, {value: y', 'y}, {value: x')}\n{a.replace('name: a', 'description: d, name: a')}"
    assert load_contract(write_contract(same.replace("minimum: 1", "minimum: 1.0"))).fingerprint == first
    for change in (
        ("minimum: 1", "minimum: 2"),
        ("physicalType: int", "physicalType: bigint"),
        ("value: y", "value: z"),
    ):
        assert load_contract(write_contract(f"{a}\n{b}".replace(*change))).fingerprint != first
    assert len(first) == 16
    assert set(first) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("text", "numeric"),
        ("text", "set('a','b')"),
        ("bigint", "time"),
        ("bigint", "time(3)"),
        ("decimal(20,0)", "bigint unsigned"),
        ("int", "tinyint(1)"),
    ],
)
def test_the_fingerprint_tells_columns_apart_that_are_decoded_otherwise(
    write_contract: "Write", one: str, other: str
) -> None:
    """What a replay has staged under the one is not published under the other, though their columns have one type."""
    found = [load_contract(write_contract(f'- {{name: a, physicalType: "{kind}"}}')) for kind in (one, other)]

    assert found[0].columns[0].type == found[1].columns[0].type
    assert found[0].fingerprint != found[1].fingerprint


def test_the_fingerprint_tells_how_values_are_written(write_contract: "Write") -> None:
    """The same texts are other bytes in hexadecimal than in Base64."""
    column = "- {name: a, physicalType: bytea, customProperties: [{property: written_as, value: %s}]}"

    found = {
        load_contract(write_contract(column % spelling)).fingerprint for spelling in ("base64", "base64url", "hex")
    }

    assert len(found) == 3


def test_the_fingerprint_of_a_contract_stays_from_release_to_release(write_contract: "Write") -> None:
    """Another one would tell of a contract that nobody has changed."""
    contract = load_contract(
        write_contract("""
        - {name: at, physicalType: timestamp(3), required: true}
        - {name: mail, physicalType: text, customProperties: [{property: mask, value: redact}]}
        - {name: n, physicalType: int, unique: true, logicalTypeOptions: {minimum: 1}}
        """)
    )

    assert contract.fingerprint == "848fea9b20fdfd18"


def test_loading_a_contract_needs_neither_spark_nor_great_expectations(fresh: "Fresh") -> None:
    """`contract lint` starts fast: the two slow libraries are not imported."""
    code = (
        "import sys, pathlib; from cdc_materializer.contract import lint; "
        "assert lint(pathlib.Path(sys.argv[1])).valid; "
        "assert not {'pyspark', 'great_expectations', 'pandas'} & set(sys.modules)"
    )
    ended = fresh.run(code, str(EXAMPLES[0]))

    assert (ended.code, ended.err) == (0, "")


def test_expectations_about_the_table_are_rules_that_block(write_contract: "Write") -> None:
    """An expectation about the whole table blocks unless it says that it warns; so does one with `mostly`."""
    contract = load_contract(
        write_contract("""
        - name: n
          physicalType: int
          quality:
            - type: custom
              engine: greatExpectations
              implementation: {type: expect_column_mean_to_be_between, kwargs: {min_value: 0.5}}
            - type: custom
              engine: greatExpectations
              implementation: {type: ExpectColumnMedianToBeBetween, kwargs: {max_value: 5}}
              customProperties: [{property: action, value: warn}]
            - name: mostly-there
              type: custom
              engine: greatExpectations
              implementation: {type: expect_column_values_to_not_be_null, kwargs: {mostly: 0.95}}
        """)
    )

    assert contract.row_rules == ()
    assert _rules(contract) == {
        "n.mean_to_be_between": ("expect_column_mean_to_be_between", {"min_value": Decimal("0.5")}, Action.BLOCK),
        "n.median_to_be_between": ("expect_column_median_to_be_between", {"max_value": 5}, Action.WARN),
        "mostly-there": ("expect_column_values_to_not_be_null", {"mostly": Decimal("0.95")}, Action.BLOCK),
    }


def test_a_rule_can_be_tried_in_the_shadow(write_contract: "Write") -> None:
    """`shadow: true` at a rule lets it be judged and not enforced; to switch it on is another contract."""
    stated = """
        - name: n
          physicalType: int
          quality:
            - metric: nullValues
              mustBe: 0
              customProperties: [{{property: shadow, value: {shadow}}}]
        """
    tried = load_contract(write_contract(stated.format(shadow="true")))
    live = load_contract(write_contract(stated.format(shadow="false")))

    assert [(rule.enforces, rule.told_action) for rule in tried.rules] == [(False, "shadow")]
    assert [(rule.enforces, rule.told_action) for rule in live.rules] == [(True, "quarantine")]
    assert tried.fingerprint != live.fingerprint


def test_a_whole_contract_can_be_tried_in_the_shadow(tmp_path: Path) -> None:
    """`shadow: true` at the table holds for every rule of it."""
    path = tmp_path / "orders.yaml"
    path.write_text(
        HEAD.replace("- name: orders", "- name: orders\n    customProperties: [{property: shadow, value: true}]")
        + "      - {name: n, physicalType: bigint, required: true}\n"
        + "      - {name: code, physicalType: text, unique: true}\n"
    )

    contract = load_contract(path)

    assert {rule.name: rule.told_action for rule in contract.rules} == {
        "n.required": "shadow",
        "code.unique": "shadow",
    }


def test_a_relationship_with_an_action_is_a_rule(write_contract: "Write") -> None:
    """ODCS's relationships describe; one that says what to do when it is broken is judged."""
    contract = load_contract(
        write_contract("""
        - name: customer
          physicalType: int
          relationships:
            - {to: customers.id}
            - {to: shop.customers.id, customProperties: [{property: action, value: warn}]}
        """)
    )

    assert [(rule.name, rule.expectation, rule.action) for rule in contract.rules] == [
        ("customer.references", "references", Action.WARN)
    ]
    assert dict(contract.rules[0].kwargs) == {
        "columns": ["customer"],
        "table": "shop.customers",
        "to": ["id"],
        "condition": "mustBe",
        "value": 0,
    }


def test_rules_about_one_measure_that_no_table_can_pass_are_a_problem(write_contract: "Write") -> None:
    """Two means that cannot both be are told, with the line of the other."""
    path = write_contract("""
        - name: n
          physicalType: int
          quality:
            - type: custom
              engine: greatExpectations
              implementation: {type: expect_column_mean_to_be_between, kwargs: {min_value: 5}}
            - type: custom
              engine: greatExpectations
              implementation: {type: expect_column_mean_to_be_between, kwargs: {max_value: 4}}
        """)

    assert [(problem.line, problem.message) for problem in problems_of(path)] == [
        (18, "no table can pass this rule and the one of line 15 together.")
    ]


def test_dates_and_times_need_no_quotes(tmp_path: Path) -> None:
    """ODCS's own pages have none around them; in a rule they are what the file says, as in quotes."""
    head = HEAD.replace(
        "schema:",
        """contractCreatedTs: 2024-09-17T11:58:08Z
team: {members: [{username: ann, dateIn: 2022-08-02}, {username: joe, dateOut: 2022-10-01}]}
slaProperties: [{property: generalAvailability, value: 2022-05-12T09:30:10-08:00}]
schema:""",
    )
    path = tmp_path / "orders.yaml"
    path.write_text(head + """\
      - {name: day, physicalType: date, logicalTypeOptions: {minimum: 2022-10-01}, examples: [2022-10-01]}
      - {name: at, physicalType: timestamptz, logicalTypeOptions: {maximum: 2022-10-01 10:00:00 +02:00}}
      - {name: code, physicalType: text, enum: [{value: 2022-10-01}]}
""")  # fmt: skip
    contract = load_contract(path)

    assert [contact.name for contact in contract.contacts] == ["ann"]
    assert [rule.kwargs for rule in contract.rules if rule.column != "id"] == [
        {"min_value": "2022-10-01"},
        {"max_value": "2022-10-01 10:00:00 +02:00"},
        {"value_set": ["2022-10-01"]},
    ]
    assert problems_of(path) == []


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ("{property: freshness, value: 15, unit: min}", 900),
        ("{property: latency, value: 1.5, unit: h}", 5400),
        ("{property: latency, value: 2, unit: d, element: orders.placed_at}", 172_800),
        ("{property: latency, value: 2, unit: d, element: 'payments.at, Orders.placed_at'}", 172_800),
        ("{property: latency, value: 2, unit: d, element: shop.orders}", 172_800),
        ("{property: latency, value: 2, unit: d, element: id}", 172_800),
        ("{property: latency, value: 1, unit: y}", 31_536_000),
        ("{property: latency, value: 2, unit: d, element: payments.at}", None),
        ("{property: retention, value: 2, unit: y}", None),
    ],
)
def test_a_contract_promises_how_old_a_table_may_be(tmp_path: Path, stated: str, seconds: float | None) -> None:
    """By ODCS's latency, or freshness as many say; of this table, in seconds, minutes, hours, days or years."""
    path = tmp_path / "orders.yaml"
    path.write_text(HEAD + f"slaProperties: [{stated}]\n")

    found = load_contract(path).freshness

    assert (None if found is None else found.total_seconds()) == seconds


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("{property: freshness, value: 15, unit: m}", "unknown unit"),
        ("{property: latency, value: x, unit: h}", "above 0"),
        (
            "{property: latency, value: 2, unit: d, element: payments.at}",
            "of 'payments.at', which the contract does not",
        ),
        ("{property: latency, value: 2, unit: d, element: 'id, placed_at'}", "promised of 'placed_at'"),
        ("{property: freshness, value: .nan, unit: h}", "above 0"),
        ("{property: freshness, value: 999999999999, unit: d}", "longer than can be counted"),
        ("{property: freshness, value: '1e400', unit: s}", "longer than can be counted"),
    ],
)
def test_a_freshness_that_says_nothing_is_a_problem(tmp_path: Path, stated: str, message: str) -> None:
    """A month and a minute are both an m; what is no number promises nothing."""
    path = tmp_path / "orders.yaml"
    path.write_text(HEAD + f"slaProperties: [{stated}]\n")

    (problem,) = problems_of(path)

    assert message in problem.message
    assert problem.line == 10


def test_a_freshness_is_promised_of_the_tables_that_it_names(tmp_path: Path) -> None:
    """Where a contract has several, a column alone is of none of them."""
    path = tmp_path / "shop.yaml"
    payments = "  - name: payments\n    properties: [{name: id, primaryKey: true, physicalType: bigint}]\n"

    def promised(element: str) -> list[bool]:
        path.write_text(
            HEAD + payments + f"slaProperties: [{{property: latency, value: 2, unit: d, element: '{element}'}}]\n"
        )
        return [load_contract(path, table).freshness is not None for table in ("shop.orders", "shop.payments")]

    assert promised("payments.id") == [False, True]
    assert promised("shop.orders, payments.id") == [True, True]
    assert problems_of(path) == []
    assert promised("id") == [False, False]
    assert [problem.where for problem in problems_of(path)] == ["slaProperties[0].element"]


def test_every_expectation_that_gx_has_on_spark_is_taken(write_contract: "Write") -> None:
    """Those that speak of the table block by default, the one about JSON holds rows."""
    path = write_contract("""
    - name: doc
      physicalType: text
      quality:
        - type: custom
          engine: greatExpectations
          implementation:
            type: expect_column_values_to_match_json_schema
            kwargs: {json_schema: {
              properties: {a: {$ref: "#/$defs/small"}}, $defs: {small: {maximum: 0.5, not: {const: 2026-01-01}}}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_values_to_be_in_type_list, kwargs: {type_list: [StringType, VarcharType]}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_type_to_be, kwargs: {type_: StringType}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_values_to_be_of_type, kwargs: {type_: StringType}}}
    - name: n
      physicalType: int
      quality:
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_values_to_be_increasing, kwargs: {strictly: true}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_values_to_be_decreasing, kwargs: {mostly: 0.5}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: expect_column_values_to_not_be_outliers, kwargs: {method: std, multiplier: 3}}}
        - {type: custom, engine: greatExpectations, implementation: {
            type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: "SELECT * FROM {batch} WHERE n < 0;"}}}
    """)

    contract = load_contract(path)

    assert [(rule.action, rule.scope) for rule in contract.rules] == [
        (Action.QUARANTINE, Scope.ROW),
        *[(Action.BLOCK, Scope.TABLE)] * 7,
    ]


@pytest.mark.parametrize(
    "team",
    [
        "team: {name: Sales, members: [{username: ann, name: Ann, role: Data owner}, {name: Eve, dateOut: '2026'}]}",
        "team: [{username: ann, name: Ann, role: Data owner}]",
    ],
)
def test_whom_to_tell_is_read_owners_first(write_contract: "Write", team: str) -> None:
    """The team as ODCS 3.0 and 3.1 write it, without those who left; channels; and an owner of the table's own."""
    path = write_contract("- {name: a}")
    text = path.read_text(encoding="utf-8").replace(
        "status: active\n",
        f"status: active\n{team}\nsupport: [{{channel: '#orders', tool: slack, url: 'https://chat.example/o'}}]\n",
    )
    owner = "  - name: orders\n    customProperties: [{property: owner, value: Shop}]\n"
    path.write_text(text.replace("  - name: orders\n", owner), encoding="utf-8")

    contract = load_contract(path)

    team_itself = [Contact("Sales", ContactKind.TEAM)] if "Sales" in team else []
    assert contract.contacts == (
        Contact("Shop", ContactKind.OWNER, "owner"),
        Contact("Ann", ContactKind.PERSON, "Data owner", "ann"),
        *team_itself,
        Contact("#orders", ContactKind.CHANNEL, "slack", "https://chat.example/o"),
    )
    assert contract.fingerprint == load_contract(write_contract("- {name: a}")).fingerprint
