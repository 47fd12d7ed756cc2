"""The violation report as Markdown, for an issue or a pull request."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdc_materializer.report import wording
from cdc_materializer.report.next_steps import NO_FILE, NextSteps
from cdc_materializer.report.violation_models import ContractState, TableViolations, ViolationGroup, ViolationReport

# What means something inside a line of Markdown; with the colon and the dot, addresses would become links.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&$]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def to_markdown(report: ViolationReport, steps: NextSteps = NO_FILE) -> str:
    """Return the report as the text of one Markdown file (GitHub's kind), with its commands as `steps` writes them."""
    return "\n".join(_lines(steps.in_report(report), steps.option)).rstrip() + "\n"


def _lines(report: ViolationReport, option: str) -> Iterator[str]:
    yield from (f"# Contract report: {_name(report.pipeline)}", "")
    yield from (f"As of {wording.utc(report.as_of)}. {wording.headline(report)}", "")
    tables = wording.worst_first(report.tables)
    head = ("table", "state", "held now", "share", "oldest")
    yield from _table(head, [_overview(report, table) for table in tables])
    for table in tables:
        if table.violations:
            yield from _violations(report, table, option)
    yield wording.values_line(report)


def _overview(report: ViolationReport, table: TableViolations) -> tuple[str, ...]:
    oldest = wording.duration((report.as_of - table.oldest_open).total_seconds()) if table.oldest_open else "–"
    share = wording.share(table.held_share)
    return _name(table.table, in_table=True), wording.VERDICTS[table.verdict], f"{table.held_open:,}", share, oldest


def _violations(report: ViolationReport, table: TableViolations, option: str) -> Iterator[str]:
    yield from (f"## {_name(table.table)}", "")
    contract = (*wording.contract_lines(table), wording.contacts_line(table.contract))
    for line in (*contract, wording.masked_line(table), wording.samples_line(table)):
        if line is not None:
            yield from (_plain(line), "")
    if table.contract is not None and table.contract.judged:
        yield from _rules(table.contract)
    for group in table.violations:
        yield from (f"### {_name(group.rule or group.code)}", "")
        shown = f"cdcm quarantine show {table.table} {group.first.partition}/{group.first.offset}{option}"
        facts = [*_facts(report, group), ("look closer", _name(shown, in_table=True))]
        yield from _table(("", ""), [(f"**{name}**", text) for name, text in facts])
        if group.samples and table.sample_columns is not None:
            yield from _samples(group, table.sample_columns.shown)


def _rules(contract: ContractState) -> Iterator[str]:
    """How each rule was kept, those that cannot be judged first, then the broken ones."""
    head = ("rule", "if broken", "broken by", "share", "still open")
    rules = sorted(contract.judged, key=lambda rule: (not rule.unjudged, -rule.open, -rule.count))
    yield from _table(head, [(_name(rule.rule, in_table=True), *wording.rule_words(rule)) for rule in rules])


def _samples(group: ViolationGroup, columns: Sequence[str]) -> Iterator[str]:
    """The public columns of a few rows; a column that a message leaves out is a dash."""
    rows = [
        (f"{row.place.partition}/{row.place.offset}", *[_cell(row.values, name) for name in columns])
        for row in group.samples
    ]
    yield from _table(("message", *[_name(name, in_table=True) for name in columns]), rows)


def _cell(values: Mapping[str, str | None], name: str) -> str:
    value = values.get(name)
    if value is None:
        return "NULL" if name in values else "–"
    return _name(value, in_table=True)


def _facts(report: ViolationReport, group: ViolationGroup) -> Iterator[tuple[str, str]]:
    if group.rule:
        yield "code", _name(group.code, in_table=True)
    if group.states:
        yield "rule", _plain(group.states)
    yield "happened", _sentence(group.explanation)
    if group.column:
        yield "column", _name(group.column, in_table=True)
    yield "found", wording.found_words(group)
    yield "done", _plain(wording.done_words(group))
    yield "started", _place(report, group, "first")
    if group.count > 1:
        yield "last seen", _place(report, group, "last")
    if group.since:
        yield "open since", wording.moment(group.since, report.as_of)
    if group.open or group.action == "reported":
        yield "to do", _sentence(group.remedy)


def _place(report: ViolationReport, group: ViolationGroup, end: wording.End) -> str:
    return f"{wording.at_words(group, end)}, {wording.moment(wording.time_of(group, end), report.as_of)}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    cells = list(head)
    yield f"| {' | '.join(cells)} |"
    yield f"| {' | '.join(['---'] * len(cells))} |"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _name(name: str, *, in_table: bool = False) -> str:
    """Write a name as code: in code nothing is a link, and nobody is called by an @ in it."""
    text = _printable(name)
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text.replace('|', chr(92) + '|') if in_table else text}{blank}{fence}"


def _plain(text: str) -> str:
    """Write somebody's words so that Markdown shows them as they are; a word joiner keeps an @ from calling anybody."""
    return _SPECIAL.sub(r"\\\1", _printable(text)).replace("@", "@\N{WORD JOINER}")


def _sentence(text: str) -> str:
    """Write a sentence of ours into a table: its code stays code, and no file's name in it ends the cell."""
    return _printable(text).replace("|", r"\|")


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)
