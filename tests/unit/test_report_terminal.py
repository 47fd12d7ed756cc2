"""Reports on a terminal."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from cdc_materializer.errors import Code
from cdc_materializer.report import (
    maintain_models,
    models,
    query_models,
    replay_models,
    row_models,
    setup_models,
    trial_models,
    violation_models,
)
from cdc_materializer.report.maintain_models import MaintainedTable, MaintainReport, RewriteStep
from cdc_materializer.report.next_steps import NO_FILE, NextSteps
from cdc_materializer.report.query_models import AsOfReport, Freshness, QueryColumn, QueryReport
from cdc_materializer.report.terminal import render
from cdc_materializer.report.violation_models import (
    QuarantineDetails,
    QuarantineList,
    QuarantineRow,
    TableVerdict,
    TableViolations,
    ViolationDetail,
    ViolationGroup,
    ViolationReport,
    ViolationTotals,
)
from cdc_materializer.report.wording import age, moment

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ERROR = models.ErrorInfo(code="OFFSET_GAP", message="Offsets 5 to 9 are gone. Take a snapshot, then: cdcm adopt T.")
PLACE = models.MessagePlace(
    topic="shop.public.orders", partition=0, offset=17, timestamp=NOW - timedelta(hours=3), schema_id=63
)
ROW = QuarantineRow(
    table="shop.orders", topic="t", partition=0, offset=17, key='{"id":"[red]7"}', code="CONTRACT",
    rule="known-status", status="open", column="status", detected_at=NOW - timedelta(hours=3),
)  # fmt: skip
GROUP = ViolationGroup(
    code="CONTRACT",
    rule="known-status",
    column="status",
    action="held",
    severity="error",
    count=3,
    open=2,
    share=0.015,
    first=PLACE,
    last=PLACE,
    since=NOW - timedelta(days=3),
    explanation="The row breaks a rule of the table's contract.",
    remedy="Mend the row at the source.",
)

REPORTS: list[models.Report] = [
    models.RunReport(
        pipeline="shop",
        tables=[
            models.TableRun(
                table="shop.orders", topic="t", batches=2, read=1_234_567, upserted=1_234_000, deleted=500, ignored=60,
                quarantined=7, violations={"CONTRACT": 7}, seconds=12.34,
            ),
            models.TableRun(table="a_rather_long_namespace.a_rather_long_table", topic="t", error=ERROR),
        ],
    ),
    models.StatusReport(
        pipeline="shop",
        as_of=NOW,
        tables=[
            models.TableStatus(
                table="shop.orders", topic="t", rows=4_000_000, lag_messages=50_000, lag_seconds=7_500.0,
                messages=200, last_publish=NOW - timedelta(minutes=5), quarantine_open=3, held=2, held_share=0.01,
                held_since=NOW - timedelta(hours=3),
                files=models.FileHealth(
                    data_files=120, delete_files=14, bytes=987_654_321, snapshots=12, hint="120 data files"
                ),
            ),
            models.TableStatus(table="shop.payments", topic="t", error=ERROR),
        ],
    ),
    ViolationReport(
        pipeline="shop",
        as_of=NOW,
        totals=ViolationTotals(tables=3, tables_with_open=1, held_open=2, by_code={"CONTRACT": 2}),
        tables=[
            TableViolations(table="shop.payments", topic="t", verdict=TableVerdict.CLEAN),
            TableViolations(
                table="shop.orders", topic="t", verdict=TableVerdict.HELD, messages=200, held_open=2,
                superseded=1, violations=[GROUP],
            ),
            TableViolations(table="shop.lines", topic="t", verdict=TableVerdict.EMPTY),
        ],
    ),
    QuarantineList(
        pipeline="shop",
        as_of=NOW,
        total=12,
        rows=[
            ROW,
        ],
    ),
    QuarantineDetails(
        pipeline="shop",
        as_of=NOW,
        table="shop.orders",
        violations=[
            ViolationDetail(
                **ROW.model_dump(), done="held", schema_id=63, explanation="It breaks a rule.", remedy="Mend the row."
            )
        ],
    ),
    models.VerifyReport(
        pipeline="shop",
        tables=[
            models.TableVerify(table="shop.payments", topic="t", equal=True, expected=3, found=3, mirror_snapshot=7),
            models.TableVerify(
                table="shop.orders", topic="t", equal=False, expected=4, found=3, missing=1, different=1,
                columns={"amount": 1}, places=[PLACE], keys=["0123456789abcdef"] * 10, buckets=2, repaired_snapshot=7,
            ),
            models.TableVerify(
                table="shop.stock", topic="t", method="ledger", equal=False, expected=4, found=3, buckets=1
            ),
            models.TableVerify(
                table="shop.shelves", topic="t", equal=False, found=1, unexpected=1, judged_otherwise=True
            ),
            models.TableVerify(table="shop.lines", topic="t", equal=False, error=ERROR),
        ],
    ),
    replay_models.ReplayReport(
        pipeline="p",
        tables=[
            replay_models.TableReplay(
                table="shop.orders", topic="t", batches=3, rebuilt=4, live=5, only_live=1, different=2,
                columns={"price": 2}, places=[PLACE], held_live={"CONTRACT price": 1}, published=True,
                keys=["0123456789abcdef"], added=["note"], base_snapshot=7, base_offsets={"0": 1_200, "1": 900},
            ),
            replay_models.TableReplay(table="shop.lines", topic="t", error=ERROR),
        ],
    ),
    QueryReport(
        pipeline="p", columns=[QueryColumn(name="id", type="bigint")], rows=[[1], [2]], more=True,
        fresh=[Freshness(table="shop.orders", messages=12, held=1, newest=NOW)],
    ),
    AsOfReport(
        pipeline="p", table="shop.orders", topic="t", position="0000000000026743296", exact=False, count=200,
        notes=["Partition 3 has shown nothing from after it yet: more from before it may come."],
        columns=[QueryColumn(name="id", type="bigint"), QueryColumn(name="note", type="string")],
        rows=[[1, "a note"], [2, None]], more=True,
    ),
    setup_models.DoctorReport(
        pipeline="p",
        checks=[
            setup_models.DoctorCheck(name="Java", outcome="ok", message="17."),
            setup_models.DoctorCheck(
                name="topic", outcome="problem", message="[gone]", do="Adopt it.", table="shop.orders", exit_code=6
            ),
            setup_models.DoctorCheck(name="x", outcome="warning", message="NULL", do="Set it.", table="shop.orders"),
        ],
    ),
    setup_models.InitReport(
        pipeline="p",
        config="pipeline.yaml",
        written=["pipeline.yaml", "contracts/orders.yaml"],
        topics=[
            setup_models.InitTopic(
                topic="t", mirror="shop.orders", contract="contracts/orders.yaml", why="[Avro]", key=["id"],
                columns={"id": "bigint"}, remarks=["1 of 9 messages will be held: garbage"],
            ),
            setup_models.InitTopic(topic="u", reason="it has no messages yet"),
        ],
    ),
    models.AdoptReport(
        pipeline="p",
        table="shop.orders",
        topic="t",
        adopted=[models.Adopted(what="gap", offsets={"0": 9}, lost=4, at=NOW, by="ada", reason="restored")],
    ),
    models.LintReport(
        files=[
            models.LintFile(path="contracts/a.yaml", name="a", version="1", fingerprint="0" * 16, columns=3, rules=2),
            models.LintFile(
                path="contracts/b.yaml",
                problems=[
                    models.LintProblem(line=7, where="schema[0].properties[1]", message="No [type].", do="Add one."),
                    models.LintProblem(where="file", message="No file.", do="Write it."),
                ],
            ),
        ]
    ),
    models.ReleaseReport(
        pipeline="shop", table="shop.orders", topic="t", tried=4, released=2, superseded=1, held=1,
        codes={"CONTRACT known-status": 1}, counts={"upserted": 2, "superseded": 1, "quarantined": 1},
    ),
    row_models.WhyReport(
        pipeline="shop", table="a_rather_long_namespace.a_rather_long_table", topic="t", key='{"id":"[red]7"}',
        summary=["The mirror has the row, as it was left by message 0/17."], total=9, limit=1,
        messages=[
            row_models.RowMessage(
                **PLACE.model_dump() | {"schema_name": "id:63"}, op="u", source_ts=NOW, position="0" * 70,
                outcome="quarantined", batch="b", snapshot=7, published_at=NOW, columns=["status", "[price]"],
                kept=["memo"], broke=["CONTRACT known-status"],
                violations=[
                    row_models.RowViolation(code="CONTRACT", rule="known-status", action="quarantine", status="open")
                ],
                by=PLACE, reason="Held (CONTRACT known-status): the row keeps its last good version.",
            ),
        ],
    ),
    trial_models.TrialReport(
        pipeline="shop", table="shop.orders", topic="t", path="c.yaml", name="Orders", version="2", fingerprint="f",
        in_force=False, read_from="raw", since=NOW, messages=1_234_567, judged=1_200_000, broken=200,
        rules=[
            trial_models.RuleTrial(
                rule="a-rule-with-a-rather-long-name-that-folds", column="status", action="block", severity="error",
                expectation="expect_column_values_to_be_in_set", states="A known status.", messages=200, share=0.0001,
                keys=3, held=1, first=PLACE, last=PLACE, schemas={"63": 150, "none": 50},
            ),
        ],
        codes=[trial_models.CodeTrial(code="UNDECODABLE", messages=1, first=PLACE)],
    ),
    MaintainReport(
        pipeline="shop",
        planned=True,
        tables=[
            MaintainedTable(
                table="shop.orders", snapshots=120, snapshots_kept=44, orphans_due=True, marked=True, manifests=30,
                foreign_commits=2,
                rewrite=RewriteStep(
                    reason="overlapping ranges", files=120, files_after=9, delete_files=14, bytes=987_654_321,
                    saved=487_654_321, ratio=2.03,
                ),
            ),
            MaintainedTable(table="shop.orders__raw", snapshots_kept=44, orphans_left="a batch is being staged"),
            MaintainedTable(table="shop.lines", error=ERROR),
        ],
    ),
]  # fmt: skip


def _shown(report: models.Report, width: int = 80, *, colour: bool = False, steps: NextSteps = NO_FILE) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colour, no_color=not colour, legacy_windows=False).print(
        render(report, now=NOW, steps=steps)
    )
    return out.getvalue()


def _texts(value: object) -> Iterator[str]:
    """Yield every word of a report that people must be able to read."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in {"table", "code", "rule", "message", "remedy", "explanation", "do", "path"}:
                yield from [str(item)] if item is not None else []
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_report_fits_the_terminal(report: models.Report, width: int) -> None:
    """No line is wider than the terminal, and what is too long is wrapped, never cut."""
    shown = _shown(report, width)

    assert max(cell_len(line) for line in shown.splitlines()) <= width
    assert "…" not in shown


@pytest.mark.parametrize("table", ["shop.orders", "shop.customer_orders__quarantine"])
def test_headings_of_maintenance_stay_whole(table: str) -> None:
    """At 80 columns and at 60: a long name is broken in their place."""
    (report,) = (report for report in REPORTS if isinstance(report, MaintainReport))
    tables = [report.tables[0].model_copy(update={"table": table})]

    for width in (60, 80):
        shown = _shown(report.model_copy(update={"tables": tables}), width).splitlines()
        assert shown[1].split() == ["table", "files", "rewritten", "saved", "snapshots", "orphans"]
        told = f"{table}: rewritten for overlapping ranges, 2.0 bytes for each that is saved"
        assert told in " ".join(" ".join(shown).split())


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_a_report_loses_nothing_without_colour(report: models.Report) -> None:
    """Names, codes, messages and remedies are all there as words, in full, and markup in data is only text."""
    shown = "".join(_shown(report, 300).split())

    assert [text for text in _texts(report.model_dump(mode="json")) if "".join(text.split()) not in shown] == []
    assert "\x1b" not in _shown(report)
    assert "\x1b[" in _shown(report, colour=True)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_a_report_names_the_file_in_its_commands(report: models.Report) -> None:
    """In what the views say as in what the report does: as many commands, each with the file."""
    plain = re.findall("`(cdcm [^`]*)`", _shown(report, 300))
    named = re.findall("`(cdcm [^`]*)`", _shown(report, 300, steps=NextSteps(Path("of us.yaml"))))

    assert named == [f"{command} -c 'of us.yaml'" for command in plain]


def _spiked(value: Any) -> Any:  # noqa: ANN401 - a report, or what is in one
    """A report with characters that a terminal follows in each text that is not one of a few words."""
    if isinstance(value, list):
        return [_spiked(item) for item in value]
    if not isinstance(value, models.Report):
        return value
    texts = {name for name, field in type(value).model_fields.items() if field.annotation in {str, str | None}}
    update = {
        name: f"{item}\x1b]0;pwn\x07\x9b2J\u202e" if name in texts and item is not None else _spiked(item)
        for name, item in ((name, getattr(value, name)) for name in type(value).model_fields)
    }
    return value.model_copy(update=update)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_a_terminal_follows_nothing_in_a_report(report: models.Report) -> None:
    """Names, descriptions and errors come from contracts, topics and other programs; lines stay lines."""
    shown = _shown(_spiked(report))

    assert "pwn" in shown
    assert "".join(shown.splitlines()).isprintable()


def test_a_key_is_shown_as_it_is() -> None:
    """Square brackets in a key are no markup."""
    assert '{"id":"[red]7"}' in _shown(REPORTS[3], 200)


def test_what_a_table_holds_is_counted_in_messages() -> None:
    """As the legend says, and the line below: a message that breaks two rules has two open rows."""
    row = next(line for line in _shown(REPORTS[1], 120).splitlines() if "4,000,000" in line)

    assert row.split()[:6] == ["shop.orders", "4,000,000", "50,000", "2", "h", "2"]


def test_the_violation_report_says_what_a_person_needs_first() -> None:
    """Tables in trouble come first, with counts, place, age and remedy."""
    shown = _shown(REPORTS[2])

    assert shown.index("shop.orders") < shown.index("shop.payments") < shown.index("shop.lines")
    for words in (
        "2 messages are held back in 1 of 3 tables.",
        "3 messages (1.50% of all), 2 still open",
        "63",
        "partition 0, offset 17, 2026-11-21T09:00:00Z (3 h ago)",
        "2026-11-18T12:00:00Z (3 d ago)",
        "Mend the row at the source.",
        "not run yet",
    ):
        assert words in shown


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("code", Code)
def test_a_list_keeps_codes_and_table_names_whole(code: Code, width: int) -> None:
    """Whatever else has to fold: these are what people search for and copy."""
    table = "a_long_namespace_of_a_department.a_long_table_of_the_same"
    keys: dict[str, object] = {"key": '{"customer":"' + "x" * 90 + '"}', "rule": "r" * 60, "column": "c" * 60}
    keys["detected_at"] = NOW - timedelta(minutes=59)
    row = ROW.model_copy(update={"table": table, "code": str(code), "offset": 10**12, "partition": 117, **keys})
    lines = _shown(QuarantineList(pipeline="p", as_of=NOW, total=1, rows=[row]), width).splitlines()

    assert [line for line in lines if line.strip() == table]
    assert [line for line in lines if line.rstrip().endswith("59 min ago")]
    assert [line for line in lines if f"117/{10**12}  {code}  " in line]
    assert max(map(len, lines)) <= width


def test_no_key_tells_the_terminal_what_to_do() -> None:
    """JSON lets through what is above the controls of ASCII: a command to the terminal, and a change of direction."""
    key = '{"id":"a\x9b31m\u202eb"}'
    listed = QuarantineList(pipeline="p", as_of=NOW, total=1, rows=[ROW.model_copy(update={"key": key})])
    differs = models.TableVerify(table="a", topic="t", equal=False, different=1, keys=[key], mirror_snapshot=7)

    for shown in (_shown(listed, 100), _shown(models.VerifyReport(pipeline="p", tables=[differs]), 100)):
        assert '{"id":"a' in shown
        assert not {"\x9b", "\u202e"} & set(shown)


def _against_source(unsettled: int) -> models.VerifyReport:
    left_out = {"tags": "not in the mirror"}
    found = models.TableVerify(
        table="a", topic="t", method="source", equal=True, unsettled=unsettled, left_out=left_out, mirror_snapshot=7
    )
    return models.VerifyReport(pipeline="p", tables=[found])


_AGAINST_SOURCE = _against_source(unsettled=2)
_EQUAL = models.TableVerify(table="a", topic="t", method="ledger", equal=True, mirror_snapshot=7)
_MISSING = models.TableVerify(table="b", topic="t", method="ledger", equal=True)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (models.RunReport(pipeline="p", tables=[models.TableRun(table="a.b", topic="t")]), "Nothing new was read."),
        (ViolationReport(pipeline="p", as_of=NOW), "Nothing is held back."),
        (QuarantineList(pipeline="p", as_of=NOW), "Nothing in quarantine"),
        (models.VerifyReport(pipeline="p", tables=[_MISSING]), "There is no mirror yet"),
        (models.VerifyReport(pipeline="p", tables=[_MISSING]), "no mirror yet"),
        (models.VerifyReport(pipeline="p", tables=[_MISSING, _EQUAL]), "Every mirror that is there equals its ledger"),
        (models.VerifyReport(pipeline="p", tables=[_EQUAL]), "Every mirror equals its ledger"),
        (_against_source(unsettled=0), "Every mirror equals the database"),
        (_AGAINST_SOURCE, "2 keys changed each time they were looked at"),
        (_AGAINST_SOURCE, "No row is known to differ, and 2 keys could not be compared; run it again."),
        (_AGAINST_SOURCE, "tags (not in the mirror)"),
        (models.LintReport(), "No contract to check."),
        (models.StatusReport(pipeline="p", as_of=NOW), "as of"),
        (MaintainReport(pipeline="p", planned=False), "No table is there yet"),
        (
            MaintainReport(pipeline="p", planned=False, tables=[MaintainedTable(table="a.b", snapshots_kept=1)]),
            "1 table needs nothing.",
        ),
        (
            MaintainReport(
                pipeline="p",
                planned=False,
                tables=[MaintainedTable(table="a.b", snapshots_kept=1, orphans_due=True, orphans=0)],
            ),
            "1 table needs nothing.",
        ),
    ],
)
def test_an_empty_report_says_so(report: models.Report, words: str) -> None:
    """Nothing to tell is told in words, not by an empty table."""
    assert words in _shown(report)


def test_a_difference_says_what_to_do_when_the_contract_was_edited() -> None:
    """Nobody looks for another program's doing then."""
    found = models.TableVerify(table="a.b", topic="t", equal=False, unexpected=1, judged_otherwise=True)

    shown = " ".join(_shown(models.VerifyReport(pipeline="p", tables=[found])).split())

    assert "another contract than today's" in shown
    assert "cdcm replay a.b" in shown


def test_a_published_replay_says_what_is_kept_of_before() -> None:
    """Rows from before a mask are among it; what was let go is told alone."""
    done = replay_models.TableReplay(table="a.b", topic="t", equal=True, published=True)
    gone = replay_models.TableReplay(table="a.b", topic="t", forgotten=True)

    published, forgotten = (
        " ".join(_shown(replay_models.ReplayReport(pipeline="p", tables=[found])).split()) for found in (done, gone)
    )

    assert "`cdcm-before-replay`; `--forget` lets go of it" in published
    assert "forgotten" in forgotten
    assert not any(words in forgotten for words in ("swapped", "cdcm-before-replay", "gone:"))


def test_no_mirror_is_told_equal_while_something_of_it_is_not_known() -> None:
    """What was not compared is neither equal nor wrong."""
    shown = _shown(_AGAINST_SOURCE)

    assert "Every mirror equals" not in shown
    assert [line for line in shown.splitlines() if line.strip().endswith("unsettled")]


def test_a_rebuilt_mirror_that_may_not_be_published_is_compared_all_the_same() -> None:
    """With why it is not, and what is held in it: nobody can decide anything without."""
    found = replay_models.TableReplay(
        table="a", topic="t", different=2, columns={"price": 2}, held_rebuilt={"CONTRACT price": 1}, rebuilt_snapshot=7,
        error=ERROR,
    )  # fmt: skip
    shown = _shown(replay_models.ReplayReport(pipeline="p", tables=[found]), 140)

    assert ERROR.message in " ".join(shown.split())
    assert "held, rebuilt  CONTRACT price × 1" in shown
    assert "--publish" not in shown


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"held_live": {"CONTRACT limit": 2}}, "held, live CONTRACT limit × 2"),
        ({"told_rebuilt": {"short": 3}}, "told, rebuilt short × 3"),
        ({"broken_live": ["few"], "broken_rebuilt": []}, "broken, live few"),
        ({"held_rebuilt": {"CONTRACT limit": 2}}, "held, rebuilt CONTRACT limit × 2"),
        ({"added": ["mail"]}, "new columns mail"),
    ],
)
def test_what_a_rebuilt_mirror_has_otherwise_beside_equal_rows_is_told(more: dict[str, Any], said: str) -> None:
    """Another contract may hold other messages of the same rows, and a column may have come with nothing in it."""
    found = replay_models.TableReplay(table="a", topic="t", equal=True, rebuilt_snapshot=7, **more)

    shown = " ".join(_shown(replay_models.ReplayReport(pipeline="p", tables=[found])).split())

    assert "a rebuilt, with the same rows" in shown
    assert said in shown


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, "equal"),
        ({"added": ["mail"]}, "differs"),
        ({"held_rebuilt": {"CONTRACT limit": 2}}, "differs"),
        ({"told_rebuilt": {"short": 3}}, "equal"),
    ],
)
def test_a_replay_that_would_change_more_than_rows_differs(more: dict[str, Any], outcome: str) -> None:
    """As its exit code says."""
    found = replay_models.TableReplay(table="a", topic="t", equal=True, rebuilt_snapshot=7, **more)

    shown = _shown(replay_models.ReplayReport(pipeline="p", tables=[found]))

    assert next(line.split()[-1] for line in shown.splitlines() if line.split()[:1] == ["a"]) == outcome


def test_a_message_of_a_row_is_shown_with_the_schema_that_it_names() -> None:
    """Whatever kind of name that is, and with nothing that a terminal would obey."""
    found = next(report for report in REPORTS if isinstance(report, row_models.WhyReport))
    named = found.messages[0].model_copy(update={"schema_name": "artifact:a/\x1b[2J/1", "schema_id": None})

    shown = _shown(found.model_copy(update={"messages": [named]}), 120)

    assert "schema      artifact:a/\N{REPLACEMENT CHARACTER}[2J/1" in shown


def test_names_of_maintained_tables_are_whole_in_a_narrow_terminal() -> None:
    """They are what is copied into the next command."""
    tables = [MaintainedTable(table="shop.payments__quarantine", snapshots=20, snapshots_kept=9, orphans=3)]

    assert "shop.payments__quarantine" in _shown(MaintainReport(pipeline="p", planned=False, tables=tables))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "in the future"),
        (0, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7_199, "119 min ago"),
        (10_800, "3 h ago"),
        (172_800, "2 d ago"),
    ],
)
def test_an_age_is_told_in_one_unit(seconds: int, words: str) -> None:
    """The largest unit that still tells two apart."""
    assert age(timedelta(seconds=seconds)) == words


def test_a_time_is_iso_utc_with_its_age() -> None:
    """Other zones are turned into UTC; no time is a dash."""
    elsewhere = datetime.fromisoformat("2026-11-21T10:00:00.5+02:00")

    assert moment(elsewhere, NOW) == "2026-11-21T08:00:00Z (3 h ago)"
    assert moment(None, NOW) == "–"


def test_there_is_a_view_of_every_report_that_a_command_prints() -> None:
    """A new report without a view fails here, not at a user's terminal."""
    printed = {type(report) for report in REPORTS}
    own = (maintain_models, models, query_models, replay_models, row_models, setup_models)
    parts = (*own, trial_models, violation_models)
    documents = {
        model
        for model in models.Report.__subclasses__()
        if model.__name__.endswith(("Report", "List", "Details"))
        and model.__module__ in {part.__name__ for part in parts}
    }

    assert documents == printed
    with pytest.raises(NotImplementedError, match="no view of ErrorInfo"):
        render(ERROR, now=NOW)
