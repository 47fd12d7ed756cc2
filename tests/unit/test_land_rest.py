"""What lands while nothing can be folded, as while the registry is down or a contract cannot be followed."""

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from cdc_materializer import pipeline
from cdc_materializer.errors import (
    BatchBlocked,
    CdcError,
    ContractInvalid,
    OffsetRegression,
    PositionRegression,
    RegistryUnavailable,
    SchemaRefused,
    SchemaReplaced,
    TruncateStopped,
)
from cdc_materializer.line import quarantine
from cdc_materializer.offsets import Offsets, Span


def _topic(
    monkeypatch: pytest.MonkeyPatch,
    batches: int,
    is_over: Any,  # noqa: ANN401
    why: type[CdcError] = RegistryUnavailable,
) -> tuple[Any, list[int]]:
    """A line over a topic of so many messages, a batch each, none of which can be folded; and what has landed."""
    landed: list[int] = []

    def plan(*_: object) -> Span:
        return Span("t", Offsets({0: len(landed)}), Offsets({0: min(len(landed) + 1, batches)}))

    def land(*_: object) -> None:
        landed.append(len(landed))

    def fold(*_: object, **__: object) -> NoReturn:
        raise why("It is down.", "Start it.")

    monkeypatch.setattr(pipeline, "load", lambda _: SimpleNamespace(raw=None, mirror=None, quarantine=None))
    monkeypatch.setattr(pipeline, "plan_landing", plan)
    monkeypatch.setattr(pipeline, "land", land)
    monkeypatch.setattr(pipeline, "fold_next", fold)
    lake = SimpleNamespace(load=lambda _: None)
    mirror = SimpleNamespace(raw="shop.t__raw", quarantine="shop.t__quarantine")
    line = SimpleNamespace(mirror=mirror, lake=lake, is_over=lambda: is_over(landed), follows_aliases=False)
    return line, landed


@pytest.mark.parametrize(
    "why", [RegistryUnavailable, ContractInvalid, BatchBlocked, PositionRegression, TruncateStopped, SchemaReplaced]
)
def test_everything_lands_while_the_mirror_waits(monkeypatch: pytest.MonkeyPatch, why: type[CdcError]) -> None:
    """For the registry, or for what somebody has to mend or to decide; the topic may lose its messages one day."""
    line, landed = _topic(monkeypatch, 5, lambda _: False, why)

    with pytest.raises(why):
        pipeline.advance(line, SimpleNamespace())  # type: ignore[arg-type]

    assert landed == [0, 1, 2, 3, 4]


def test_no_further_batch_lands_when_the_run_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked to stop, or its deadline has come: millions of messages may be left, and raw says where to go on."""
    line, landed = _topic(monkeypatch, 5, lambda landed: len(landed) == 2)

    with pytest.raises(RegistryUnavailable):
        pipeline.advance(line, SimpleNamespace())  # type: ignore[arg-type]

    assert landed == [0, 1]


def test_a_topic_that_lost_its_end_lands_nothing_though_the_mirror_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That the table stopped for it is asked for, for it may have grown again; and if it is new, it is noted."""
    line, landed = _topic(monkeypatch, 5, lambda _: False)
    noted: list[str] = []

    def load(_: object) -> NoReturn:
        raise SchemaRefused("A column cannot be renamed.", "Mend it.")

    def plan(*arguments: object) -> NoReturn:
        assert arguments[-1] == frozenset({0})
        raise OffsetRegression("It lost its end.", "Accept it.", (0, 3))

    monkeypatch.setattr(pipeline, "load", load)
    monkeypatch.setattr(pipeline, "plan_landing", plan)
    monkeypatch.setattr(quarantine, "rewound_topics", lambda *_: frozenset({0}))
    monkeypatch.setattr(quarantine, "_note", lambda _line, _tables, code, _place: noted.append(code))

    with pytest.raises(OffsetRegression):
        pipeline.advance(line, SimpleNamespace())  # type: ignore[arg-type]

    assert (noted, landed) == (["OFFSET_REGRESSION"], [])
