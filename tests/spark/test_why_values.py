"""What `cdcm why --values` shows of a row, and what it never does."""

import hashlib
import hmac
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from rich.console import Console

from cdc_materializer.config import Config, load_config
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.report.row_models import RowMessage
from cdc_materializer.report.terminal import render
from cdc_materializer.run.run import run_once
from tests.cases.case import Case
from tests.cases.recording import Recorder
from tests.spark.canaries import CARD, MAIL, found_in, listening, logged
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_SPACE, _KEY = "why_values", "the key of canaries, long enough"
_MASKS: dict[str, dict[str, Any]] = {
    "mail": {"mask": "hash"},
    "card": {"mask": "last4"},
    "secret": {"mask": "redact"},
    "hidden": {"mask": "null"},
    "gone": {"drop": True},
    "note": {},
}
_CASE: dict[str, Any] = {
    "key": {"id": "int64"},
    "columns": {"id": "int64", "amount": "optional decimal(12,2)", **dict.fromkeys(_MASKS, "optional string")},
    "messages": [],
}
#: A masked column whose rule sees it unmasked, and one that anybody may see.
_LONGEST = {"mail": 30, "note": 9}


def _config(root: Path) -> Config:
    texts = [
        {
            "name": name,
            "physicalType": "text",
            "customProperties": [{"property": how, "value": value} for how, value in masks.items()],
            **({"logicalTypeOptions": {"maxLength": _LONGEST[name]}} if name in _LONGEST else {}),
        }
        for name, masks in _MASKS.items()
    ]
    key = {"name": "id", "physicalType": "bigint", "primaryKey": True}
    schema = [{"name": "canaries", "properties": [key, *texts]}]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "canaries", "version": "1.0.0", "status": "active"}
    (root / f"{_SPACE}.contract.yaml").write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")
    (root / f"{_SPACE}.key").write_text(_KEY, encoding="utf-8")
    entry = {"topic": f"{_SPACE}.t.canaries", "mirror": f"{_SPACE}.canaries", "contract": f"{_SPACE}.contract.yaml"}
    file = {"name": "c", "source": {"files": _SPACE}, "masks": {"key_file": f"{_SPACE}.key"}, "tables": [entry]}
    path = root / f"{_SPACE}.yaml"
    path.write_text(yaml.safe_dump(file), encoding="utf-8")
    return load_config(path)


def _record(root: Path) -> None:
    """A row that is made, changed in every column, given a note that breaks a rule, and deleted."""
    recorder = Recorder(Case("canaries", 993, _CASE, (), None), f"{_SPACE}.t.canaries")
    first = {"id": 1, "amount": "1.10", "mail": MAIL, "card": CARD, "secret": MAIL, "hidden": MAIL, "gone": CARD}
    second = {"id": 1, "amount": "2.00", "mail": f"1{MAIL}", "card": f"{CARD}-2222", "secret": f"2{MAIL}",
              "hidden": f"3{MAIL}", "gone": f"4{CARD}"}  # fmt: skip
    recorder.add({"op": "c", "after": {**first, "note": "first-one"}})
    recorder.add({"op": "u", "after": {**second, "note": None}})
    recorder.add({"op": "u", "after": {**second, "note": "far too long"}})
    recorder.add({"op": "d", "before": {**second, "note": None}})
    recorder.write(root / _SPACE)


def _hash(text: str) -> str:
    return hmac.new(_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def _values(found: RowMessage) -> dict[str, tuple[Any, Any]]:
    assert found.values is not None
    return {one.column: (one.before, one.after) for one in found.values}


def test_values_are_shown_where_they_are_asked_for_and_none_that_a_mask_hides(
    spark: "SparkSession", lake_config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    """Before and after, as the mirror has them: neither the document, the terminal nor --debug tells what is behind."""
    config = _config(lake_config.root)
    _record(lake_config.root)
    assert run_once(config, spark).exit_code == 0

    with listening(caplog):
        bare = why(config, f"{_SPACE}.canaries", Asked(key="1"), spark)
        found = why(config, f"{_SPACE}.canaries", Asked(key="1", values=True), spark)

    made, changed, held, ended = found.messages
    assert _values(made) == {
        "id": (None, 1),
        "amount": (None, "1.10"),
        "mail": (None, _hash(MAIL)),
        "card": (None, "****1111"),
        "secret": (None, "***"),
        "note": (None, "first-one"),
    }
    assert _values(changed) == {
        "amount": ("1.10", "2.00"),
        "mail": (_hash(MAIL), _hash(f"1{MAIL}")),
        "card": ("****1111", "****2222"),
        "note": ("first-one", None),
    }
    assert (held.broke, _values(held)) == (["CONTRACT note.length"], {"note": (None, "far too long")})
    assert (ended.outcome, _values(ended)) == ("deleted", {})
    assert made.masked == {"mail": "hash", "card": "last4", "secret": "redact"}
    assert [one.values for one in bare.messages] == [None] * 4
    assert "first-one" not in bare.to_json()
    terminal = Console(file=io.StringIO(), width=200)
    terminal.print(render(found, now=datetime.now(UTC)))
    assert isinstance(terminal.file, io.StringIO)
    assert 'note: "first-one" → null' in terminal.file.getvalue()
    assert found_in([found.to_json(), bare.to_json(), terminal.file.getvalue(), *logged(caplog)]) == []
