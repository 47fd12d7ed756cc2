"""The violation report and the quarantine list, from rows of quarantine tables."""

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.errors import MAX_QUARANTINED, Code
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.groups import StatedRule, treatment
from cdc_materializer.report.html import to_html
from cdc_materializer.report.markdown import to_markdown
from cdc_materializer.report.remedies import REMEDIES, remedy
from cdc_materializer.report.terminal import render
from cdc_materializer.report.violation_models import Contact, TableVerdict, TableViolations
from cdc_materializer.report.violations import ContractFile, violation_report
from cdc_materializer.report.wording import (
    at_words,
    contacts_line,
    contract_lines,
    found_words,
    headline,
    masked_line,
    place_words,
    rule_words,
    standing,
)
from tests.unit.quarantines import CANARY, NOW, ORDERS, PAYMENTS, Lake, Told, line
from tests.unit.quarantines import row as _row


def _orders(*rows: dict[str, Any], messages: int = 0, contract: ContractFile | None = None) -> TableViolations:
    lake = Lake({"shop.orders__quarantine": list(rows)}, {"shop.orders"}, {"shop.orders": messages})
    contracts = {"shop.orders": contract} if contract is not None else {}
    return violation_report("shop", [ORDERS], lake, as_of=NOW, contracts=contracts).tables[0]


def _untried(batch: SnapshotLine, rule: str) -> SnapshotLine:
    """The snapshot of a batch that could not judge a rule which is only tried."""
    return replace(batch, summary={**batch.summary, "cdcm.untried": f'["{rule}"]'})


def test_a_group_tells_what_how_many_where_and_since_when() -> None:
    """Violations of one code, rule and column are one entry with counts, share, first and last message and age."""
    table = _orders(_row(7), _row(5), _row(9, status="superseded"), _row(6, rule="other"), messages=200)

    group = table.violations[0]

    assert (group.code, group.rule, group.column, group.action) == ("CONTRACT", "known-status", "status", "held")
    assert (group.count, group.open, group.share) == (3, 2, 0.015)
    assert (group.first.offset, group.last.offset) == (5, 9)
    assert group.first.timestamp == NOW - timedelta(days=1) + timedelta(minutes=5)
    assert group.since == NOW - timedelta(hours=3) + timedelta(minutes=5)
    assert group.explanation == Code.CONTRACT.explanation
    assert group.remedy == remedy("CONTRACT", "known-status", "shop.orders")
    assert [entry.rule for entry in table.violations] == ["known-status", "other"]


def test_what_a_schema_tells_is_not_asked_of_the_contract() -> None:
    """Only a time in JSON without a schema needs its unit there; of messages of both kinds both things are said."""
    rows = [_row(offset, code="SCHEMA_INCOMPATIBLE", rule=None, action="hold") for offset in (1, 2)]

    def said(schemas: dict[tuple[int, int], tuple[Told, Told]]) -> str:
        lake = Lake({"shop.orders__quarantine": rows}, {"shop.orders"}, schemas=schemas)
        return violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0].violations[0].remedy

    assert said({(0, 1): (3, 4), (0, 2): (3, 5)}) == (
        "`cdcm replay shop.orders --publish` rebuilds the table with the new type; or change it back."
    )
    assert "`time_unit`" in said({(0, 1): (3, 4)})
    assert "`time_unit`" in said({})


def test_messages_are_counted_once_however_many_rules_they_break() -> None:
    """A message open for any reason is held; one whose every hold is over is superseded or released."""
    table = _orders(
        _row(1),
        _row(1, rule="other"),
        _row(2, status="superseded"),
        _row(3, status="superseded"),
        _row(3, rule="other"),
        _row(4, status="released"),
    )

    assert (table.held_open, table.superseded, table.released) == (2, 1, 1)


def test_a_message_of_several_rows_is_one_of_its_rule() -> None:
    """As it is one of the table: it is open as long as one of its rows is."""
    rows = [_row(1, key='{"id":1}', status="superseded"), _row(1, key='{"id":2}'), _row(1, key='{"id":3}'), _row(2)]
    contract = ContractFile("Orders", "1.0.0", "f1", [StatedRule("known-status")])
    table = _orders(*rows, messages=4, contract=contract)

    assert found_words(table.violations[0]) == "2 messages (50.00% of all), 2 still open"
    assert table.held_open == 2
    assert table.contract is not None
    assert rule_words(table.contract.judged[0])[1:] == ("2 messages", "50.00%", "2")
    assert _orders(rows[0], rows[1]).violations[0].open == 1
    assert _orders(rows[0]).violations[0].open == 0


def test_a_message_tried_again_is_one_violation() -> None:
    """The row detected last says how it stands; at the same moment, the one that is no longer open."""
    later = _row(1, status="superseded", detected_at=NOW)
    assert _orders(later, _row(1)).violations[0].count == 1
    assert _orders(_row(1), later).held_open == 0
    assert _orders(later, _row(1, detected_at=NOW)).held_open == 0
    assert _orders(_row(1, status="released", detected_at=NOW - timedelta(days=1)), _row(1)).held_open == 1


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([_row(1)], TableVerdict.HELD),
        ([_row(1, status="superseded")], TableVerdict.CLEAN),
        ([_row(1, action="warn", status="released")], TableVerdict.REPORTED),
        ([_row(1), _row(2, action="warn", status="released")], TableVerdict.HELD),
        ([_row(1, action="block"), _row(2)], TableVerdict.STOPPED),
        ([_row(1, code="OFFSET_GAP", rule=None, action=None)], TableVerdict.STOPPED),
        ([_row(1, code="OFFSET_GAP", rule=None, action=None, status="released")], TableVerdict.CLEAN),
        ([], TableVerdict.CLEAN),
    ],
)
def test_the_verdict_is_the_worst_that_applies_now(rows: list[dict[str, Any]], verdict: TableVerdict) -> None:
    """What is over does not count against a table; a remark does, since the row with it is published."""
    assert _orders(*rows).verdict is verdict


def test_published_remarks_are_counted_apart_from_held_messages() -> None:
    """A warning never counts as held or released."""
    table = _orders(_row(1, action="warn", status="released"), _row(2, action="report", status="released"))

    assert (table.reported, table.held_open, table.released) == (2, 0, 0)
    assert {group.action for group in table.violations} == {"reported"}


def test_remarks_of_a_batch_that_was_stopped_are_none_of_what_is_published() -> None:
    """Its messages wait in raw; what is held of them is told. A rule has its row where its batch ended."""
    untried = {"action": "shadow_unjudged", "status": "released", "batch_id": "", "key": None}
    rows = [
        *[_row(offset, action="warn", status="released") for offset in (99, 100)],
        _row(7, partition=1, action="report", code="ORDER_AMBIGUOUS", rule=None, status="released"),
        *[_row(100 + behind, rule=f"tried-{behind}", **untried) for behind in (0, 1)],
        _row(101),
    ]

    def told(lines: list[SnapshotLine]) -> tuple[int, int, list[tuple[str | None, int]]]:
        lake = Lake({"shop.orders__quarantine": rows}, lines={"shop.orders": lines})
        table = violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0]
        return table.reported, table.held_open, [(group.rule, group.count) for group in table.violations]

    published = _untried(line(1, 60, "b1", read=9), "tried-0")
    assert told([published]) == (1, 1, [("known-status", 1), ("known-status", 1), ("tried-0", 1)])
    # What no marker tells of is taken as it is.
    assert told([line(1, 60)])[0] == 3


def test_what_is_about_a_table_and_over_is_counted_each_time_though_it_lies_in_one_place() -> None:
    """The partition that names the place of a batch may be quiet; one stop that is told anew is one while it lasts."""
    of_table = {"batch_id": "", "key": None, "timestamp": None}
    times = [NOW - timedelta(hours=hours) for hours in (3, 2, 1)]
    warned = [_row(9, rule="few", action="warn", status="released", detected_at=at, **of_table) for at in times]
    stopped = [_row(9, rule="sum", action="stop", detected_at=at, **of_table) for at in times]
    over = [{**row, "status": "released"} for row in stopped[:2]]

    def count(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
        return [(group.count, group.open) for group in _orders(*rows).violations]

    assert (count(warned), count(stopped), count([*over, stopped[2]])) == ([(3, 0)], [(1, 1)], [(3, 1)])


def test_an_empty_lake_answers_well() -> None:
    """Before the first run there are no tables; a table that ran without violations is clean."""
    report = violation_report("shop", [ORDERS, PAYMENTS], Lake(ran={"shop.payments"}), as_of=NOW)

    assert [table.verdict for table in report.tables] == [TableVerdict.EMPTY, TableVerdict.CLEAN]
    assert report.totals.tables == 2
    assert report.totals.held_open == report.totals.reported == 0


def test_a_group_tells_the_schema_that_it_started_with() -> None:
    """Raw knows the schema ids of messages; quarantine does not."""
    lake = Lake({"shop.orders__quarantine": [_row(1), _row(2), _row(3)]}, schemas={(0, 1): (3, 63), (0, 3): (3, 67)})

    group = violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0].violations[0]

    assert (group.first.schema_id, group.last.schema_id) == (63, 67)


_GUID = "0F3C61B28AD84A1C9C0D5E6F70819203"
_INLINE = b'{"schema":{"type":"struct","name":"shop.Envelope\\u001b","fields":[]},"payload":{"a":%d}}'


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (3, f"guid:{_GUID}", "guid:0f3c61b2-8ad8-4a1c-9c0d-5e6f70819203"),
        (3, b"\x01" + bytes.fromhex(_GUID) + b"a", "guid:0f3c61b2-8ad8-4a1c-9c0d-5e6f70819203"),
        # Bytes of a row that begin alike.
        (3, b"\x01secret-card-1234x", "3"),
        (None, "artifact:73686F70/6F72646572/31", "artifact:shop/order/1"),
        (None, b"\xc3\x01" + bytes(range(8)) + b"a", "fingerprint:0001020304050607"),
        (3, b"\x00" + (5_000_000_000).to_bytes(8, "big") + b"a", "5000000000"),
        (3, _INLINE % 7, "inline:shop.Envelope?/7b0c18c3"),
        (3, _INLINE % 8, "inline:shop.Envelope?/7b0c18c3"),
        (None, b'{"schema":{"type":"struct","fields":[]},"payload":{}}', "inline:1b8a79a4"),
        (3, b'{"id":1,"schema":"a"}', "3"),
        (3, None, "3"),
        (_INLINE % 7, b'{"id":1}', "inline:shop.Envelope?/7b0c18c3"),
        (None, b'{"schema":{"type":"struct"},"payload":' + b"[" * 100_000, None),
        (None, b'{"schema":{"type":"x","name":"a"},"payload":1}', None),
        (None, b'{"schema":{"type":"struct","name":"a","fields":2},"payload":1}', None),
        (None, None, None),
    ],
)
def test_a_schema_is_told_by_its_name_where_it_has_no_number(key: Told, value: Told, told: str | None) -> None:
    """As headers and bytes name it; one that the message brings is told apart from another of its name by a digest."""
    lake = Lake({"shop.orders__quarantine": [_row(1)]}, {"shop.orders"}, schemas={(0, 1): (key, value)})

    group = violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0].violations[0]

    assert group.first.written_with == told
    assert place_words(group.first) == "partition 0, offset 1" + (f", schema {told}" if told is not None else "")


def test_a_rule_is_told_in_the_contracts_words_beside_those_that_were_kept() -> None:
    """By the file, as long as it can be followed; a code of ours has no rule."""
    rules = [StatedRule("known-status", "One of two."), StatedRule("amount"), StatedRule("id", "Not empty.")]
    contract = ContractFile("Orders", "1.0.0", "f1", rules)
    table = _orders(_row(1), _row(2, code="UNDECODABLE", rule=None), contract=contract)

    assert {group.rule: group.states for group in table.violations} == {"known-status": "One of two.", None: None}
    assert table.contract is not None
    assert (table.contract.rules, table.contract.kept) == (3, ["amount", "id"])


@pytest.mark.parametrize(
    ("judged_by", "in_force"), [(["f1", "f0"], True), (["f0", "f1"], False), ([None], False), ([], None)]
)
def test_a_contract_is_in_force_once_a_batch_was_judged_by_it(
    judged_by: list[str | None],
    in_force: bool | None,  # noqa: FBT001 - parametrized
) -> None:
    """The newest batch counts; before the first there is nothing to say."""
    lines = [line(9 - at, at, f"b{at}", contract, read=1) for at, contract in enumerate(judged_by)]
    lake = Lake(lines={"shop.orders": [*lines, line(1, 99, "start")]})
    contracts = {"shop.orders": ContractFile("Orders", "1.0.0", "f1")}

    found = violation_report("shop", [ORDERS], lake, as_of=NOW, contracts=contracts).tables[0].contract

    assert found is not None
    assert found.in_force is in_force


def test_what_is_held_is_told_as_a_share_and_since_when() -> None:
    """Of all messages in raw; the oldest that is still held counts, and remarks do not."""
    old = _row(1, status="superseded", detected_at=NOW - timedelta(days=9))
    remark = _row(2, action="warn", status="open", detected_at=NOW - timedelta(days=8))
    table = _orders(old, remark, _row(3), _row(4), messages=200)

    assert (table.held_share, table.oldest_open) == (0.01, NOW - timedelta(hours=3) + timedelta(minutes=3))
    assert _orders(old).oldest_open is None


def test_totals_add_up_over_tables() -> None:
    """Totals are sums; codes count what is open or only reported."""
    lake = Lake(
        {
            "shop.orders__quarantine": [_row(1), _row(2, status="superseded")],
            "shop.payments__quarantine": [
                _row(1, topic="pga.shop.payments"),
                _row(2, topic="pga.shop.payments", code="UNDECODABLE", rule=None, action="hold"),
                _row(3, topic="pga.shop.payments", action="warn", status="released"),
            ],
        }
    )

    totals = violation_report("shop", [ORDERS, PAYMENTS], lake, as_of=NOW).totals

    assert (totals.tables, totals.tables_with_open, totals.held_open, totals.superseded) == (2, 2, 3, 1)
    assert totals.by_code == {"CONTRACT": 3, "UNDECODABLE": 1}


def test_rows_of_one_message_are_told_apart() -> None:
    """One message can hold several keys, of which a later one mends one alone."""
    found = _orders(_row(1, key='{"id":1}', status="superseded"), _row(1, key='{"id":2}'))

    assert (found.verdict, found.held_open) == (TableVerdict.HELD, 1)


def test_the_report_never_shows_keys() -> None:
    """Keys are in quarantine by design; the report tells by them which rows are the same, and no more."""
    lake = Lake({"shop.orders__quarantine": [_row(1)]})

    report = violation_report("shop", [ORDERS], lake, as_of=NOW)

    assert CANARY not in report.to_json()


def test_rows_without_times_or_with_naive_ones_are_reported() -> None:
    """A message without a timestamp, or a reader that leaves the zone out, does not break the report."""
    naive = (NOW - timedelta(hours=1)).replace(tzinfo=None)

    group = _orders(_row(1, timestamp=None, detected_at=naive), _row(2, timestamp=naive)).violations[0]

    assert group.first.timestamp is None
    assert group.last.timestamp == NOW - timedelta(hours=1)


def test_an_unknown_code_is_reported_too() -> None:
    """A row of a newer version is held, and said to be unknown."""
    group = _orders(_row(1, code="BRAND_NEW", action=None)).violations[0]

    assert (group.action, group.code) == ("held", "BRAND_NEW")
    assert "does not know" in group.explanation


def test_every_code_has_a_remedy_and_a_treatment() -> None:
    """Whatever code a row has, the report says what to do."""
    assert set(REMEDIES) == set(Code)
    assert {treatment(_row(1, code=str(code), action=None)) for code in Code} == {"held", "reported", "stopped"}


def _of_table(offset: int, **changes: object) -> dict[str, Any]:
    """A quarantine row about the table as a whole: it is of no batch and of no message."""
    nothing = {"column": None, "key": None, "timestamp": None, "batch_id": "", "rule": "no-twins", "action": "stop"}
    return _row(offset, **{**nothing, "detected_at": NOW - timedelta(hours=1), **changes})


def test_what_is_about_the_table_counts_no_message() -> None:
    """A broken rule about the table stops it; nothing is held for it, and it has no share of the messages."""
    rules = [StatedRule("no-twins", "No two rows have one code.", "block", "table", "code")]
    table = _orders(_of_table(7), messages=200, contract=ContractFile("Orders", "1.0.0", "f1", rules))

    (group,) = table.violations
    assert (table.verdict, table.held_open, table.superseded) == (TableVerdict.STOPPED, 0, 0)
    assert (group.about, group.action, group.open, group.share, group.column) == ("table", "stopped", 1, None, "code")
    assert group.detected_first == NOW - timedelta(hours=1)
    assert found_words(group) == "once, about the table as a whole, still so"
    assert at_words(group, "first") == "in the batch from partition 0, offset 7"
    assert group.remedy.startswith("Mend the data at the source")
    assert table.contract is not None
    assert [(rule.rule, rule.about, rule.count, rule.share) for rule in table.contract.judged] == [
        ("no-twins", "table", 1, None)
    ]


def test_a_rule_that_is_only_tried_makes_no_published_message_of_a_held_one() -> None:
    """What another rule holds, or held until a later message took its place, readers have not seen."""
    held = [_row(5), _row(6, status="superseded"), _row(7, status="released")]
    tried = [_row(offset, rule="tried", action="shadow", status="released") for offset in (5, 6, 7, 8)]

    table = _orders(*held, *tried, messages=200)

    assert (table.held_open, table.superseded, table.released, table.reported) == (1, 1, 1, 2)
    assert {group.rule: group.count for group in table.violations} == {"known-status": 3, "tried": 4}


def test_a_warning_about_the_table_is_no_message_with_a_remark() -> None:
    """It is counted by the batches that left the table so, and the first sentence says it."""
    lake = Lake({"shop.orders__quarantine": [_of_table(o, action="warn", status="released") for o in (4, 9)]})
    report = violation_report("shop", [ORDERS], lake, as_of=NOW)
    table = report.tables[0]

    assert (table.verdict, table.reported, table.violations[0].count) == (TableVerdict.REPORTED, 0, 2)
    assert found_words(table.violations[0]) == "2 times, about the table as a whole"
    assert headline(report) == "1 rule about a whole table was broken and only reported."


@pytest.mark.parametrize(("scope", "column"), [("row", "status"), ("table", None)])
def test_a_rule_that_cannot_be_judged_is_broken_by_nothing(scope: str, column: str | None) -> None:
    """It stops the table and is not kept; no message and no state of the table counts against it."""
    rules = [StatedRule("of-numbers", "Numbers alone.", "warn", scope, column), StatedRule("known-status")]
    contract = ContractFile("Orders", "1.0.0", "f1", rules)
    unjudged = _of_table(7, rule="of-numbers", action="unjudged", column=column)
    report = violation_report("shop", [ORDERS], Lake({"shop.orders__quarantine": [unjudged]}), as_of=NOW, contracts={
        "shop.orders": contract})  # fmt: skip
    table = report.tables[0]
    (group,) = table.violations

    assert (table.verdict, table.held_open) == (TableVerdict.STOPPED, 0)
    assert (group.about, group.action, group.open, group.share) == ("rule", "stopped", 1, None)
    assert found_words(group) == "once, about the rule itself, still so"
    assert group.explanation.startswith("The rule cannot be judged")
    assert group.remedy.startswith("Mend the rule so that it can judge every row")
    assert "`cdcm contract test --table shop.orders`" in group.remedy
    assert table.contract is not None
    assert (table.contract.judged[0].count, table.contract.judged[0].unjudged) == (0, True)
    assert rule_words(table.contract.judged[0])[1:] == ("cannot be judged", "–", "–")
    assert table.contract.kept == ["known-status"]
    over = _orders({**unjudged, "status": "released"}, contract=contract)
    assert over.contract is not None
    assert over.contract.kept == ["of-numbers", "known-status"]


def test_a_tried_rule_that_a_batch_could_not_judge_is_not_kept() -> None:
    """Nothing stops for it, and what breaks it passed unseen: it is told with where that was so, now as later."""
    contract = ContractFile("Orders", "1.0.0", "f1", [StatedRule("of-digits", "Digits.", "shadow", "row", "status")])
    said = {"rule": "of-digits", "action": "shadow_unjudged", "status": "released", "column": "status"}
    quarantine = [_of_table(offset, **said) for offset in (4, 9)]
    report = violation_report("shop", [ORDERS], Lake({"shop.orders__quarantine": quarantine}), as_of=NOW, contracts={
        "shop.orders": contract})  # fmt: skip
    table = report.tables[0]
    (group,) = table.violations

    assert (table.verdict, table.held_open, table.reported) == (TableVerdict.REPORTED, 0, 0)
    assert (group.about, group.action, group.count, group.open, group.share) == ("rule", "reported", 2, 0, None)
    assert (group.first.offset, group.last.offset) == (4, 9)
    assert found_words(group) == "2 times, about the rule itself"
    assert group.explanation.startswith("The rule is only tried and could not be judged")
    assert "`cdcm contract test --table shop.orders`" in group.remedy
    assert headline(report) == "1 rule that is only tried could not be judged."
    assert table.contract is not None
    assert table.contract.kept == []
    assert rule_words(table.contract.judged[0]) == ("is only tried", "could not be judged", "–", "–")
    broken = _row(1, rule="of-digits", action="shadow", status="released")
    both = _orders(*quarantine, broken, messages=200, contract=contract)
    assert both.contract is not None
    assert rule_words(both.contract.judged[0])[1] == "1 message, not always judged"
    stated = StatedRule("of-digits", "Digits.", "quarantine", "row", "status")
    enforced = ContractFile("Orders", "1.0.1", "f2", [stated])
    later = _orders(*quarantine, messages=200, contract=enforced)
    assert later.contract is not None
    assert later.contract.kept == ["of-digits"]


def test_a_tried_rule_that_was_mended_in_the_contract_is_no_more_told_as_unjudged() -> None:
    """What the newest batch was judged by decides; a batch of that contract that could judge it takes nothing back."""
    contract = ContractFile("Orders", "1.0.1", "f2", [StatedRule("of-digits", "Digits.", "shadow", "row", "status")])
    said = {"rule": "of-digits", "action": "shadow_unjudged", "status": "released", "column": "status"}
    rows = [_of_table(100, **said)]

    def told(*batches: tuple[str, bool]) -> tuple[TableVerdict, int, bool]:
        newest_first: list[SnapshotLine] = []
        for number, (judged_by, is_untried) in enumerate(batches, start=1):
            marked = line(number, 60 - number, f"b{number}", judged_by, read=100)
            newest_first.insert(0, _untried(marked, "of-digits") if is_untried else marked)
        lake = Lake({"shop.orders__quarantine": rows}, lines={"shop.orders": newest_first})
        table = violation_report("shop", [ORDERS], lake, as_of=NOW, contracts={"shop.orders": contract}).tables[0]
        assert table.contract is not None
        return table.verdict, len(table.violations), table.contract.judged[0].unjudged

    unjudged, judged = (TableVerdict.REPORTED, 1, True), (TableVerdict.CLEAN, 0, False)
    assert told(("f1", True)) == told(("f1", True), ("f1", False)) == unjudged
    assert told(("f1", True), ("f2", False)) == told(("f1", True), ("f2", False), ("f2", False)) == judged
    assert told(("f1", True), ("f2", True)) == unjudged


def test_a_rule_that_was_broken_and_cannot_be_judged_is_two_groups() -> None:
    """What broke it before is still counted, and the table as a whole is not taken for a message."""
    rows = [_row(1, rule="of-numbers"), _of_table(7, rule="of-numbers", action="unjudged", column="status")]
    contract = ContractFile("Orders", "1.0.0", "f1", [StatedRule("of-numbers", column="status")])
    table = _orders(*rows, messages=200, contract=contract)

    assert [group.about for group in table.violations] == ["rule", "messages"]
    assert table.contract is not None
    assert rule_words(table.contract.judged[0])[1:] == ("1 message, cannot be judged now", "0.50%", "1")


def test_a_batch_that_would_hold_too_much_is_told_with_its_limit() -> None:
    """The contract says how much; the messages that it would hold are counted as ever."""
    contract = ContractFile("Orders", "1.0.0", "f1", max_quarantined="5%")
    table = _orders(_row(1), _of_table(0, rule=MAX_QUARANTINED), contract=contract)

    first = table.violations[0]
    assert (table.verdict, table.held_open) == (TableVerdict.STOPPED, 1)
    assert (first.rule, first.states) == (
        MAX_QUARANTINED,
        "At most 5% of the messages of a batch may be held.",
    )
    assert "than the contract allows" in first.explanation
    assert "A batch that would hold more than 5% of its messages is stopped." in contract_lines(table)


def test_a_report_says_whom_to_tell() -> None:
    """Whom the contract names: what each is, its address without a scheme, and the first few alone."""
    named = [
        Contact(name="Orders team", kind="team"),
        Contact(name="Ann Example", kind="person", role="Data owner", address="ann"),
        Contact(name="https://chat.example/c/orders", kind="channel"),
        Contact(name="#orders", kind="channel", role="slack", address="https://chat.example/o"),
        Contact(name="mailto:orders@shop.example", kind="channel"),
        Contact(name="Bob", kind="person"),
    ]
    contract = ContractFile("Orders", "1.0.0", "f1", contacts=named)
    table = _orders(_row(1), contract=contract)

    assert table.contract is not None
    assert table.contract.contacts == named
    assert contacts_line(table.contract) == (
        "Whom to tell: Orders team (team), Ann Example (Data owner, ann), chat.example/c/orders, "
        "#orders (slack, chat.example/o), 2 more in the contract."
    )
    report = violation_report("shop", [ORDERS], Lake({"shop.orders__quarantine": [_row(1)]}), as_of=NOW, contracts={
        "shop.orders": contract})  # fmt: skip
    shown = Console(width=200, record=True, file=io.StringIO())
    shown.print(render(report, now=NOW))
    for text in (to_html(report), to_markdown(report).replace("\\", ""), shown.export_text()):
        assert "Whom to tell: Orders team (team), Ann Example" in text


def test_messages_that_wait_for_a_stopped_table_are_counted() -> None:
    """Between raw's marker and the mirror's, in all partitions."""
    lake = Lake(
        {"shop.orders__quarantine": [_row(1, action="block")]},
        lines={"shop.orders": [line(3, 60, "b")], "shop.orders__raw": [line(31, 50, "r")]},
    )
    table = violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0]

    assert table.unpublished == 2800
    assert "2,800 messages wait in raw until the table goes on." in standing(table)


def test_masked_columns_are_told_from_the_mirrors_own_marker() -> None:
    """So that it can be said of a past batch too; what tells one key of hashes from another stays out."""
    marker = Marker(
        "shop", "b", "t", None, Offsets({0: 1}), {}, None, None, {}, masks={"mail": "hash:0a1b2c3d", "notes": "drop"}
    )
    lake = Lake(lines={"shop.orders": [SnapshotLine(1, None, 1, marker.to_summary())]})
    table = violation_report("shop", [ORDERS], lake, as_of=NOW).tables[0]

    assert table.masked == {"mail": "hash", "notes": "drop"}
    assert masked_line(table) == "Masked columns: mail (hashed), notes (left out)."


@pytest.mark.parametrize(
    ("action", "says"),
    [("quarantine", "quarantine release"), ("warn", "asks too much"), ("block", "each run tries again")],
)
def test_what_to_do_about_a_broken_rule_depends_on_what_was_done(action: str, says: str) -> None:
    """Nothing can be released where nothing is held."""
    assert says in _orders(_row(1, action=action)).violations[0].remedy


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("CONTRACT", "`cdcm quarantine release shop.orders`"),
        ("OFFSET_GAP", "`cdcm adopt shop.orders`"),
        ("SCHEMA_INCOMPATIBLE", "`cdcm replay shop.orders --publish`"),
    ],
)
def test_commands_name_the_table(code: str, command: str) -> None:
    """What to do can be copied."""
    assert command in remedy(code, None, "shop.orders")
    assert "…" not in remedy(code, None, "shop.orders")
