"""Records a history as it stands: topics, their schemas, and the database's own answer, in the form of recorded topics.

What is written is the format of design §4.3, which `cdcm run` reads in place of a broker and a registry, so that any
surprising history becomes a golden case:

    <topic>.jsonl                     one message a line
    schemas/ids/<id>.json             what the registry answers for the ids in the messages
    schemas/subjects/<subject>/versions/<n>.json
    truth/<table>.jsonl               the rows, each column as the database writes it as text
    truth/<table>.schema.json         names, types, key and replica identity
    truth/offsets.json                the next offset of each partition when the database was in that state

From a running chain: ``python -m integration.record FOLDER --bootstrap HOST:PORT --topics REGEX --registry URL``; tests
call `record` and `record_truth`, some of them only where the environment has CDCM_RECORD=FOLDER.
"""

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cdc_materializer.testing import recorded_line
from integration.chain.mariadb_truth import answer as mariadb_answer
from integration.chain.postgres_truth import answer as postgres_answer
from integration.chain.process import ChainError
from integration.chain.sql import Session
from integration.chain.web import request

#: The variable that names a folder for the histories of tests that are worth a recording.
_ASKED = "CDCM_RECORD"
Truth = tuple[Callable[[], Session], Sequence[str]]
_ANSWER_SECONDS = 30.0
#: A message that a schema registry's client framed: a zero, then the schema's id in four bytes.
_MAGIC, _FRAME_BYTES = 0, 5


def record(folder: Path, bootstrap: str, topics: Sequence[str], registry_url: str | None = None) -> None:
    """Record whole topics, from their first message to their ends as they are now, and every schema that they name.

    Args:
        folder: made where it is missing; files in it are written anew.
        bootstrap: the broker's address.
        topics: their names.
        registry_url: a registry on this machine that speaks Confluent's REST form; None where messages have no ids.

    Raises:
        ChainError: a topic is missing or cannot be read to its end, or the registry does not know an id.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ids: set[int] = set()
    for topic in topics:
        with (folder / f"{topic}.jsonl").open("w", encoding="utf-8") as file:
            for message in messages(bootstrap, topic):
                ids.update(_schema_ids(message))
                file.write(_line(message) + "\n")
    if registry_url is not None:
        _record_schemas(folder / "schemas", registry_url, ids, topics)


def record_truth(
    folder: Path, session: Session, tables: Sequence[str], offsets: Mapping[str, Mapping[int, int]]
) -> None:
    """Record what the database answers for each table now, and how long the topics were then.

    Args:
        folder: where to; one ``truth`` folder a moment.
        session: of PostgreSQL or MariaDB; nothing may be written meanwhile.
        tables: with the name of their schema in PostgreSQL.
        offsets: next offset of each partition, by topic; see `ends`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer = postgres_answer if session.program == "psql" else mariadb_answer
    for table in tables:
        schema, rows = answer(session, table)
        name = table.rpartition(".")[2]
        _write(folder / f"{name}.schema.json", schema)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    _write(folder / "offsets.json", offsets)


def record_if_asked(name: str, bootstrap: str, topics: Sequence[str], registry_url: str, truth: Truth) -> None:
    """Record a history that is over, as ``name`` in the folder that CDCM_RECORD names; nothing where it names none.

    Args:
        name: of the recording's folder.
        bootstrap: the broker's address.
        topics: their names.
        registry_url: see `record`.
        truth: opens a session of the database, and the tables that it is asked about.
    """
    if _ASKED not in os.environ:
        return
    folder = Path(os.environ[_ASKED]) / name
    record(folder, bootstrap, topics, registry_url)
    open_session, tables = truth
    with open_session() as session:
        record_truth(folder / "truth", session, tables, ends(bootstrap, topics))


def ends(bootstrap: str, topics: Iterable[str]) -> dict[str, dict[int, int]]:
    """Return the next offset of each partition, by topic."""
    from confluent_kafka import TopicPartition

    consumer = _consumer(bootstrap)
    try:
        return {
            topic: {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_SECONDS)[1]
                for partition in _partitions(consumer, topic)
            }
            for topic in topics
        }
    finally:
        consumer.close()


def topics_like(bootstrap: str, pattern: str) -> list[str]:
    """List the broker's topics whose whole name matches a regular expression."""
    consumer = _consumer(bootstrap)
    try:
        found = consumer.list_topics(timeout=_ANSWER_SECONDS).topics
        return sorted(topic for topic in found if re.fullmatch(pattern, topic))
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Any:  # noqa: ANN401 - confluent-kafka ships no types
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": "record", "enable.auto.commit": False}
    # Aborted messages are none; and the end of a partition is an event, not a pause.
    return Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0})


def _partitions(consumer: Any, topic: str) -> list[int]:  # noqa: ANN401 - as above
    found = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    if found.error is not None:
        message = f"there is no topic {topic}"
        raise ChainError(message)
    return sorted(found.partitions)


def messages(bootstrap: str, topic: str) -> Iterator[Any]:
    """Give a topic's messages, partition by partition, up to the ends."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    consumer = _consumer(bootstrap)
    try:
        for partition in _partitions(consumer, topic):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(_ANSWER_SECONDS)
                if message is None:
                    what = f"{topic}[{partition}] has an end that is not reached"
                    raise ChainError(what)
                if message.error() is None:
                    yield message
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    what = f"{topic}[{partition}] cannot be read: {message.error().name()}"
                    raise ChainError(what)
    finally:
        consumer.close()


def _line(message: Any) -> str:  # noqa: ANN401 - as above
    kind, millis = message.timestamp()
    line = recorded_line(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        datetime.fromtimestamp(millis / 1000, UTC),
        message.headers(),
    )
    # librdkafka counts 1 and 2 where Kafka's protocol, and Spark, count 0 (the producer's time) and 1 (the broker's).
    return json.dumps({**json.loads(line), "timestampType": max(kind - 1, 0)})


def _schema_ids(message: Any) -> Iterator[int]:  # noqa: ANN401 - as above
    for part in (message.key(), message.value()):
        if part is not None and len(part) >= _FRAME_BYTES and part[0] == _MAGIC:
            yield int.from_bytes(part[1:_FRAME_BYTES], "big")


def _record_schemas(folder: Path, registry_url: str, ids: Iterable[int], topics: Sequence[str]) -> None:
    where = urlsplit(registry_url)

    def ask(path: str) -> Any:  # noqa: ANN401 - whatever the registry answers
        answer = request("GET", where.port or 80, f"{where.path}{path}")
        if not answer.ok:
            message = f"the registry answers {answer.status} to {path}"
            raise ChainError(message)
        return answer.json()

    for number in sorted(ids):
        _write(folder / "ids" / f"{number}.json", ask(f"/schemas/ids/{number}"))
    for subject in ask("/subjects"):
        if subject.removesuffix("-key").removesuffix("-value") in topics:
            path = f"/subjects/{quote(subject, safe='')}/versions"
            for version in ask(path):
                _write(folder / "subjects" / subject / "versions" / f"{version}.json", ask(f"{path}/{version}"))


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Record topics of a running chain; the truth needs a session, so that part is for tests."""
    parser = argparse.ArgumentParser(description="Record topics and their schemas.")
    parser.add_argument("folder", type=Path, help="where to")
    parser.add_argument("--bootstrap", required=True, help="the broker's address")
    parser.add_argument("--topics", required=True, help="a regular expression that whole names of topics match")
    parser.add_argument("--registry", help="the registry's address, in Confluent's REST form")
    given = parser.parse_args()
    record(given.folder, given.bootstrap, topics_like(given.bootstrap, given.topics), given.registry)


if __name__ == "__main__":
    main()
