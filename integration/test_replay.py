"""`cdcm replay --publish` while a database goes on and `cdcm run --follow` lands and publishes what it does."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.live import Live
from integration.chain.pipeline import Follower
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry
from integration.chain.sources import PostgresSource
from integration.workloads.bank import Bank, Banks

NAME = "replayed"
#: Between two rounds of what the database does: a follower publishes a few of them at a time.
_PAUSE_SECONDS = 0.5


@pytest.mark.long
def test_a_replay_under_live_traffic_ends_equal(
    postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect, folder: Callable[[str], Path]
) -> None:
    """The rebuilt mirror is swapped in with everything that came meanwhile: nothing is lost, twice or old."""
    bank = Bank(PostgresSource(postgres, NAME), NAME, kafka, registry, connect)
    banks = Banks([bank])
    banks.open()
    pipeline = banks.pipeline(folder(NAME))
    follower = Follower(pipeline)
    follower.start()
    is_over, worked = threading.Event(), 0

    def work() -> None:
        nonlocal worked
        while not is_over.wait(_PAUSE_SECONDS):
            bank.work(1)
            worked += 1

    traffic = threading.Thread(target=work, daemon=True)
    try:
        follower.wait_for_progress()
        traffic.start()
        follower.wait_for_progress()
        before = worked
        done = pipeline.run("replay", bank.mirror, "--publish")
        after = worked
        follower.wait_for_progress()
        is_over.set()
        traffic.join()
        banks.deliver()
        follower.catch_up()
        live = Live(pipeline, follower.stop(), banks.ask)
    finally:
        is_over.set()
        follower.kill()
        banks.close()

    assert done.stdout, done.stderr
    (told,) = json.loads(done.stdout)["tables"]
    assert (done.returncode, told["error"], told["published"]) == (0, None, True)
    assert after > before, "nothing was written while the mirror was rebuilt"
    assert live.faults() == {}
    assert live.unequal() == {}
