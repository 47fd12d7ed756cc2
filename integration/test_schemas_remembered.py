"""What a table's messages were decoded by, remembered in a REST catalog, which compares no properties."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.errors import EXIT_DONE
from cdc_materializer.names import TableName
from cdc_materializer.registry.bound import PREFIX, Bound
from cdc_materializer.testing import (
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    debezium_envelope,
)
from integration.chain.downloads import Parts
from integration.chain.pipeline import Pipeline
from integration.chain.proxy import Proxy, Trigger
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running
from tests.cases.schemas import write_schemas

_TOPIC, _RAW = "shop.public.things", TableName.parse("shop.things").raw
_ANSWER_SECONDS_MAX = 60
#: A schema that another process has met, and what it keeps of it.
_THEIRS = {f"{PREFIX}id:00000063": "1f9bfe8da7f6289d"}


def _write(catalog: RestCatalog, properties: dict[str, str]) -> None:
    """Set properties of raw as another client does, at once."""
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": properties}]}
    request = urllib.request.Request(  # noqa: S310 - the catalog's own address
        f"{catalog.url}/v1/namespaces/shop/tables/{_RAW.name}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS_MAX) as answer:  # noqa: S310
        assert answer.status == 200


@pytest.mark.long
def test_what_two_processes_meet_at_once_is_remembered_of_both(parts: Parts, folder: Callable[[str], Path]) -> None:
    """One is overtaken between its look at raw's properties and its commit of more of them."""
    catalog, place = RestCatalog(parts, folder("remembered-catalog")), folder("remembered-pipeline")
    proxy, topic = Proxy(catalog.port), TopicBuilder(_TOPIC)
    key, row = avro_key_schema(_TOPIC, {"id": "long"}), avro_envelope_schema(_TOPIC, {"id": "long"})
    write_schemas(place / "schemas", {1: key, 2: row})
    value = confluent_avro(2, row, debezium_envelope("c", None, {"id": 1}, lsn=100))
    topic.add(confluent_avro(1, key, {"id": 1}), value)
    topic.write(place / "recorded")
    overtaken: list[bytes] = []

    def is_overtaken(request: bytes) -> bool:
        if not overtaken and b'"set-properties"' in request and PREFIX.encode() in request:
            overtaken.append(request)
            _write(catalog, _THEIRS)
        return False

    with running("rest catalog (remembered)", lambda: catalog), running("proxy", lambda: proxy):
        more = {
            "catalog": {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}"},
            "registry": {"files": "schemas"},
        }
        table = {"topic": _TOPIC, "mirror": "shop.things"}
        pipeline = Pipeline.write(place, {"files": "recorded"}, [table], more)
        proxy.arm(Trigger(is_overtaken, lambda: None))

        document = pipeline.run_once()

        assert document["exit_code"] == EXIT_DONE, document
        assert overtaken
        raw = open_tables(pipeline.config.catalog).load(_RAW)
        assert raw is not None
        bound = Bound.of(raw.metadata.properties, str(_RAW))
        assert bound.digests.keys() == {f"id:000000{number}" for number in ("01", "02", "63")}
        assert [one["id"] for one in pipeline.rows("shop.things")] == [1]
