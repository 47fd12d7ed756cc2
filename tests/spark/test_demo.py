"""The demo as a newcomer runs it: what it promises, held to what is in its folder afterwards."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import load_config
from cdc_materializer.names import TableName
from tests.demo_run import Ended, cdcm, first_demo
from tests.spark.marks import SEVENTH_TURN

pytestmark = [pytest.mark.spark, SEVENTH_TURN]

_MESSAGES = {"shop.customers": 69, "shop.orders": 78, "shop.payments": 10}
#: Values of rows that are held: those of the recorded truth that no other word contains.
_HELD_VALUES = ("12345678.9", "multi", "before sp", "sp@x", "gold")
_OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")


@pytest.fixture(scope="module")
def place() -> Path:
    """The folder that the demo was started from."""
    return first_demo()[0]


@pytest.fixture(scope="module")
def ended() -> Ended:
    """How the first demo ended."""
    return first_demo()[1]


@pytest.fixture(scope="module")
def found(ended: Ended) -> dict[str, Any]:
    """The first demo's document."""
    return ended.document


def test_the_demo_ends_well_and_prints_one_document(ended: Ended) -> None:
    """Nothing else on standard output, nothing at all on standard error."""
    assert (ended.code, ended.err) == (0, "")
    assert ended.document["folder"] == "demo"


def test_the_mirrors_equal_the_database(found: dict[str, Any]) -> None:
    """Value by value, but for three rows, each of which is held for the reason that is known."""
    assert [proof["wrong"] for proof in found["truth"]] == [[], [], []]
    assert [(proof["rows"], proof["equal"]) for proof in found["truth"]] == [(8, 7), (12, 11), (3, 2)]
    held = [(row["table"], row["key"], row["code"]) for proof in found["truth"] for row in proof["held"]]
    assert held == [
        ("shop.customers", "1", "SCHEMA_INCOMPATIBLE"),
        ("shop.orders", "1", "SCHEMA_INCOMPATIBLE"),
        ("shop.payments", "50", "CONTRACT"),
    ]
    assert all("waits" in row["why"] or "contract" in row["why"] for p in found["truth"] for row in p["held"])


def test_a_held_row_stays_at_its_last_good_version(found: dict[str, Any]) -> None:
    """Only the column that did not fit differs, or what the same change would have set."""
    columns = {row["table"]: row["columns"] for proof in found["truth"] for row in proof["held"]}

    assert columns["shop.orders"] == ["amount"]
    assert columns["shop.customers"] == ["e_mail", "tier"] or "tier" in columns["shop.customers"]
    assert columns["shop.payments"] == []


def test_the_contract_holds_one_payment_back(found: dict[str, Any], place: Path) -> None:
    """One open violation of the contract, in the report and not in the mirror."""
    groups = [group for table in found["violations"]["tables"] for group in table["violations"]]
    broken = [(group["rule"], group["count"], group["open"]) for group in groups if group["code"] == "CONTRACT"]
    assert broken == [("payment-limit", 1, 1)]
    lake = open_tables(load_config(place / "demo" / "pipeline.yaml").catalog)
    assert sorted(row["id"] for row in lake.values_of(TableName.parse("shop.payments"), ["id"]) or ()) == [1, 77]


def test_every_message_is_in_one_place(found: dict[str, Any]) -> None:
    """What became of them adds up to what was read, which is all there is."""
    for run in found["run"]["tables"]:
        assert run["read"] == sum(run[outcome] for outcome in _OUTCOMES) == _MESSAGES[run["table"]]


def test_verify_finds_the_mirrors_equal(found: dict[str, Any]) -> None:
    """A second fold of every message gives the mirrors."""
    assert found["verify"]["equal"] is True
    assert [table["expected"] for table in found["verify"]["tables"]] == [8, 12, 2]


def test_a_second_demo_finds_nothing_new(ended: Ended, place: Path) -> None:
    """Nothing is read, nothing committed, Spark is not started; the mirrors are compared all the same."""
    assert ended.code == 0
    before = sorted((place / "demo" / "lake").rglob("*"))
    again = cdcm("demo", "--json", folder=place)

    assert again.code == 0
    assert [run["read"] for run in again.document["run"]["tables"]] == [0, 0, 0]
    assert again.document["verify"] is None
    assert again.document["truth"] == ended.document["truth"]
    assert sorted((place / "demo" / "lake").rglob("*")) == before


def test_the_demo_tells_its_story_at_80_columns(ended: Ended, place: Path) -> None:
    """In words, with the commands to try next."""
    assert ended.code == 0
    told = cdcm("demo", folder=place)

    assert told.code == 0
    assert "20 of 23 rows equal the database value by value" in told.out
    assert "payment-limit" in told.out
    commands = [step["command"] for step in ended.document["next"]]
    lines = told.out.splitlines()
    assert [line for line in lines if len(line) > 80 and line.strip() not in commands] == []
    assert all(f"  {command}" in lines for command in commands)


def test_the_demo_leaves_a_page_to_send_on(found: dict[str, Any], place: Path) -> None:
    """The report in one HTML file, named among what to look at next."""
    page = (place / found["page"]).read_text(encoding="utf-8")

    assert found["page"] == "demo/report.html"
    assert all(
        words in page for words in ("payment-limit", "shop.payments", "7 messages are held back in 3 of 3 tables")
    )
    broken = page[page.index("payment-limit") :]
    assert all(words in broken for words in ("<code>amount</code>", "partition 0, offset 9, schema 15"))
    assert "  demo/report.html" in cdcm("demo", folder=place).out.splitlines()


@pytest.mark.parametrize(
    "command",
    [
        *(f"report --format {form}" for form in ("terminal", "json", "html", "markdown")),
        "report --as-of 2999-01-01",
        "status",
        "status --json",
        "quarantine list",
        "quarantine show shop.payments 0/9",
        "quarantine show shop.customers --key 1 --json",
        "verify --json",
        "run --debug",
    ],
)
def test_values_of_held_rows_are_in_no_output(place: Path, command: str) -> None:
    """What the recorded history wrote into the rows that are held now: amounts, a memo, a name, an address."""
    ended = cdcm(*command.split(), "-c", "demo/pipeline.yaml", folder=place)

    assert ended.out + ended.err
    assert [value for value in _HELD_VALUES if value in ended.out + ended.err] == []


def test_the_commands_to_try_next_work(ended: Ended, place: Path) -> None:
    """As they are printed, from where the demo was started."""
    commands = [step["command"] for step in ended.document["next"]]

    assert len(commands) == 4
    contract = next(word for word in ended.document["next"][-1]["shows"].split() if ".yaml" in word)
    assert (place / contract.rstrip(":")).is_file()
    for command in commands[:-1]:  # the last one asks for a mended contract first
        words = shlex.split(command)
        tried = cdcm(*words[words.index("cdc_materializer") + 1 :], folder=place)
        assert (tried.code, tried.err) == (0, "")
        assert "shop.payments" in tried.out
