"""Patterns of contracts: what Java's syntax does not have, or reads otherwise than others do."""

import warnings
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract.patterns import broken_pattern
from tests.unit.contracts import of_json_schema, problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write

OTHER = [
    ("^[[:alpha:]]+$", r"\p{Alpha}"),
    ("[[:^digit:]x]", r"\P{Digit}"),
    ("[_[:word:]]", r"\w"),
    ("[[:xdigit:]]{2}", r"\p{XDigit}"),
    ("^[:alpha:]+$", r"\p{Alpha}"),
    ("^a{,3}$", "{0,3}"),
    ("a{,}", "{0,}"),
    ('^{"a"', r"\{"),
    ("{{name}}", r"\{"),
    ("a{ 2}", r"\{"),
    ("a{2147483648}", "too large"),
    ("a{2}{3}", "multiple repeat"),
    ("a**", "multiple repeat"),
    ("(?P<n>a)", "(?<name>…)"),
    ("(?<n>a)(?P=n)", r"\k<name>"),
    ("(?P>n)", "(?P>"),
    ("(?<first_name>a)", "letters and digits"),
    ("(?#note)a", "comment"),
    ("(a)?(?(1)b|c)", "condition"),
    ("(?a)\\w", "ASCII"),
    ("(?La)b", "(?L"),
    ("(?u)\\w+", "(?U)"),
    ("(?u:\\w+)", "(?U)"),
    ("(?|a)", "(?|"),
    ("^a\\Z", "\\z"),
    ("\\N", "\\N{…}"),
    ("\\U0001F600", "\\x{…}"),
    ("\\u{41}", "four"),
    ("\\u00", "four"),
    ("\\x4", "two"),
    ("\\0", "\\x00"),
    ("\\0123", "\\x"),
    ("\\123", "\\x53"),
    ("(a)\\2", "no group 2"),
    ("\\1", "no group 1"),
    ("[\\1]", "within a class"),
    ("[\\b]", "\\x08"),
    ("\\v", "\\x0B"),
    ("[\\Z]", "within a class"),
    ("\\Ka", "\\K"),
    ("\\q", "\\q"),
    ("\\k<n>", "no group n"),
    ("a\\E", "\\E"),
    ("a\\", "backslash"),
    ("[a[b]", "\\["),
    ("[^[]]", "\\["),
    ("[!%^&&*()]", "&&"),
    ("(?x)[a b]", "(?x)"),
    ("(?x)[a#]", "(?x)"),
    ("[a-\\d]", "bad character range"),
    ("(?i)(a", "missing )"),
    ("a(?i)(b", "missing )"),
    ("[a", "unterminated"),
    ("a{3,2}", "min repeat"),
    ("(" * 5_000 + ")" * 5_000, "too large"),
]

SAME = [
    "^[A-Z]{2}[0-9]{3,}$",
    r"^\p{Lu}\pL*\P{Alpha}$",
    "(?<n>a)\\k<n>\\1",
    "(?i)a(?s).b(?-i:c)(?iu)d(?U)e",
    "(?x) a [bc] # one (\n \\ d",
    "(?>a+)b++c*+d?+",
    r"\A\Qa(b[\E\z",
    "\\Q(",
    "[\\Q]\\E]",
    r"[\w-.]+@[\d-z]",
    "[]a]|[^]a]",
    "[a[b]]|[a-z&&[^aeiou]]|[\\w&&\\D]",
    "[a||b~~c]",
    r"[\p{L}\h\x{41}\x41\u0041\cA\e\t\N{LATIN SMALL LETTER A}]",
    r"\N{LATIN SMALL LETTER A}|\07|\012|\0477|\R\X\H\V\G\b{g}",
    r"^\(?P[0-9]+\)?$",
    r"^\{\}}$",
    "(?<=a{1,3})b(?<!c)(?=d)(?!e)",
    r"(a)\10",
    "[{,3}(?P<n>]",
    r"\[[:alpha:x]",
    "é\\é\\-",
]


@pytest.mark.parametrize(("pattern", "told"), OTHER, ids=[pattern[:30] for pattern, _ in OTHER])
def test_what_java_reads_otherwise_is_told(pattern: str, told: str) -> None:
    """What it does not read, or takes for something else than other engines do, with what to write."""
    assert told in (broken_pattern(pattern) or "nothing is told")


@pytest.mark.parametrize("pattern", SAME)
def test_what_java_reads_as_it_is_meant_is_let_pass(pattern: str) -> None:
    """Its own constructs, and those that mean the same everywhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert broken_pattern(pattern) is None


def test_a_pattern_of_another_syntax_is_told_with_its_line(write_contract: "Write") -> None:
    """As an option of the column and as a rule of its own."""
    path = write_contract(
        """
        - name: t
          physicalType: text
          logicalTypeOptions:
            pattern: '^[[:alpha:]]+$'
        - name: s
          physicalType: text
          quality:
            - metric: invalidValues
              mustBe: 0
              arguments: {pattern: 'a{,3}'}
        """
    )

    problems = problems_of(path)

    assert [problem.line for problem in problems] == [13, 17]
    assert "Java spells [:alpha:] \\p{Alpha}" in problems[0].message


def test_a_pattern_of_a_json_schema_warns_of_nothing(write_contract: "Write") -> None:
    """It is Python's, whose warnings are for programs that have it written in them."""
    path = write_contract(of_json_schema("{pattern: '[[a]'}"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert problems_of(path) == []
