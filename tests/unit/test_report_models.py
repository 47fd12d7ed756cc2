"""The documents that `--json` prints."""

import json
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from cdc_materializer.report import models, trend, violation_models

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh

ALL = [
    model
    for module in (models, trend, violation_models)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, models.Report) and model.__module__ == module.__name__
]


def test_the_run_report_is_the_fixed_document() -> None:
    """`run --json` has exactly the keys of the design, section 4.6."""
    run = models.RunReport(pipeline="shop", tables=[models.TableRun(table="shop.orders", topic="t")])

    document = json.loads(run.to_json())

    assert list(document) == ["pipeline", "tables"]
    assert list(document["tables"][0]) == [
        "table", "topic", "batches", "read", "upserted", "deleted", "unchanged", "superseded", "replayed", "ignored",
        "quarantined", "violations", "offsets", "raw_snapshot", "mirror_snapshot", "seconds", "error",
    ]  # fmt: skip
    assert document["tables"][0]["error"] is None


def test_swept_rows_are_told_where_there_are_some() -> None:
    """They belong to no message, and most tables never have any."""
    run = models.TableRun(table="shop.orders", topic="t", swept=3)

    assert json.loads(run.to_json())["swept"] == 3


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_every_field_says_what_it_means(model: type[models.Report]) -> None:
    """The reference pages are made of these descriptions."""
    said = {name: info.description for name, info in model.model_fields.items()}
    said |= {name: info.description for name, info in model.model_computed_fields.items()}

    assert [name for name, description in said.items() if not description] == []


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_reports_are_frozen_and_closed(model: type[models.Report]) -> None:
    """A report is not edited after it was made, and has no undeclared field."""
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"
    with pytest.raises(ValidationError):
        model.model_validate({"surprise": 1})


def test_verify_is_equal_only_when_every_table_is() -> None:
    """A difference or an error in one table is one of the whole, and the document says so."""
    good = models.TableVerify(table="a.b", topic="t", equal=True)
    bad = good.model_copy(update={"equal": False})
    failed = good.model_copy(update={"error": models.ErrorInfo(code="X", message="m")})

    assert json.loads(models.VerifyReport(pipeline="p", tables=[good]).to_json())["equal"] is True
    assert models.VerifyReport(pipeline="p", tables=[good, bad]).equal is False
    assert models.VerifyReport(pipeline="p", tables=[good, failed]).equal is False


def test_reports_are_shown_without_spark_arrow_or_great_expectations(fresh: "Fresh") -> None:
    """Showing a report imports none of the slow libraries."""
    code = (
        "import sys; from cdc_materializer.report import html, markdown, quarantined, terminal, violations; "
        "assert not {'pyspark', 'great_expectations', 'pandas', 'pyarrow', 'pyiceberg'} & set(sys.modules)"
    )

    ended = fresh.run(code)

    assert (ended.code, ended.err) == (0, "")
