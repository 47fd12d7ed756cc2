"""What `cdcm why` says of a row, from what the fold and the verdict said of its messages."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from cdc_materializer.errors import UsageError
from cdc_materializer.explain.key import keeps_digits, key_values
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.snapshots import Followed, Snapshot
from cdc_materializer.masks import Mask, Masks
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import Became, ColumnChange, RowViolation, WhyReport
from cdc_materializer.report.row_story import (
    Kept,
    Publication,
    Told,
    judged_otherwise,
    publications,
    story,
    sweeping_batches,
)
from cdc_materializer.report.terminal import render

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def place(offset: int) -> MessagePlace:
    """A message of the row's partition."""
    return MessagePlace(topic="shop.public.orders", partition=0, offset=offset, timestamp=NOW)


def told(offset: int, outcome: Became, **more: Any) -> Told:  # noqa: ANN401 - fields of Told
    """What is known of a message."""
    known = {"op": "u", "source_ts": None, "position": f"{offset:04d}", "epoch": 0, "number": 0}
    return Told(place=place(offset), outcome=outcome, **{**known, **more})


def published(*ends: int) -> list[Publication]:
    """One batch up to each of these offsets."""
    starts = (0, *ends)
    return [
        Publication(Offsets({0: start}), Offsets({0: end}), f"batch{end}", 100 + end, NOW)
        for start, end in zip(starts, ends, strict=False)
    ]


def kept(snapshot: int, offsets: dict[int, int] | None, *, is_first: bool = False, begins: bool = False) -> Kept:
    """A snapshot with a marker, or without."""
    marker = None
    if offsets is not None:
        marker = Marker("shop", "" if begins else f"b{snapshot}", "t", None, Offsets(offsets), {}, None, None, {})
    return Kept(snapshot, 1_000 * snapshot, marker, is_first)


# --- which batch ----------------------------------------------------------------------------------------------------


def test_every_batch_is_what_its_marker_has_more_than_the_one_before() -> None:
    """A snapshot without a marker, or with that of a batch that is known, is no batch of its own."""
    line = [kept(5, {0: 9, 1: 2}), kept(4, None), kept(3, {0: 4}), kept(2, {0: 4}), kept(1, {0: 1}, is_first=True)]

    found = publications(line)

    assert [(one.snapshot, one.ranges()) for one in found] == [
        (1, [(0, 0, 1)]),
        (2, [(0, 1, 4)]),
        (5, [(0, 4, 9), (1, 0, 2)]),
    ]


def test_rows_are_swept_by_the_batch_that_ends_a_snapshot() -> None:
    """Which is the first that leaves it open no more; one that followed none leaves what it reads to the next."""
    running = Snapshot("100", {0: 2, 1: 1}, {1: 1, 0: 5})
    none, left_open, ended = None, Followed((running,)), Followed()
    told = [none, none, left_open, left_open, ended, none, none]
    line = [
        replace(one, marker=replace(one.marker, snapshots=followed))
        for number, followed in enumerate(told)
        if (one := kept(number, {0: number + 1}, is_first=number == 0)).marker is not None
    ]

    assert sweeping_batches(publications(line[::-1])) == ({0: 2, 1: 2}, {(0, 5): 4})
    assert sweeping_batches(publications(line[:3][::-1])) == ({0: 2, 1: 2}, {}), "it is open still"
    assert sweeping_batches(publications([*line[1:5][::-1]])) == ({}, {(0, 5): 3}), "the first is not known"


def test_what_came_before_the_snapshots_that_are_kept_is_in_no_known_batch() -> None:
    """Which messages were read together is told by a snapshot and the one before it."""
    found = publications([kept(9, {0: 7}), kept(8, {0: 4})])

    assert [(one.batch, one.snapshot, one.ranges()) for one in found] == [
        (None, None, [(0, 0, 4)]),
        ("b9", 9, [(0, 4, 7)]),
    ]


def test_a_rebuilt_mirror_has_the_batches_of_its_rebuilding() -> None:
    """A replay begins with a marker of no batch; what was published before it is gone from the table."""
    found = publications([kept(4, {0: 9}), kept(3, {}, begins=True), kept(2, {0: 9}), kept(1, {0: 0}, is_first=True)])

    assert [(one.snapshot, one.ranges()) for one in found] == [(4, [(0, 0, 9)])]


def test_a_mirror_that_was_rebuilt_from_an_offset_keeps_the_batches_before_it() -> None:
    """Those that were read again are the replay's; where the older ones are not known, nor are their batches."""
    line = [kept(6, {0: 9}), kept(5, {0: 4}, begins=True), kept(4, {0: 8}), kept(3, {0: 4}), kept(2, {0: 2})]
    known = [*line, kept(1, {0: 0}, is_first=True)]

    assert [(one.snapshot, one.ranges()) for one in publications(known)] == [
        (2, [(0, 0, 2)]),
        (3, [(0, 2, 4)]),
        (6, [(0, 4, 9)]),
    ]
    assert [(one.snapshot, one.ranges()) for one in publications(line[:3])] == [(None, [(0, 0, 4)]), (6, [(0, 4, 9)])]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        # What was rebuilt was put on top of what runs had published meanwhile, with the mark of its beginning.
        (
            [({0: 1}, "m1"), ({0: 2}, "m2"), ({0: 3}, "m3"), ({}, ""), ({0: 2}, "r1"), ({0: 3}, "r2"), ({0: 3}, "r2")],
            [("r1", (0, 0, 2)), ("r2", (0, 2, 3))],
        ),
        # Earlier versions put no such mark there.
        (
            [({0: 1}, "m1"), ({0: 2}, "m2"), ({0: 3}, "m3"), ({0: 2}, "r1"), ({0: 3}, "r2"), ({0: 3}, "r2")],
            [("r1", (0, 0, 2)), ("r2", (0, 2, 3))],
        ),
        (
            [({0: 2}, "m1"), ({0: 2, 1: 4}, "m2"), ({0: 2}, "r1"), ({0: 2, 1: 4}, "r2")],
            [("r1", (0, 0, 2)), ("r2", (1, 0, 4))],
        ),
        # From an offset: the mark is that of the state which was gone on from.
        (
            [({0: 1}, "m1"), ({0: 2}, "m2"), ({0: 3}, "m3"), ({0: 1}, ""), ({0: 2}, "r1"), ({0: 3}, "r2")],
            [("m1", (0, 0, 1)), ("r1", (0, 1, 2)), ("r2", (0, 2, 3))],
        ),
    ],
    ids=["marked", "unmarked", "a partition less", "from an offset"],
)
def test_a_rebuilt_mirror_that_was_put_on_top_of_a_newer_one_has_no_message_twice(
    line: list[tuple[dict[int, int], str]], read: list[tuple[str, tuple[int, int, int]]]
) -> None:
    """What runs published while it was being rebuilt, it has read itself."""
    snapshots = [
        Kept(
            number, 1_000 * number, Marker("shop", batch, "t", None, Offsets(offsets), {}, None, None, {}), number == 0
        )
        for number, (offsets, batch) in enumerate([({}, "made"), *line])
    ]

    found = publications(snapshots[::-1])

    assert [(one.batch, reach) for one in found for reach in one.ranges()] == read


# --- the messages ---------------------------------------------------------------------------------------------------


def test_of_two_messages_that_were_released_nobody_says_that_readers_never_saw_the_first() -> None:
    """One release may have let go the one and another one the other; only what one batch read together is certain."""
    released = RowViolation(
        batch="batch2", detected_at=NOW, code="CONTRACT", rule="limit", column="price", action="quarantine",
        status="released",
    )  # fmt: skip
    life = [
        told(0, "superseded", passes=True, number=None),
        told(1, "upserted", passes=True, number=None),
        told(2, "superseded", passes=True, number=1),
        told(3, "upserted", passes=True, number=1),
    ]

    found = story(life, published(2, 4), [(place(0), released), (place(1), released)])

    assert found[0].by == place(1)
    assert "nothing tells whether readers saw it in between" in found[0].reason
    assert "of the same batch came after it, before readers saw it" in found[2].reason


def test_a_change_that_came_late_names_the_one_that_readers_had_by_then() -> None:
    """Of a partition that lags, say; what came behind both of them has not taken its place."""
    life = [
        told(0, "upserted", passes=True),
        told(3, "superseded", passes=True, number=2),
        told(1, "upserted", passes=True, number=0),
        told(2, "upserted", passes=True, number=1),
        told(4, "upserted", passes=True, number=3),
    ]

    found = story(life, published(2, 3, 4, 5), [])

    assert found[1].by == place(2)
    assert found[1].reason == "It was good; 0/2 comes after it, and readers had that from an earlier batch."
    assert story([replace(life[1], number=None), *life[2:]], published(2), [])[0].by is None


def test_the_contract_is_held_against_those_of_all_batches_that_read_the_messages() -> None:
    """Not the newest batch's alone; nothing is known of one whose snapshot is gone, or that has not come."""
    contracts = {1: "old", 2: "new", 3: None}
    line = [
        replace(one, marker=replace(one.marker, contract=contracts[number]))
        for number in contracts
        if (one := kept(number, {0: number})).marker is not None
    ]
    batches = publications([*line[::-1], kept(0, {0: 0}, is_first=True)])

    def asked(*numbers: int | None, today: str | None = "new") -> bool:
        return judged_otherwise([told(9, "upserted", number=number) for number in numbers], batches, today)

    assert [one.contract for one in batches] == ["old", "new", None]
    assert (asked(0, 1), asked(1), asked(1, 2), asked(2)) == (True, False, True, True)
    assert (asked(2, today=None), asked(0, today=None), asked(None), asked(3)) == (False, True, False, False)
    assert not judged_otherwise([told(9, "upserted")], publications(line[:1]), "new")


def test_a_row_is_told_message_by_message() -> None:
    """Each with its batch, the message that took its place, and the reason in words."""
    life = [
        told(0, "superseded", op="c", passes=True),
        told(1, "upserted", passes=True),
        told(1, "replayed", position="0001", number=1),
        told(3, "quarantined", broke=("CONTRACT limit",), number=1),
        told(4, "upserted", passes=True, number=2),
        told(5, "deleted", op="d", passes=True, number=3),
        told(6, "unchanged", op="tombstone", number=3),
        told(7, "waiting", number=None),
    ]

    found = story(life, published(2, 4, 5, 7), [])

    assert [(one.outcome, one.snapshot, one.by.offset if one.by else None) for one in found] == [
        ("superseded", 102, 1),
        ("upserted", 102, 4),
        ("replayed", 104, 1),
        ("quarantined", 104, 4),
        ("upserted", 105, 5),
        ("deleted", 107, None),
        ("unchanged", 107, None),
        ("waiting", None, None),
    ]
    assert [one.reason for one in found] == [
        "It was good; 0/1 of the same batch came after it, before readers saw it.",
        "Readers saw it until 0/4 took its place.",
        "The source sent it before: the row knew this position, or a later one, with 0/1.",
        "Held (CONTRACT limit), until 0/4 was good and took its place.",
        "Readers saw it until 0/5 ended it. It took the place of held 0/3.",
        "It ended the row.",
        "The row was gone already.",
        "It has landed in raw; the next `cdcm run` reads it.",
    ]


def test_a_message_tells_which_held_ones_it_took_the_place_of() -> None:
    """All of them, and a sentence names the first few; a later good message of the row has nothing to do with them."""
    held = [told(offset, "quarantined", broke=("CONTRACT limit",)) for offset in range(7)]
    life = [*held, told(7, "deleted", op="d", passes=True), told(8, "upserted", op="c", passes=True)]

    found = story(life, published(9), [])

    assert [one.offset for one in found[7].supersedes_held] == [0, 1, 2, 3, 4, 5, 6]
    assert found[7].reason == "It ended the row. It took the place of held 0/0, 0/1, 0/2, 0/3, 0/4 and 2 more."
    assert [one.offset for one in found if one.supersedes_held] == [7]


def test_changed_columns_that_the_contract_masks_are_marked() -> None:
    """With how, whatever case the contract spells them in; a masked column that did not change is not among them."""
    masks = Masks(methods={"Mail": Mask.HASH, "card": Mask.LAST4})

    (found,) = story([told(0, "upserted", passes=True, columns=("id", "mail"))], published(1), [], masks)

    assert (found.columns, found.masked) == (["id", "mail"], {"mail": "hash"})


def test_what_quarantine_says_stands_beside_what_todays_rules_say() -> None:
    """A message that a mended rule lets through is held all the same, and one that a new rule breaks was published."""
    waits = RowViolation(code="CONTRACT", rule="limit", action="quarantine", status="open")
    life = [told(0, "upserted", passes=True), told(1, "quarantined", broke=("CONTRACT other",))]

    first, second = story(life, published(2), [(place(0), waits)])

    assert first.violations == [waits]
    assert "It is held; by today's rules it would be published" in first.reason
    assert second.reason.startswith("It breaks today's rules (CONTRACT other), and quarantine has nothing of it")


def test_a_message_that_stops_its_table_says_so_and_waits() -> None:
    """As long as the rule blocks: what was noted for one that holds or warns is no reason why it was not read."""
    waits = told(5, "waiting", number=None)

    def reason(action: str, status: str = "open") -> str:
        held = RowViolation(code="CONTRACT", rule="limit", action=action, status=status, batch="b9", detected_at=NOW)
        return story([waits], published(5), [(place(5), held)])[0].reason

    assert reason("block").startswith("It has landed in raw and stops the table (CONTRACT limit): a run goes on once")
    lands = "It has landed in raw; the next `cdcm run` reads it."
    assert [reason("quarantine"), reason("block", "released")] == [lands, lands]


def test_a_row_that_a_snapshot_did_not_show_says_so() -> None:
    """At the snapshot's last record, which is a message of another row."""
    life = [told(0, "upserted", passes=True), told(1, "deleted", op="d", swept=True)]

    first, second = story(life, published(2), [])

    assert first.reason == "Readers saw it until 0/1 ended it."
    assert second.reason.startswith("A complete snapshot of the table, of which it is the last record, does not show")


def test_a_message_that_was_read_later_is_in_no_known_batch() -> None:
    """One that waited for its schema: no snapshot says which batch read it in the end."""
    read = RowViolation(code="SCHEMA_UNKNOWN", action="hold", status="released")

    (found,) = story([told(0, "upserted", passes=True)], published(1), [(place(0), read)])

    assert (found.batch, found.snapshot) == (None, None)


# --- in a terminal -----------------------------------------------------------------------------------------------


def test_the_life_of_a_row_reads_well_in_a_terminal() -> None:
    """Every message with its place, outcome and reason; nothing is taken for markup, nor for a terminal's command."""
    violation = RowViolation(code="CONTRACT", rule="limit", column="price", action="quarantine", status="open")
    values = (
        ColumnChange(column="price", before=None, after="12.50"),
        ColumnChange(column="mail", before="[b]é\x9b2J", after=1),
    )
    messages = story(
        [told(3, "quarantined", broke=("CONTRACT limit",), columns=("price", "mail"), values=values)],
        published(4),
        [(place(3), violation)],
        Masks(methods={"mail": Mask.HASH}),
    )
    report = WhyReport(
        pipeline="shop", table="shop.orders", topic="t", key='{"id":"[red]7\x9b"}', summary=["No row."], total=9,
        limit=1, messages=messages,
    )  # fmt: skip
    text = io.StringIO()

    Console(file=text, width=80, no_color=True).print(render(report, now=NOW))

    shown = text.getvalue()
    assert "The newest 1 of 9 messages." in shown
    assert "0/3  u  quarantined" in shown
    assert "CONTRACT limit (price): open" in shown
    assert "price, mail (masked: hash)" in shown
    assert 'price: null → "12.50"' in shown
    assert 'mail: "[b]é\N{REPLACEMENT CHARACTER}2J" → 1' in shown
    assert '{"id":"[red]7\N{REPLACEMENT CHARACTER}"}' in shown
    assert "batch4: snapshot 104" in shown


# --- the key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ('{"id": 42}', ["id"], {"id": "42"}),
        ("42", ["id"], {"id": "42"}),
        ("a b", ["id"], {"id": "a b"}),
        ('"42"', ["id"], {"id": "42"}),
        ('{"b": "x", "a": 10.50}', ["a", "b"], {"a": "10.50", "b": "x"}),
        ('{"a": true, "b": null}', ["a", "b"], {"a": "true", "b": None}),
        pytest.param("[" * 99_999, ["id"], {"id": "[" * 99_999}, id="no JSON, however deep"),
    ],
)
def test_a_key_is_taken_as_people_write_it(text: str, names: list[str], values: dict[str, str | None]) -> None:
    """JSON whatever the order of its columns, or the plain value of a single column; digits stay as they are."""
    assert key_values(text, names) == values


@pytest.mark.parametrize(
    ("text", "kind", "keeps"),
    [
        ("1.51", "decimal(10,2)", True),
        ("1.505", "decimal(10,2)", False),
        ("-1.510", "decimal(10,2)", True),
        ("151e-2", "decimal(10,2)", True),
        ("1505e-3", "decimal(10,2)", False),
        ("0.000", "decimal(10,2)", True),
        ("12345678901234567890123456789012345678.5", "decimal(38,0)", False),
        ("1e2", "decimal(10,0)", True),
        ("NaN", "decimal(10,2)", True),
        ("some", "decimal(10,2)", True),
        (None, "decimal(10,2)", True),
        ("1.505", "string", True),
    ],
)
def test_a_number_that_would_be_rounded_is_no_key(text: str | None, kind: str, *, keeps: bool) -> None:
    """Rounded it would be another row's; what is no number the cast refuses."""
    assert keeps_digits(text, kind) is keeps


@pytest.mark.parametrize("text", ['{"other": 1}', '{"id": [1]}', '{"id": 1, "more": 2}'])
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    """The message names the key's columns; the value may be a secret."""
    with pytest.raises(UsageError, match="does not name the key's columns: id") as refused:
        key_values(text, ["id"])

    assert text not in str(refused.value)
