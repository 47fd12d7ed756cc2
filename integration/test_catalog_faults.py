"""A REST catalog that answers 503 before or after it did what it was asked, or never answers: rows are there once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.errors import EXIT_DONE, EXIT_LAKE, EXIT_UNKNOWN
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from integration.chain.downloads import Parts
from integration.chain.pipeline import Pipeline
from integration.chain.proxy import Proxy, Trigger
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running

_BODY = b'{"error": {"message": "busy", "type": "ServiceUnavailableException", "code": 503}}'
#: What a catalog says that is overloaded, or a proxy before it that cannot reach it.
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY)
_COLUMNS = {"id": {"type": "int64", "optional": False}}


class _Topic:
    """A topic to which a row is added for each fault."""

    def __init__(self, folder: Path) -> None:
        self.rows = 0
        self._folder, self._topic = folder, TopicBuilder("shop.public.things")

    def add(self) -> None:
        """One row more."""
        self.rows += 1
        envelope = debezium_envelope("c", None, {"id": self.rows}, lsn=100 + self.rows)
        key, schema = connect_key_schema("t", _COLUMNS), connect_envelope_schema("t", _COLUMNS)
        self._topic.add(debezium_json({"id": self.rows}, key), debezium_json(envelope, schema))
        self._topic.write(self._folder)


def _publishes(request: bytes) -> bool:
    """Whether a request makes readers see a batch of the mirror."""
    return b"/tables/things HTTP" in request and b'"ref-name":"main"' in request


def _stages(request: bytes) -> bool:
    """Whether a request makes the branch on which a batch of the mirror is staged."""
    return b"/tables/things HTTP" in request and b'"ref-name":"cdcm_' in request


def _nothing() -> None:
    """What the server is done to: nothing; the answer is all."""


@pytest.mark.long
def test_a_catalog_that_is_busy_before_or_after_it_committed(parts: Parts, folder: Callable[[str], Path]) -> None:
    """Whatever it says and does, the exit code is right, the rows are there once, and the next run goes on."""
    catalog = RestCatalog(parts, folder("busy-catalog"))
    proxy = Proxy(catalog.port)
    place = folder("busy-pipeline")
    topic = _Topic(place / "recorded")
    with running("rest catalog (busy)", lambda: catalog), running("proxy", lambda: proxy):
        more = {"catalog": {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}"}}
        table = {"topic": "shop.public.things", "mirror": "shop.things"}
        pipeline = Pipeline.write(place, {"files": "recorded"}, [table], more)

        def run(trigger: Trigger | None = None) -> dict[str, Any]:
            topic.add()
            proxy.arm(trigger)
            document = pipeline.run_once()
            assert trigger is None or proxy.happened.is_set(), document
            proxy.arm(None)
            return document

        def is_whole() -> bool:
            raw = sorted(row["offset"] for row in pipeline.raw("shop.things"))
            rows = sorted(row["id"] for row in pipeline.rows("shop.things"))
            return raw == list(range(topic.rows)) and rows == list(range(1, topic.rows + 1))

        assert run()["exit_code"] == EXIT_DONE
        # Nothing of the batch is on its branch: no reader is concerned, so the outcome is no question.
        refused = run(Trigger(_stages, _nothing, "before", answer=BUSY + _BODY))
        assert (refused["exit_code"], len(pipeline.rows("shop.things"))) == (EXIT_LAKE, topic.rows - 1)
        assert "then run again" in refused["tables"][0]["error"]["message"]
        # The commit that readers would see is not there, and might still come: of a 503, too, Iceberg says that
        # nobody can tell.
        unknown = run(Trigger(_publishes, _nothing, "before", answer=BUSY + _BODY))
        assert (unknown["exit_code"], len(pipeline.rows("shop.things"))) == (EXIT_UNKNOWN, topic.rows - 2)
        # It is there, whatever the answer was; and the batches before have come with it.
        assert run(Trigger(_publishes, _nothing, "after", answer=BUSY + _BODY))["exit_code"] == EXIT_DONE
        assert is_whole()
        # It happened, and then nobody answers any more: not known, and nothing is deleted.
        assert run(Trigger(_publishes, catalog.kill, "after"))["exit_code"] == EXIT_UNKNOWN
        catalog.start()
        catalog.ready()
        assert is_whole()
        assert run()["exit_code"] == EXIT_DONE
        assert is_whole()
        assert pipeline.run("verify").returncode == EXIT_DONE
