"""Failures of the lake around landing: errors of ours with a remedy, and never a bug to report."""

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from cdc_materializer import pipeline
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.line import quarantine
from cdc_materializer.line.line import Tables
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.source import TopicState
from cdc_materializer.testing import JavaError

TOPIC = TopicState("t", None, Offsets({0: 0}), Offsets({0: 3}))


def _fail(*_: object, **__: object) -> NoReturn:
    raise JavaError("SparkException", "SocketTimeoutException")


@pytest.fixture
def line() -> Any:  # noqa: ANN401 - as much of one as is looked at before the lake fails
    """A line whose tables cannot be read."""
    lake = SimpleNamespace(load=lambda _: None, spark=None)
    return SimpleNamespace(mirror=TableName.parse("shop.orders"), lake=lake, is_over=lambda: False)


@pytest.mark.parametrize("step", ["rewound_topics", "noting_stops"])
def test_what_fails_before_the_rest_is_landed_is_the_lakes(
    line: Any,  # noqa: ANN401 - see the fixture
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lands behind a table that has stopped asks quarantine first."""
    monkeypatch.setattr(quarantine, "rewound_topics", lambda *_: frozenset())
    monkeypatch.setattr(quarantine, step, _fail)

    with pytest.raises(LakeUnavailable, match=r"shop\.orders"):
        pipeline.land_rest(line, TOPIC)


@pytest.mark.parametrize("step", ["land", "told_by_raw"])
def test_what_fails_at_landing_or_behind_it_is_the_lakes(
    line: Any,  # noqa: ANN401 - see the fixture
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Raw is written, and then asked which columns have got other names."""
    span = Span("t", TOPIC.beginnings, TOPIC.ends)
    quiet: dict[str, Any] = {
        "load": lambda _: Tables(None, None, None),
        "plan_landing": lambda *_: span,
        "land": lambda *_: None,
        step: _fail,
    }
    for name, made in quiet.items():
        monkeypatch.setattr(pipeline, name, made)
    monkeypatch.setattr(quarantine, "rewound_topics", lambda *_: frozenset())

    with pytest.raises(LakeUnavailable, match=r"shop\.orders"):
        pipeline.advance(line, TOPIC)
