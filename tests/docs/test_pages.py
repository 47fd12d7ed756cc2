"""Links lead somewhere, promises name tests that exist, and snippets that need no Spark are right."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
import typer

from cdc_materializer.cli import app
from cdc_materializer.config import load_config
from cdc_materializer.contract import lint
from cdc_materializer.recognise import recognise
from cdc_materializer.source import MESSAGE_COLUMNS, RecordedSource
from tests.docs.pages import DOCS, PAGES, ROOT, Snippet, prose, snippets

_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
_MAKE_TARGETS = re.compile(r"^([a-z]+):", re.MULTILINE)
_YAML = list(snippets("yaml"))
_SHELL = list(snippets("sh"))


def _links(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in _LINK.finditer(prose(page))]


def test_links_lead_to_files_that_are_there() -> None:
    """Those into the repository; others are not asked."""
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for _, target in _links(page)
        if not target.startswith(("https://", "http://", "#")) and not (page.parent / target.partition("#")[0]).exists()
    ]

    assert not broken


def test_promises_name_tests_that_exist() -> None:
    """A link whose text is a test's name leads to the file that has the test."""
    named = [(page, text, target) for page in PAGES for text, target in _links(page) if text.startswith("test_")]
    missing = [
        f"{page.name}: {text}"
        for page, text, target in named
        if f"def {text}(" not in (page.parent / target).read_text(encoding="utf-8")
    ]

    assert named
    assert not missing


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table of the page of guarantees behind a line, without its head."""
    lines = (DOCS / "guarantees.md").read_text(encoding="utf-8").partition(f"{heading}\n")[2].splitlines()
    table = list(itertools.dropwhile(lambda line: not line.startswith("|"), lines))
    rows = itertools.takewhile(lambda line: line.startswith("|"), table)
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows][2:]


def test_every_guarantee_has_its_test() -> None:
    """No promise without one."""
    rows = _rows("# Guarantees")

    assert len(rows) > 50
    assert [row for row in rows if "](../tests/" not in row[-1]] == []


def test_every_invariant_names_where_it_is_asserted() -> None:
    """Functions that are there, in the run and in the model test; `doctor` has it too, or is said why not."""
    rows = _rows("## What always holds")

    assert [row[0].partition(":")[0] for row in rows] == [f"I{number}" for number in range(1, 11)]
    for invariant, run, doctor, model in rows:
        for cell, folder in ((run, "cdc_materializer"), (doctor, "cdc_materializer"), (model, "tests/model")):
            links = _LINK.findall(cell)
            assert links or (cell is doctor and cell.startswith("no, ")), invariant
            for name, target in links:
                assert target.startswith(f"../{folder}/"), invariant
                assert f"def {name}(" in (DOCS / target).read_text(encoding="utf-8"), f"{invariant} {name}"


def test_the_recorded_topic_in_a_page_is_one(tmp_path: Path) -> None:
    """It is read, with the keys and values that the page says it has, and no field that the page does not tell."""
    page = DOCS / "topics.md"
    (snippet,) = snippets("jsonl")
    (tmp_path / "shop.public.orders.jsonl").write_text(snippet.text, encoding="utf-8")
    source = RecordedSource(tmp_path)

    assert source.topics() == ("shop.public.orders",)
    assert source.state("shop.public.orders").ends.to_json() == '{"0":3}'
    first, second = source.sample("shop.public.orders", 2)
    assert (second.key, second.value) == (first.key, None)
    told = page.read_text(encoding="utf-8")
    assert all(f"`{(octets or b'').decode()}`" in told for octets in (first.key, first.value))
    assert all(f"`{name}`" in told for name in MESSAGE_COLUMNS)
    assert recognise("shop.public.orders", [first], None).format == "debezium"


def test_pages_name_the_jar_of_the_iceberg_that_is_there() -> None:
    """Iceberg's jar for an object store has to be of the version of the one that the product brings."""
    pinned = re.search(r'iceberg-spark-runtime[\w.-]*" rev="([\d.]+)"', (ROOT / "cdc_materializer/ivy.xml").read_text())
    assert pinned is not None
    pages = [*DOCS.glob("*.md"), ROOT / "docker" / "README.md", ROOT / "docker" / "pipeline.yaml"]
    named = re.findall(r"iceberg-aws-bundle[:/-](\d[\d.]*\d)", "".join(page.read_text() for page in pages))

    assert len(named) > 3
    assert set(named) == {pinned[1]}


@pytest.mark.parametrize("snippet", _YAML, ids=[f"{s.page.stem}-{at}" for at, s in enumerate(_YAML)])
def test_a_pipeline_in_a_page_is_one(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every YAML block is a whole pipeline.yaml, or a whole contract."""
    for name in re.findall(r"\$\{(\w+)\}", snippet.text):
        monkeypatch.setenv(name, "x" * 16)
    if "apiVersion:" in snippet.text:
        contract = tmp_path / "contract.yaml"
        contract.write_text(snippet.text, encoding="utf-8")
        assert lint(contract).files[0].problems == []
        return
    path = tmp_path / "pipeline.yaml"
    path.write_text(snippet.text, encoding="utf-8")

    assert load_config(path).tables


@pytest.mark.parametrize("snippet", _SHELL, ids=[f"{s.page.stem}-{at}" for at, s in enumerate(_SHELL)])
def test_a_command_in_a_page_exists(snippet: Snippet) -> None:
    """Commands that no test can run (they need a Kafka, or set everything up) have names and options that exist."""
    targets = _MAKE_TARGETS.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    root = typer.main.get_command(app)
    for command in snippet.commands:
        words = shlex.split(command)
        if words[0] == "make":
            assert words[1] in targets
        else:
            assert words[0] == "cdcm"
            named = getattr(root, "commands", {})[words[1]]
            named = getattr(named, "commands", {}).get(words[2], named) if len(words) > 2 else named
            options = {opt for param in named.params for opt in param.opts}
            assert {word for word in words[2:] if word.startswith("-")} <= options


def test_decisions_are_numbered_without_a_hole() -> None:
    """So that one can be named by its number."""
    numbers = [int(path.name[:4]) for path in sorted((DOCS / "adr").glob("*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))
