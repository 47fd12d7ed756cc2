"""Snapshots, one form after another, of both databases while they are followed.

Each comes on top of the one before, in one run: the first; by a signal, in pieces and in one, while the databases go
on; and a new one after the connector's place in the log was lost. A change of the tables that the log does not tell
makes sure that it was the snapshot that brought it.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.live import Live
from integration.chain.mariadb import MariaDB
from integration.chain.pipeline import Follower
from integration.chain.postgres import Postgres
from integration.chain.process import ChainError, wait_until
from integration.chain.registry import Registry
from integration.chain.sources import MariadbSource, PostgresSource
from integration.record import messages
from integration.workloads.bank import Bank, Banks

pytestmark = pytest.mark.long

SNAPSHOT_SECONDS_MAX = 300.0
_LOOK_SECONDS = 0.5
NAME = "snapshots"
SIGNALLED = ("incremental", "blocking")
#: Accounts that are closed while no connector sees it.
CLOSED = ("7", "8")
_SIGNAL = (
    "INSERT INTO {place}.signals VALUES"
    ' (\'{kind}\', \'execute-snapshot\', \'{{"type": "{kind}", "data-collections": ["{place}.accounts"]}}\')'
)


@dataclass(frozen=True)
class Told:
    """What was found when all was still after each form of a snapshot, and at the end.

    Attributes:
        differences: of each form, where mirrors differed from the databases behind it.
        live: the mirrors that were followed.
        swept: mirrors of the same topics with `snapshot_sweep`, made of them at the end.
    """

    differences: dict[str, dict[str, Any]]
    live: Live
    swept: Live


@pytest.fixture(scope="module")
def told(
    postgres: Postgres,
    mariadb: MariaDB,
    kafka: Kafka,
    registry: Registry,
    connect: Connect,
    folder: Callable[[str], Path],
) -> Iterator[Told]:
    """Follow both databases through every form of a snapshot."""
    banks = Banks(
        [
            Bank(PostgresSource(postgres, NAME), f"{NAME}_pg", kafka, registry, connect),
            Bank(MariadbSource(mariadb, NAME, kafka), f"{NAME}_my", kafka, registry, connect),
        ]
    )
    for bank in banks.all:
        bank.open(_signalled(bank))
    banks.deliver()
    pipeline = banks.pipeline(folder("snapshots"))
    follower = Follower(pipeline)
    follower.start()
    found = {}
    try:
        for form in ("initial", "incremental", "blocking", "place lost"):
            if form in SIGNALLED:
                _by_signal(banks, form)
            if form == "place lost":
                _after_a_loss(banks)
            banks.deliver()
            follower.catch_up()
            found[form] = Live(pipeline, {"tables": []}, banks.ask).differences()
        live = Live(pipeline, follower.stop(), banks.ask)
        sweeping = banks.pipeline(folder("swept"), {"defaults": {"snapshot_sweep": True}})
        yield Told(found, live, Live(sweeping, sweeping.run_once(), banks.ask))
    finally:
        follower.kill()
        banks.close()


def _signalled(bank: Bank) -> dict[str, str]:
    """What makes a connector take signals, and tell of its snapshots in a topic."""
    return {
        "signal.data.collection": f"{bank.source.place}.signals",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": _notes(bank),
    }


def _notes(bank: Bank) -> str:
    return f"{bank.name}.notifications"


def _by_signal(banks: Banks, kind: str) -> None:
    """Add a column, whose default no event tells, and have a snapshot taken while accounts go on to change."""
    for bank in banks.all:
        done = _completed(bank)
        with _working(bank):
            bank.run(
                f"ALTER TABLE {bank.accounts} ADD COLUMN by_{kind} varchar(20) DEFAULT 'from the snapshot'",
                _SIGNAL.format(place=bank.source.place, kind=kind),
            )
            _wait_for_snapshot(bank, done)


def _after_a_loss(banks: Banks) -> None:
    """Take the connectors' place in the log away, while accounts are closed and changed that they will not see."""
    for bank in banks.all:
        done = _completed(bank)
        bank.connect.stop_connector(bank.name)
        bank.run(f"DELETE FROM {bank.accounts} WHERE id IN ({', '.join(CLOSED)})")
        bank.work(1)
        bank.source.lose_place(bank.connect, bank.name)
        bank.connect.resume(bank.name)
        _wait_for_snapshot(bank, done)
        bank.work(1)


@contextmanager
def _working(bank: Bank) -> Iterator[None]:
    """Let a bank work, in a thread of its own, for as long as something else is done."""
    enough = threading.Event()

    def work() -> int:
        rounds = 0
        while not enough.wait(0.1):
            bank.work(1)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(max_workers=1) as pool:
        rounds = pool.submit(work)
        try:
            yield
        finally:
            enough.set()
    assert rounds.result() > 0


def _wait_for_snapshot(bank: Bank, done: int) -> None:
    what = f"the snapshot of {bank.name} is complete"
    wait_until(what, lambda: _completed(bank) > done, SNAPSHOT_SECONDS_MAX, _LOOK_SECONDS)


def _completed(bank: Bank) -> int:
    """How many snapshots of whole tables the connector says that it has completed."""
    try:
        notes = [message.value() or b"" for message in messages(bank.kafka.bootstrap, _notes(bank))]
    except ChainError:
        return 0
    return sum(b"COMPLETED" in text and b"TABLE_SCAN_COMPLETED" not in text for text in notes)


@pytest.mark.parametrize("form", ["initial", *SIGNALLED])
def test_a_snapshot_while_writes_go_on(told: Told, form: str) -> None:
    """It brings what no event told, and no row goes back to what it was."""
    assert told.differences[form] == {}


def test_a_new_snapshot_after_the_place_in_the_log_was_lost(told: Told) -> None:
    """Changes in the gap come with the new snapshot; rows that were deleted in it stay, as no message tells of them."""
    ghosts = dict.fromkeys(CLOSED, "only in the mirror")

    assert told.differences["place lost"] == dict.fromkeys(told.live.mirrors, ghosts)


def test_a_sweep_ends_what_was_deleted_meanwhile(told: Told) -> None:
    """With `snapshot_sweep` no row is left that the new snapshot did not show, and none is gone that it did."""
    assert told.swept.faults() == {}
    assert told.swept.unequal() == {}


def test_all_of_it_is_accounted_for(told: Told) -> None:
    """Nothing is held, nothing is twice in raw, and the run ended well."""
    found = told.live.faults()

    assert found.keys() == {"differences"}
    assert told.live.unequal() == {}
