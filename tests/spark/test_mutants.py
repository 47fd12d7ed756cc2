"""The product with one mistake in it, put in by replacing one function: each is caught by a golden case.

The list is the test: a mistake that no case catches fails it, and so does one whose function is gone. Each costs a run
of its case, so that a run takes few of them, by its seed; all with CDCM_TESTS=all. The same mistakes in the reference
fold, and more of them, always go (`tests/unit/test_mutants.py`).
"""

from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import Config
from cdc_materializer.errors import Code
from tests.cases.case import cases
from tests.spark.checks import check
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.mutants import MUTANTS, apply
from tests.spark.passages import WHOLE, passages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By its golden case, which ends otherwise than it says, and not because the run stopped."""
    mutant = MUTANTS[name]
    apply(mutant, monkeypatch)
    case = next(case for case in cases() if case.number == mutant.caught_by)
    (passage,) = passages([(case, WHOLE)], spark, lake_config)

    # What only breaks a plan ends as a lake that cannot be used; a stop that is meant has a code of its own.
    assert all(state.run.error is None or state.run.error.code in set(Code) for state in passage.states)
    with pytest.raises(AssertionError):
        check(passage)
