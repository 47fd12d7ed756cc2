"""The demo's folder, and its proof where a run has failed; the demo itself is in tests/spark."""

from pathlib import Path

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import load_config
from cdc_materializer.demo import prepare, prove
from cdc_materializer.errors import UsageError


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_gets_all_that_a_pipeline_needs(tmp_path: Path) -> None:
    """Configuration, topics, schemas, contracts; neither the truth nor anything half written."""
    prepare(tmp_path / "demo")
    config = load_config(tmp_path / "demo" / "pipeline.yaml")
    files = _files(tmp_path / "demo")

    assert [str(table.mirror) for table in config.tables] == ["shop.customers", "shop.orders", "shop.payments"]
    assert {f"recorded/{table.topic}.jsonl.gz" for table in config.tables} <= files
    assert "contracts/payments.yaml" in files
    assert "recorded/schemas/ids/4.json" in files
    assert not [name for name in files if name.startswith("truth") or name.endswith((".part", ".md"))]


def test_what_the_user_changed_stays_and_what_is_missing_comes_back(tmp_path: Path) -> None:
    """An earlier demo that was cut short is completed."""
    prepare(tmp_path)
    changed, missing = tmp_path / "contracts" / "payments.yaml", tmp_path / "contracts" / "orders.yaml"
    changed.write_text("changed", encoding="utf-8")
    missing.unlink()
    prepare(tmp_path)

    assert changed.read_text(encoding="utf-8") == "changed"
    assert missing.exists()


@pytest.mark.parametrize("name", ["thesis.txt", "pipeline.yaml"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written among them."""
    (tmp_path / name).write_text("name: mine\n", encoding="utf-8")

    with pytest.raises(UsageError, match="has other files in it"):
        prepare(tmp_path)
    assert _files(tmp_path) == {name}


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    """As one sentence, like any other mistake."""
    (tmp_path / "demo").write_text("", encoding="utf-8")

    with pytest.raises(UsageError, match="cannot be written"):
        prepare(tmp_path / "demo")


def test_a_mirror_that_is_not_there_proves_nothing(tmp_path: Path) -> None:
    """Every row of the truth counts as wrong: a failed run must not look like success."""
    prepare(tmp_path)
    config = load_config(tmp_path / "pipeline.yaml")
    proof = prove(open_tables(config.catalog), config.tables[2])

    assert (proof.rows, proof.equal, proof.held) == (3, 0, [])
    assert proof.wrong == ["1", "50", "77"]
