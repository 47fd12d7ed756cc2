"""`cdcm replay --from kafka` on a real broker: what raw lacks is read from it, between marks of transactions too."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cdc_materializer.names import TableName
from integration.chain.events import change, create_topic, forget_before, producer, send
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Pipeline

#: Their topics: written in transactions; likewise, and its head removed later; compacted.
WRITTEN, FORGOTTEN, COMPACTED = "refill.written", "refill.forgotten", "refill.compacted"


def _write(kafka: Kafka, topic: str) -> None:
    """Four transactions of two rows, the third of them aborted: 0, 1 and a mark, 3, 4 and a mark, and so on."""
    sender = producer(kafka.bootstrap, transactional_id=topic)
    sender.init_transactions()
    for number in range(4):
        sender.begin_transaction()
        rows = [2 * number, 2 * number + 1]
        send(sender, topic, [change("c", row, f"row {row}", 100 + row) for row in rows])
        if number == 2:
            sender.abort_transaction()
        else:
            sender.commit_transaction()


def _cut(pipeline: Pipeline, mirror: str) -> None:
    """Another engine deletes messages of raw."""
    catalog = pipeline.config.catalog
    lake = SqlCatalog(catalog.name, uri=f"sqlite:///{catalog.sqlite_path}", init_catalog_tables="false")
    lake.load_table(str(TableName.parse(mirror).raw)).delete("offset < 4")


def _offsets(pipeline: Pipeline, mirror: str) -> list[int]:
    return sorted(row["offset"] for row in pipeline.raw(mirror))


@pytest.mark.long
def test_what_raw_lacks_is_read_from_the_broker(kafka: Kafka, folder: Callable[[str], Path]) -> None:
    """Holes of transactions lack nothing; a head that is gone and a compacted topic are refused, with the offsets."""
    for topic in (WRITTEN, FORGOTTEN, COMPACTED):
        create_topic(kafka.bootstrap, topic, {"cleanup.policy": "compact"} if topic == COMPACTED else None)
        _write(kafka, topic)
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    tables = [{"topic": topic, "mirror": topic, "records_max": 3} for topic in (WRITTEN, FORGOTTEN, COMPACTED)]
    pipeline = Pipeline.write(folder("refill"), source, tables)
    assert pipeline.run_once()["exit_code"] == 0
    for topic in (WRITTEN, FORGOTTEN, COMPACTED):
        assert _offsets(pipeline, topic) == [0, 1, 3, 4, 9, 10]
        _cut(pipeline, topic)
    forget_before(kafka.bootstrap, FORGOTTEN, 2)

    done = pipeline.run("replay", WRITTEN, FORGOTTEN, COMPACTED, "--from", "kafka", "--publish")

    assert done.stdout, done.stderr
    written, forgotten, compacted = json.loads(done.stdout)["tables"]
    assert (written["error"], written["refilled"], written["equal"], written["published"]) == (None, 3, True, True)
    assert _offsets(pipeline, WRITTEN) == [0, 1, 3, 4, 9, 10]
    assert {row["id"] for row in pipeline.rows(WRITTEN)} == {0, 1, 2, 3, 6, 7}
    assert "at 0/0 to 0/1, and the topic" in forgotten["error"]["message"]
    assert "its head is gone (before 0/2)" in forgotten["error"]["message"]
    assert "is compacted" in compacted["error"]["message"]
    assert [_offsets(pipeline, topic) for topic in (FORGOTTEN, COMPACTED)] == [[4, 9, 10]] * 2
    proven = pipeline.run("verify", "--table", WRITTEN)
    assert (proven.returncode, json.loads(proven.stdout)["tables"][0]["equal"]) == (0, True), proven.stderr
