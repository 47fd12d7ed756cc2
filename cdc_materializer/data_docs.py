"""`cdcm report --data-docs`: Great Expectations' own pages of how the rules were kept, beside our report.

GX gets the numbers of the report back and makes its results and pages of them; no data context is made, and nothing is
sent. Its pages as they come load scripts, styles and pictures from six hosts, and put names from contracts into HTML as
they are. So each page is made with stand-ins for what HTML would take for its own, and written anew: elements and
attributes that show something stay, all others go, and a style sheet of ours takes the place of the remote ones. No
result has a value of a row.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from cdc_materializer.contract import Contract, Rule, Scope
from cdc_materializer.errors import UsageError
from cdc_materializer.report import wording
from cdc_materializer.report.violation_models import RuleState, TableViolations, ViolationReport

_INDEX = "index.html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#: What is left out with all that is in it.
_DROPPED = frozenset(
    {"script", "style", "head", "footer", "iframe", "object", "svg", "form", "button", "label", "template"}
)
_KEPT = frozenset(
    {
        *("h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "div", "nav", "hr", "br", "ol", "ul", "li"),
        *("table", "thead", "tbody", "tr", "th", "td", "a", "b", "i", "em", "code", "span", "small", "strong"),
    }
)
_VOID = frozenset({"br", "hr"})
_ATTRIBUTES = frozenset({"id", "class", "role", "colspan", "rowspan", "scope", "aria-label", "aria-current"})
#: In texts of a contract these stand, until a page is written anew, for what HTML would take for its own: a description
#: with `<script>` in it would take all that follows with it. They are characters that no text has.
_STAND_INS = {ord(sign): chr(0xFDD0 + at) for at, sign in enumerate("<>&\"'")}
_MEANT = {ord(stand_in): html.escape(chr(sign)) for sign, stand_in in _STAND_INS.items()}
#: GX's headings begin with the fourth.
_HEADINGS = {"h4": "h1", "h5": "h2", "h6": "h3"}


def write_data_docs(found: ViolationReport, contracts: Mapping[str, Contract], folder: Path) -> None:
    """Write a page and a JSON document for each table that has a contract, and a page that lists them.

    Args:
        found: the report.
        contracts: by name of the mirror.
        folder: where to; it is made if need be, and files of these names are written anew.

    Raises:
        UsageError: the folder cannot be written.
    """
    from cdc_materializer.contract.judge import preload

    preload()
    results = {
        table.table: _result(found, table, contracts[table.table])
        for table in found.tables
        if table.table in contracts and table.contract is not None
    }
    pages = {f"{name}.html": _page(name, rendered(result)) for name, result in results.items()}
    documents = {f"{name}.json": json.dumps(result.to_json_dict(), indent=2) for name, result in results.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {**pages, **documents, _INDEX: _page("Data Docs", _list(found, results))}.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}.", "Name another --data-docs folder."
        ) from error


def _result(found: ViolationReport, table: TableViolations, contract: Contract) -> Any:  # noqa: ANN401 - a class of GX's
    """GX's result of a table's contract: each rule over all messages that raw has."""
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

    states = {state.rule: state for state in (table.contract.judged if table.contract is not None else ())}
    told = [(rule, states[rule.name]) for rule in contract.rules if rule.name in states]
    results = [result_of_state(rule, state, table.messages or 0) for rule, state in told]
    good = sum(bool(result.success) for result in results)
    return ExpectationSuiteValidationResult(
        success=good == len(results),
        results=results,
        suite_name=f"{contract.name} {contract.version}",
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": good,
            "unsuccessful_expectations": len(results) - good,
            "success_percent": 100 * good / len(results) if results else None,
        },
        meta={
            "great_expectations_version": version("great_expectations"),
            "run_id": {"run_name": found.pipeline, "run_time": found.as_of.isoformat()},
            "batch_spec": {"data_asset_name": table.table},
        },
    )


def result_of_state(rule: Rule, state: RuleState, messages: int) -> Any:  # noqa: ANN401 - a class of GX's
    """GX's result of a rule: a rule that nothing could judge has no counts, and was not kept.

    Args:
        rule: of the contract.
        state: how it was kept.
        messages: how many raw has.
    """
    from cdc_materializer.contract.gx import result_of, result_of_table

    states = state.states or rule.name
    if state.unjudged:
        why = "A batch could not judge it" if rule.shadow else "It cannot be judged, and the table stopped for it"
        return result_of_table(rule, f"{states} {why}.", is_kept=False)
    if rule.scope is Scope.ROW:
        return result_of(rule, max(messages, state.count), state.count)
    return result_of_table(rule, states, is_kept=not state.count)


def rendered(result: Any) -> str:  # noqa: ANN401 - a class of GX's
    """The body of GX's page of a result, written anew."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    found = ValidationResultsPageRenderer().render(_stood_in_for(result))
    return rewritten(DefaultJinjaPageView().render(found)).translate(_MEANT)


def _stood_in_for(result: Any) -> Any:  # noqa: ANN401 - a class of GX's
    """A result whose texts HTML takes for texts."""
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    results = []
    for one in result.results:
        stated = one.expectation_config
        told = {name: _plain(getattr(stated, name)) for name in ("kwargs", "description", "meta")}
        results.append(
            ExpectationValidationResult(
                success=one.success,
                expectation_config=ExpectationConfiguration(type=stated.type, **told),
                result=one.result,
                meta={},
                exception_info={},
            )
        )
    return ExpectationSuiteValidationResult(
        success=result.success,
        results=results,
        suite_name=_plain(result.suite_name),
        statistics=result.statistics,
        meta=_plain(result.meta),
    )


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever GX takes
    """Return a value with the stand-ins in all of its texts."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.translate(_STAND_INS) if isinstance(value, str) else value


def rewritten(page: str) -> str:
    """Return what a page of GX's shows as HTML that loads nothing, runs nothing, and links to its own places alone."""
    rewriter = _Rewriter()
    rewriter.feed(page)
    rewriter.close()
    return "".join(rewriter.parts)


class _Rewriter(HTMLParser):
    """Writes the elements and attributes of a page that show something, and texts as texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._left_out: str | None = None
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an element of a known kind, with known attributes."""
        if self._left_out is not None:
            self._depth += tag == self._left_out
        elif tag in _DROPPED or "collapse" in (dict(attrs).get("data-toggle") or ""):
            self._left_out, self._depth = tag, 1
        elif tag in _KEPT:
            self.parts.append(f"<{_HEADINGS.get(tag, tag)}{''.join(self._attributes(attrs))}>")

    def handle_endtag(self, tag: str) -> None:
        """End an element that was written."""
        if self._left_out is not None:
            self._depth -= tag == self._left_out
            self._left_out = self._left_out if self._depth else None
        elif tag in _KEPT - _VOID:
            self.parts.append(f"</{_HEADINGS.get(tag, tag)}>")

    def handle_data(self, data: str) -> None:
        """Write a text."""
        if self._left_out is None:
            self.parts.append(html.escape(data))

    @staticmethod
    def _attributes(attrs: list[tuple[str, str | None]]) -> Iterator[str]:
        for name, value in attrs:
            target = value or ""
            if name == "hidden":
                yield " hidden"
            elif name in _ATTRIBUTES or (name == "href" and target.startswith("#")):
                yield f' {name}="{html.escape(target)}"'
            elif name == "href" and target.endswith(f"../{_INDEX}"):
                yield f' href="{_INDEX}"'


def _list(found: ViolationReport, results: Mapping[str, Any]) -> str:
    """The body of the page that lists the others."""
    rows = "".join(
        f'<tr><th scope="row"><a href="{html.escape(name, quote=True)}.html">{html.escape(name)}</a></th>'
        f"<td>{'kept' if result.success else 'broken'}</td>"
        f"<td>{result.statistics['successful_expectations']} of {result.statistics['evaluated_expectations']}</td></tr>"
        for name, result in results.items()
    )
    head = '<thead><tr><th scope="col">Table</th><th scope="col">Rules</th><th scope="col">Kept</th></tr></thead>'
    return (
        f"<h1>Data Docs of the pipeline {html.escape(found.pipeline)}</h1>"
        f"<p>As of {wording.utc(found.as_of)}. Counted over all messages that the raw tables have: the element count of"
        " a rule is their number, its unexpected count those that broke it, whatever became of them since. What was"
        " held never reached a reader. No page has a value of a row.</p>"
        f'<table class="table"><caption>Tables with a contract</caption>{head}<tbody>{rows}</tbody></table>'
    )


def _page(title: str, body: str) -> str:
    style = (files(__package__) / "report" / "data_docs.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>\n{style}</style></head>\n'
        f"<body>{body}</body></html>\n"
    )
