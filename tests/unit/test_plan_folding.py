"""Where the folding of raw begins: at its first message of each partition, and nowhere behind its end."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import functions

from cdc_materializer import pipeline
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span


def test_a_partition_of_which_nothing_is_to_be_folded_yet_begins_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay goes as far as the mirror is; the partition's first messages have landed since, the first one at 4."""
    found = [{"partition": 0, "offset": 2}, {"partition": 1, "offset": 4}]
    rows = SimpleNamespace(groupBy=lambda _: SimpleNamespace(agg=lambda _: SimpleNamespace(collect=lambda: found)))
    line: Any = SimpleNamespace(lake=SimpleNamespace(rows=lambda _: rows), table=SimpleNamespace(topic="t"))
    raw: Any = SimpleNamespace(marker=Marker("p", "b", "t", None, Offsets({0: 9, 1: 0}), {}, 1, None, {}))
    # Spark's functions want a session, and what this one asks for is found above.
    monkeypatch.setattr(functions, "min", lambda _: SimpleNamespace(alias=lambda _: None))

    assert pipeline.plan_folding(line, raw, None) == Span("t", Offsets({0: 2, 1: 0}), Offsets({0: 9, 1: 0}))
