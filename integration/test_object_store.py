"""Mirrors in an S3-compatible store behind a REST catalog, as in production, instead of files behind SQLite."""

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.chain.connect import Connect
from integration.chain.downloads import Parts
from integration.chain.events import change, create_topic, producer, send
from integration.chain.kafka import Kafka
from integration.chain.live import Live
from integration.chain.pipeline import Follower, Pipeline
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry
from integration.chain.rest_catalog import RestCatalog
from integration.chain.sources import PostgresSource
from integration.workloads.bank import Bank, Banks

pytestmark = pytest.mark.long


def _bundle(parts: Parts) -> Path:
    """The library that Iceberg needs for S3."""
    (bundle,) = parts.spark.glob("iceberg-aws-bundle-*.jar")
    return bundle


def test_a_mirror_in_an_object_store(
    parts: Parts,
    postgres: Postgres,
    kafka: Kafka,
    registry: Registry,
    connect: Connect,
    rest_catalog: RestCatalog,
    folder: Callable[[str], Path],
) -> None:
    """It follows the database, `status` and `verify` read it, and all of its files are in the store."""
    banks = Banks([Bank(PostgresSource(postgres, "store"), "store", kafka, registry, connect)])
    banks.open()
    place = folder("object-store")
    catalog = {"catalog": dict(rest_catalog.client_properties)}
    pipeline = banks.pipeline(place, catalog, spark={"spark.driver.extraClassPath": str(_bundle(parts))})
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.wait_for_progress()
        banks.work()
        banks.deliver()
        follower.catch_up()
        live = Live(pipeline, follower.stop(), banks.ask)
    finally:
        follower.kill()
        banks.close()

    assert live.faults() == {}
    assert live.unequal() == {}
    assert [path.name for path in place.rglob("*.parquet")] == []


def test_a_library_for_s3_may_be_given_as_a_jar(
    parts: Parts, kafka: Kafka, rest_catalog: RestCatalog, folder: Callable[[str], Path]
) -> None:
    """As Iceberg's own documentation says: with `spark.jars`, or with `spark.jars.packages`, which ends there."""
    create_topic(kafka.bootstrap, "jar.shop.things")
    send(producer(kafka.bootstrap), "jar.shop.things", [change("c", 1, "one", 100)])
    table = {"topic": "jar.shop.things", "mirror": "jar.things"}
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    catalog = {"catalog": dict(rest_catalog.client_properties)}
    pipeline = Pipeline.write(folder("jar"), source, [table], catalog, {"spark.jars": str(_bundle(parts))})

    assert pipeline.run("run").returncode == 0
