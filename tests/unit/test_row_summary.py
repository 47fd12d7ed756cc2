"""What the first lines of `cdcm why` say: why a row is as it is now."""

from datetime import UTC, datetime

import pytest

from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import Became, RowNow
from cdc_materializer.report.row_story import Told
from cdc_materializer.report.row_summary import Standing, summary

_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def _place(offset: int) -> MessagePlace:
    return MessagePlace(topic="shop.public.orders", partition=0, offset=offset, timestamp=_NOW)


def _told(offset: int, outcome: Became, *, op: str = "u", broke: tuple[str, ...] = (), swept: bool = False) -> Told:
    return Told(_place(offset), op, None, f"{offset:04d}", 0, outcome, broke=broke, number=0, swept=swept)


def test_the_summary_says_why_the_row_is_as_it_is() -> None:
    """What wrote it, what is held since, what waits, and whether the mirror agrees."""
    row = RowNow(present=True, written=_place(4), agrees=False, different=["price"])
    life = [
        _told(3, "quarantined", broke=("CONTRACT other",)),
        _told(4, "upserted"),
        _told(5, "quarantined", broke=("CONTRACT limit",)),
        _told(6, "waiting"),
    ]

    assert summary(Standing.of(life), row, judged_otherwise=True, stop="Two columns are one.") == [
        "The mirror has the row, as it was left by message 0/4.",
        "1 later message is held back (CONTRACT limit).",
        "1 message waits for the next `cdcm run`.",
        "The mirror does not hold what the messages give in price: see `cdcm verify`.",
        "Batches that read them were judged by another contract than today's, which is the one that speaks here.",
        "Messages that the mirror has not read are left out, for they cannot be: Two columns are one.",
    ]


@pytest.mark.parametrize(
    ("life", "said"),
    [
        ([_told(3, "deleted", op="d")], "The mirror has no such row: message 0/3 ended it."),
        ([_told(3, "deleted", op="t")], "The mirror has no such row: a truncate of the table 0/3 ended it."),
        (
            [_told(3, "deleted", op="d", swept=True)],
            "The mirror has no such row: a complete snapshot, which ends with 0/3, does not show it.",
        ),
        ([_told(3, "quarantined")], "The mirror has no such row: none of its messages could be published."),
    ],
)
def test_the_summary_says_why_there_is_no_row(life: list[Told], said: str) -> None:
    """It was deleted, truncated away, or never good."""
    assert summary(Standing.of(life), RowNow(present=False, agrees=True))[0] == said


def test_no_message_is_said_to_have_ended_a_row_that_another_program_removed() -> None:
    """The newest one that readers saw gives the row, which the mirror has not."""
    assert summary(Standing.of([_told(3, "upserted")]), RowNow(present=False, agrees=False)) == [
        "The mirror has no such row, and message 0/3 gives one.",
        "The mirror does not hold what the messages give: see `cdcm verify`.",
    ]


def test_a_row_that_names_no_message_is_another_programs() -> None:
    """Written without our own column, as by an INSERT that names the source's columns alone."""
    row = RowNow(present=True, agrees=False)

    assert summary(Standing.of([_told(3, "deleted", op="d")]), row) == [
        "The mirror has the row, which names no message that it comes from: another program wrote it.",
        "The mirror does not hold what the messages give: see `cdcm verify`.",
    ]


def test_a_message_without_a_key_is_no_rows() -> None:
    """There is nothing in the mirror to compare it with."""
    assert summary(Standing.of([_told(3, "quarantined")]), None) == [
        "The message has no key that can be read: it is no row's."
    ]


def test_many_held_and_waiting_messages_are_counted() -> None:
    """Each thing that they break is named once."""
    standing = Standing(_told(1, "upserted"), held=1200, broke=("CONTRACT a", "CONTRACT b"), waiting=2)

    assert summary(standing, RowNow(present=True, written=_place(1), agrees=True))[1:] == [
        "1,200 later messages are held back (CONTRACT a, CONTRACT b).",
        "2 messages wait for the next `cdcm run`.",
    ]
