"""The report as an HTML page and as Markdown: what is in it, and that nothing in it can do harm."""

import html
import importlib
import io
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cdc_materializer.errors import ContractInvalid
from cdc_materializer.report.groups import StatedRule
from cdc_materializer.report.html import strips, to_html
from cdc_materializer.report.markdown import to_markdown
from cdc_materializer.report.models import Adopted
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.quarantined import quarantine_details
from cdc_materializer.report.terminal import render
from cdc_materializer.report.violation_models import QuarantineDetails, TableVerdict, ViolationReport
from cdc_materializer.report.violations import ContractFile, violation_report
from tests.unit.quarantines import CANARY, NOW, ORDERS, PAYMENTS, Lake, line, row

_VOID = {"meta", "br", "wbr", "hr", "img", "link", "input"}
#: What would load something, run something, or send something.
_ACTIVE = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "audio", "video", "use", "image"}
_EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style><b>",
    "javascript:alert(1)",
    "a\x1b[31m\u202eb",
)


class _Page(HTMLParser):
    """The elements of a page: its texts, its attributes, and whether each element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element is the one that ends."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text, as a reader sees it."""
        self.texts.append(data)

    @property
    def seen(self) -> str:
        """All texts, with single blanks between words."""
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        """The values of an attribute, wherever it stands."""
        return [value for _, attribute, value in self.attributes if attribute == name]


def _report(**names: Any) -> ViolationReport:  # noqa: ANN401 - what a row of quarantine has
    """Return a report of a table that holds and reports, and of a clean one; `names` go into every row."""
    orders = [
        row(1, **names),
        row(2, **names),
        row(3, status="superseded", **names),
        row(4, action="warn", status="released", **{"rule": "email-format", **names}),
        row(5, code="SCHEMA_INCOMPATIBLE", action="hold", **{**names, "rule": None}),
    ]
    lake = Lake(
        {"shop.orders__quarantine": orders, "shop.payments__quarantine": []},
        messages={"shop.orders": 200},
        lines={
            "shop.orders": [
                line(3, 10, "b3", "f1", read=100, quarantined=1),
                line(2, 60, "b1", "f1", read=100, quarantined=2),
            ],
            "shop.orders__quarantine": [line(4, 5, "b4", read=50), line(1, 60, "b1", read=100)],
            "shop.payments": [line(1, 60, "p1", read=3)],
        },
        schemas={(0, 1): (3, 63), (0, 3): (3, 67)},
    )
    rules = [
        StatedRule(names.get("rule", "known-status"), names.get("states", "One of new, paid."), column="status"),
        StatedRule("kept-rule"),
    ]
    contract = ContractFile(names.get("name", "Orders"), "1.0.0", "f1", rules)
    pipeline = names.get("pipeline", "shop")
    return violation_report(pipeline, [ORDERS, PAYMENTS], lake, as_of=NOW, contracts={"shop.orders": contract})


def test_the_page_says_what_a_steward_needs() -> None:
    """Verdict, counts and shares, where it started, what is held and for how long, and what to do."""
    seen = _Page(to_html(_report())).seen

    for words in (
        "3 messages are held back in 1 of 2 tables.",
        "published, some messages held back",
        "One of new, paid.",
        "3 messages (1.50% of all), 2 still open",
        "2026-11-20 12:01:00 UTC , partition 0, offset 1, schema 63",
        "2026-11-20 12:03:00 UTC , partition 0, offset 3, schema 67",
        "2 h, since 2026-11-21 09:01:00 UTC",
        "Mend the row at the source",
        "cdcm quarantine show shop.orders 0/1",
        "Contract Orders 1.0.0: 1 of 2 rules kept.",
        "known-status holds the row 3 messages 1.50% 2",
        "kept-rule holds the row nothing – –",
        "Trend over 3 batches",
        "dashed: stopped, nothing published",
        "shop.payments clean",
    ):
        assert words in seen


def _in_terminal(report: ViolationReport | QuarantineDetails) -> str:
    told = Console(file=io.StringIO(), width=200)
    told.print(render(report, now=NOW))
    assert isinstance(told.file, io.StringIO)
    return told.file.getvalue()


@pytest.mark.parametrize("action", ["quarantine", "block", "warn", "shadow"])
@pytest.mark.parametrize("form", ["terminal", "json", "html", "markdown", "details in the terminal", "details as json"])
def test_every_form_names_rule_column_place_and_schema(form: str, action: str) -> None:
    """Whatever the rule does: which rule it is, of which column, at which offset, and written by which schema."""
    broken = row(73, partition=5, rule="rule-of-it", column="column-of-it", action=action)
    broken["status"] = "open" if action in {"quarantine", "block"} else "released"
    lake = Lake({"shop.orders__quarantine": [broken]}, messages={"shop.orders": 9}, schemas={(5, 73): (3, 614)})
    report = violation_report("shop", [ORDERS], lake, as_of=NOW)
    details = quarantine_details("shop", ORDERS, lake, as_of=NOW, place=(5, 73))
    told = {
        "terminal": lambda: _in_terminal(report),
        "json": report.to_json,
        "html": lambda: _Page(to_html(report)).seen,
        "markdown": lambda: to_markdown(report),
        "details in the terminal": lambda: _in_terminal(details),
        "details as json": details.to_json,
    }[form]()

    place = (r'"partition": ?5\b', r'"offset": ?73\b') if "json" in form else (r"partition 5, offset 73\b",)
    for words in ("rule-of-it", "column-of-it", r"\b614\b", *place):
        assert re.search(words, told), words


def test_the_page_loads_nothing_runs_nothing_and_links_nowhere() -> None:
    """One file: no script, no address of anything outside it, and a policy that would forbid both."""
    text = to_html(_report())
    page = _Page(text)

    assert page.tags.keys() & _ACTIVE == set()
    assert "://" not in text
    assert not re.search(r"url\(|@import|expression\(", text)
    assert all(target.startswith("#") for target in page.values("href"))
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in {"src", "srcset", "action"}]
    assert any("default-src 'none'" in content for content in page.values("content"))


@pytest.mark.parametrize("evil", _EVIL)
def test_hostile_names_are_only_text_in_the_page(evil: str) -> None:
    """Names come from contracts and schemas; whatever they are, the page has the elements that it has without them."""
    names = dict.fromkeys(("rule", "column", "severity", "topic", "states", "name", "pipeline"), evil)
    report = _report(**{**names, "severity": "error"})
    page = _Page(to_html(report.model_copy(update={"tables": [report.tables[0].model_copy(update={"topic": evil})]})))
    harmless = _report()
    other = _Page(to_html(harmless.model_copy(update={"tables": harmless.tables[:1]})))

    assert page.tags.keys() == other.tags.keys()
    assert {name for _, name, _ in page.attributes} == {name for _, name, _ in other.attributes}
    assert "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in evil) in page.seen


def test_the_page_can_be_read_by_everybody() -> None:
    """A language, headings in order, names for what is drawn, header cells, and both colour schemes."""
    text = to_html(_report())
    page = _Page(text)

    assert page.values("lang") == ["en"]
    assert (page.tags["h1"], page.tags["main"], page.tags["title"] > 0) == (1, 1, True)
    assert re.findall(r"<h([1-6])", text)[:2] == ["1", "2"]
    assert page.values("role").count("img") == page.tags["svg"] == 3 + 2
    assert [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label" and not value] == []
    assert page.values("scope").count("row") == 2 + 2
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in "".join(page.values("content"))


def test_every_colour_of_the_page_is_there_in_light_and_dark() -> None:
    """A variable that only one scheme sets would be unreadable in the other."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in to_html(_report()).split("color-scheme: dark)")
    )

    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for name in ("stopped", "held", "reported", "clean", "empty"):
            assert _contrast(scheme[name], scheme[f"{name}-back"]) >= 4.5
        for back in ("page", "card", "code"):
            assert _contrast(scheme["text"], scheme[back]) >= 7
        for name in ("dim", "link", "text"):
            assert min(_contrast(scheme[name], scheme["page"]), _contrast(scheme[name], scheme["card"])) >= 4.5
        for name in ("bar", "held-bar", "reported-bar", "stopped"):
            assert _contrast(scheme[name], scheme["card"]) >= 2.4


def _contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_bars_are_as_high_as_their_numbers() -> None:
    """The highest fills its strip, nothing is no bar, and a stopped batch is drawn as such."""
    messages, held, _ = strips(_report().tables[0])

    assert [(bar.height, bar.stopped) for bar in messages.bars] == [(48, False), (48, False)]
    assert [(bar.height, bar.stopped) for bar in held.bars] == [(48, False), (24, False), (47, True)]
    assert "1 batch stopped" in held.bars[-1].words
    assert (messages.most, held.most) == (100, 2)
    assert all(0 <= bar.x <= bar.x + bar.width <= 600 and bar.y >= 0 for bar in (*messages.bars, *held.bars))


@pytest.mark.parametrize("form", [to_html, to_markdown])
def test_pages_name_the_file_in_their_commands(form: Callable[[ViolationReport, NextSteps], str]) -> None:
    """In what they say to do, and in the command that tells more."""
    text = form(_report(), NextSteps(Path("of us.yaml")))
    seen = html.unescape(text)

    assert "cdcm quarantine release shop.orders -c 'of us.yaml'" in seen
    assert "cdcm replay shop.orders --publish -c 'of us.yaml'" in seen
    assert "cdcm quarantine show shop.orders 0/1 -c 'of us.yaml'" in seen


def test_no_name_of_the_file_ends_the_code_or_the_cell_that_it_stands_in() -> None:
    """A backtick is written as shells take it in quotes, a bar as Markdown takes it in tables; HTML needs neither."""
    steps = NextSteps(Path("a|b`c'd\\e.yaml"))
    option = r"-c $'a|b\140c\'d\\e.yaml'"
    markdown = to_markdown(_report(), steps)

    assert subprocess.run(["bash", "-c", f"echo {option}"], capture_output=True, text=True, check=True).stdout == (
        "-c a|b`c'd\\e.yaml\n"
    )
    assert f"<code>cdcm quarantine release shop.orders {option}</code>" in html.unescape(to_html(_report(), steps))
    assert f"`cdcm quarantine release shop.orders {option.replace('|', chr(92) + '|')}`" in markdown
    rows = [re.findall(r"(?<!\\)\|", row) for row in markdown.splitlines() if row.startswith("| **")]
    assert {len(bars) for bars in rows} == {3}


def test_markdown_says_the_same() -> None:
    """An overview, then each table that has something to say."""
    text = to_markdown(_report())

    for words in (
        "# Contract report: `shop`",
        "| `shop.orders` | published, some messages held back | 3 | 1.50% | 2 h |",
        "| `shop.payments` | clean | 0 | – | – |",
        "### `known-status`",
        "| **started** | partition 0, offset 1, schema 63, 2026-11-20T12:01:00Z (23 h ago) |",
        "| **look closer** | `cdcm quarantine show shop.orders 0/1` |",
    ):
        assert words in text
    assert all(text_line.count("|") >= 3 for text_line in text.splitlines() if text_line.startswith("|"))


@pytest.mark.parametrize(
    ("evil", "shown"),
    [
        ("a|b", "`a\\|b`"),
        ("a`b``c", "``` a`b``c ```"),
        ("x\n# y", "`x # y`"),
        ("@somebody", "`@somebody`"),
        ("![x](https://x.test/y.png)", "`![x](https://x.test/y.png)`"),
    ],
)
def test_hostile_names_are_only_code_in_markdown(evil: str, shown: str) -> None:
    """In code nothing is a link, an image, a heading, a new column, or a call to somebody."""
    assert f"| **column** | {shown} |" in to_markdown(_report(column=evil))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("call @me or see www.x.test", "call @\u2060me or see www\\.x.test"),
        ("https://x.test <b>[a](b)", "https\\://x.test \\<b\\>\\[a\\](b)"),
        ("a | b\nc", "a \\| b c"),
    ],
)
def test_what_a_rule_says_is_only_text_in_markdown(said: str, shown: str) -> None:
    """A rule's description is somebody's prose; it calls nobody and links nowhere."""
    assert f"| **rule** | {shown} |" in to_markdown(_report(states=said))


def test_no_form_of_the_report_has_a_key_or_a_value() -> None:
    """Keys are in quarantine by design, and reports do not ask for them."""
    report = _report()

    assert CANARY not in to_html(report) + to_markdown(report) + report.to_json()


def test_every_form_says_of_a_contract_that_it_cannot_be_followed() -> None:
    """Without that a table would look as if it had none."""
    why = "Contract orders.yaml:14, schema: the contract has no table. Add one."
    wrong = {"shop.orders": ContractInvalid(why.removesuffix(" Add one."), "Add one.")}
    told = violation_report("shop", [ORDERS], Lake(), as_of=NOW, contracts=wrong)
    assert told.tables[0].verdict is TableVerdict.STOPPED, "it looked clean, and waits"
    assert _Page(to_html(told)).seen.count("1 table is stopped") == told.totals.tables_with_open == 1
    error, report = told.tables[0].contract_error, _report()
    table = report.tables[0].model_copy(update={"contract": None, "contract_error": error})
    report = report.model_copy(update={"tables": [table]})

    for text in (
        to_html(report),
        to_markdown(report).replace("\\", "").replace("\u2060", ""),
        " ".join(_in_terminal(report).split()),
    ):
        assert f"Nothing is published until this is mended: {why}" in text


def test_a_contract_that_is_wrong_now_stopped_nothing_in_the_past() -> None:
    """What a past report says of a table, the table's own snapshots say."""
    lake = Lake({"shop.orders__quarantine": []}, lines={"shop.orders": [line(1, 60, "b1", read=3)]})
    wrong = {"shop.orders": ContractInvalid("Contract orders.yaml:14: it is wrong.", "")}

    then = violation_report("shop", [ORDERS], lake, as_of=NOW, when="b1", contracts=wrong)
    now = violation_report("shop", [ORDERS], lake, as_of=NOW, contracts=wrong)

    assert (then.tables[0].verdict, now.tables[0].verdict) == (TableVerdict.CLEAN, TableVerdict.STOPPED)


def test_what_was_found_by_a_clock_that_is_ahead_is_open_since_now() -> None:
    """A negative length of time is no answer."""
    seen = _Page(to_html(_report(detected_at=NOW + timedelta(hours=3)))).seen

    assert "Open for 0 s, since 2026-11-21 15:00:00 UTC" in seen


def test_an_empty_report_is_a_page_too() -> None:
    """Before the first run there is nothing to say, and that is said."""
    report = violation_report("shop", [ORDERS], Lake(), as_of=NOW)

    assert "Nothing is held back." in _Page(to_html(report)).seen
    assert "not run" in to_markdown(report)


def test_a_long_trend_is_told_in_bars_of_several_batches() -> None:
    """The page says how many batches a bar stands for."""
    lines = [line(number, 500 - number, f"b{number}", read=1) for number in range(130, 0, -1)]
    lake = Lake({"shop.orders__quarantine": []}, lines={"shop.orders": lines})
    seen = _Page(to_html(violation_report("shop", [ORDERS], lake, as_of=NOW))).seen

    assert "Trend over 130 batches, 3 in each bar" in seen


def test_a_report_of_the_past_counts_ages_from_then() -> None:
    """The page is of its time: what was open for an hour then is not older because it is read later."""
    report = _report()
    later = report.model_copy(update={"as_of": NOW + timedelta(days=10)})

    assert "10 d, since" in _Page(to_html(later)).seen
    assert "10 d, since" not in _Page(to_html(report)).seen


def test_reports_are_as_their_published_schema_says() -> None:
    """The schema in the reference takes a report, and refuses one with a field more."""
    jsonschema: Any = importlib.import_module("jsonschema")  # it has no types
    from tests.docs.pages import DOCS

    schema = json.loads((DOCS / "reference" / "report.schema.json").read_text(encoding="utf-8"))
    document = json.loads(_report().to_json())
    jsonschema.validate(document, schema)
    document["tables"][0]["violations"][0]["first"]["value"] = CANARY

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_only_sentences_of_ours_name_the_file() -> None:
    """What a user wrote into the record stays as it is, whatever it looks like."""
    given = "as `cdcm doctor` said"
    accepted = Adopted(what="gap", at=NOW, by="ops", reason=given, offsets={}, lost=1)

    assert NextSteps(Path("other.yaml")).in_report(accepted).reason == given
    assert NextSteps(Path("other.yaml")).in_text(given) == "as `cdcm doctor -c other.yaml` said"
