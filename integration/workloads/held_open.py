"""A run that starts every part of the chain and then waits for ever; test_harness.py kills it.

When all of it runs, the run's mark and its folder are written into the file that HELD_OPEN names.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from integration.chain.connect import Connect
from integration.chain.events import change, create_topic, producer, send
from integration.chain.kafka import Kafka
from integration.chain.leftovers import MARK
from integration.chain.mariadb import MariaDB
from integration.chain.pipeline import Follower, Pipeline
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry
from integration.chain.rest_catalog import RestCatalog

TOPIC = "held.shop.things"


def test_everything_is_up(
    kafka: Kafka,
    registry: Registry,
    connect: Connect,
    postgres: Postgres,
    mariadb: MariaDB,
    rest_catalog: RestCatalog,
    folder: Callable[[str], Path],
) -> None:
    """With a session in each database, a run that follows a topic, and the store that the catalog brings."""
    assert all(part.process.runs() for part in (registry, connect, rest_catalog))
    create_topic(kafka.bootstrap, TOPIC)
    send(producer(kafka.bootstrap), TOPIC, [change("c", 1, "one", 100)])
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    place = folder("held")
    follower = Follower(Pipeline.write(place, source, [{"topic": TOPIC, "mirror": "held.things"}]))
    with postgres.session() as one, mariadb.session() as other:
        follower.start()
        follower.catch_up()
        assert [one.value("SELECT 1"), other.value("SELECT 1")] == ["1", "1"]
        told = Path(os.environ["HELD_OPEN"])
        told.with_suffix(".part").write_text(f"{os.environ[MARK]}\n{place.parent}\n", encoding="utf-8")
        told.with_suffix(".part").rename(told)
        signal.pause()
