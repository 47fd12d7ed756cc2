"""What a report asks of the lake, and how often."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from cdc_materializer import review
from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.config import CatalogConfig
from tests.unit.contracts import HEAD
from tests.unit.pipelines import load


def test_the_catalog_is_opened_once_however_many_tables_have_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open one of REST is a request, or two with a token; contracts ask for the keys of their tables."""
    (tmp_path / "recorded").mkdir()
    (tmp_path / "contract.yaml").write_text(HEAD, encoding="utf-8")
    tables = [{"topic": f"p.{name}", "mirror": name, "contract": "contract.yaml"} for name in ("shop.a", "shop.b")]
    config = load(tmp_path, yaml.safe_dump({"name": "p", "source": {"files": "recorded"}, "tables": tables}))
    opened = []

    def opening(catalog: CatalogConfig) -> Tables:
        opened.append(catalog)
        return open_tables(catalog)

    monkeypatch.setattr(review, "open_tables", opening)

    found = review.review(config, datetime.now(UTC))
    assert [table.contract is not None for table in found.tables] == [True, True]
    assert len(opened) == 1
    assert len(review.reviewed_contracts(config)) == 2
    assert len(opened) == 2
