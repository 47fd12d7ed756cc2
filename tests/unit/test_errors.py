"""The error tree: exit codes, violation codes, messages."""

import inspect
import re

import pytest

from cdc_materializer import errors
from cdc_materializer.errors import CdcError, Code, DuplicateColumn, Handling, OffsetGap, worst_exit_code

CLASSES = [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, CdcError)]
EXIT_CODES = {
    "CdcError": 70,
    "UsageError": 2,
    "SourceUnavailable": 3,
    "LakeUnavailable": 4,
    "BatchBlocked": 5,
    "SourceRewound": 6,
    "CommitUnknown": 7,
    "DifferenceFound": 8,
}


def test_message_says_what_happened_then_what_to_do() -> None:
    """The text of an error is both halves of its message, and each half can be had alone."""
    error = OffsetGap("The topic a.b.c lost messages.", "Take a new snapshot.")

    assert str(error) == "The topic a.b.c lost messages. Take a new snapshot."
    assert error.what == "The topic a.b.c lost messages."
    assert error.do == "Take a new snapshot."


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_ends_with_the_exit_code_of_its_branch(error: type[CdcError]) -> None:
    """An error's exit code is that of the nearest ancestor that the table of exit codes names."""
    named = next(ancestor.__name__ for ancestor in error.__mro__ if ancestor.__name__ in EXIT_CODES)

    assert error.exit_code == EXIT_CODES[named]


def test_stops_of_the_design_carry_their_code() -> None:
    """Exactly the errors that stop a table for a violation name its code."""
    codes = {error.__name__: error.code for error in CLASSES if error.code}

    assert codes == {
        "ContractBlocked": "CONTRACT",
        "DuplicateColumn": "DUPLICATE_COLUMN",
        "OffsetGap": "OFFSET_GAP",
        "OffsetRegression": "OFFSET_REGRESSION",
        "OutOfRange": "OUT_OF_RANGE",
        "PositionRegression": "POSITION_REGRESSION",
        "SchemaIncompatible": "SCHEMA_INCOMPATIBLE",
        "RuleNotJudged": "CONTRACT",
        "TableRuleBroken": "CONTRACT",
    }


def test_the_drawing_shows_every_error_below_its_parent() -> None:
    """The tree in the module's docstring has every class, in the place and with the exit code that it has."""
    path: list[str] = []
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"(CdcError|(?P<indent> +)[x+-] (?P<name>\w+)) +(?P<exit>\d+)?", line):
            depth = len(match["indent"] or "") // 2
            name = match["name"] or "CdcError"
            path[depth:] = [name]
            drawn[name] = (path[depth - 1] if depth else None, match["exit"])

    assert {name: parent for name, (parent, _) in drawn.items()} == {
        error.__name__: None if error is CdcError else error.__base__.__name__  # type: ignore[union-attr]
        for error in CLASSES
    }
    assert all(int(shown) == getattr(errors, name).exit_code for name, (_, shown) in drawn.items() if shown)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], 0),
        ([0, 0], 0),
        ([8, 2, 0], 2),
        ([3, 4, 5], 5),
        ([2, 3], 3),
        ([5, 6, 7], 7),
        ([7, 70], 70),
        ([0, 8], 8),
        ([1], 70),
    ],
)
def test_worst_exit_code_is_the_first_of_the_designs_order(codes: list[int], worst: int) -> None:
    """Of several exit codes the first of 70, 7, 6, 5, 4, 3, 2, 8 is the run's; an unknown one is a bug."""
    assert worst_exit_code(codes) == worst


def test_every_code_is_explained_in_one_sentence() -> None:
    """Each violation code has an explanation that begins with a capital, ends with a stop, and is used once."""
    explanations = [code.explanation for code in Code]

    assert all(re.fullmatch(r"[A-Z][^\n]+\.", explanation) for explanation in explanations)
    assert len(set(explanations)) == len(Code)


def test_codes_are_handled_as_the_design_says() -> None:
    """Nine codes hold the message, four are published and reported, four stop the table."""
    handled = {handling: {code.name for code in Code if code.handling is handling} for handling in Handling}

    assert handled[Handling.PUBLISHED] == {
        "UNAVAILABLE_NO_BASE",
        "ORDER_AMBIGUOUS",
        "TRUNCATE_UNORDERED",
        "SNAPSHOT_UNRECONCILED",
    }
    assert handled[Handling.STOP] == {"OFFSET_GAP", "OFFSET_REGRESSION", "POSITION_REGRESSION", "DUPLICATE_COLUMN"}
    assert len(handled[Handling.HELD]) == 9


def test_a_code_of_an_error_compares_as_text() -> None:
    """An error's code is the text that quarantine and reports show."""
    assert DuplicateColumn.code == "DUPLICATE_COLUMN"
    assert f"{DuplicateColumn.code}" == "DUPLICATE_COLUMN"
