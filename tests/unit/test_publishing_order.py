"""The order in which a batch's commits are made: whichever is the last one before a kill, the next run can end it."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer import pipeline
from cdc_materializer.batch.facts import Facts
from cdc_materializer.batch.steps import Decided
from cdc_materializer.config import TableConfig
from cdc_materializer.errors import CommitConflict, ContractBlocked
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line import audit, history, quarantine, stops, tally
from cdc_materializer.line.line import Line, Tables, new_marker
from cdc_materializer.marker.sweeps import SweepPlan
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.schema.schema import SchemaPlan, TableSchema

_NAME, _TOPIC = TableName.parse("shop.orders"), "shop.public.orders"
_SPAN = Span(_TOPIC, Offsets({0: 3}), Offsets({0: 5}))


@dataclass
class _Lake:
    """Notes what is written, in the order in which it is."""

    done: list[str] = field(default_factory=list)

    def evolve(self, table: LakeTable, *_: object, **__: object) -> LakeTable:
        """Readers see other columns."""
        self.done.append("columns")
        return table

    def create(self, name: TableName, *_: object, **__: object) -> LakeTable:
        """Readers see an empty table."""
        self.done.append("mirror made")
        return replace(_table(name), is_empty=True)

    def publish(self, _: object, __: object, stage: Callable[[Any], None], before_visible: Callable[[], None]) -> int:
        """Readers see rows and marker."""
        stage(SimpleNamespace(tell=lambda _: None))
        before_visible()
        self.done.append("mirror")
        return 2


def _table(name: TableName) -> LakeTable:
    marker = new_marker(_line(_Lake()), Span(_TOPIC, _SPAN.start, _SPAN.start), "", None)
    return LakeTable(name, f"uuid of {name}", 1, marker, TableSchema(()), is_empty=False)


def _line(lake: object) -> Line:
    table = TableConfig.model_validate({"topic": _TOPIC, "mirror": str(_NAME), "history": True})
    stands_for: Any = lake
    return Line("shop", table, stands_for, None, None, stands_for)


def _decided(*, has_plan: bool) -> Decided:
    plan = SimpleNamespace(target=TableSchema(()), is_empty=not has_plan)
    decoders: Any = SimpleNamespace(plan=plan if has_plan else SchemaPlan(TableSchema(())), make_a_table=True)
    states: Any = None
    outcomes = {"upserted": 1, "quarantined": 1}
    return Decided(states, decoders, Facts(held=1), (), _SPAN, outcomes, {"CONTRACT": 1}, (), 1, snapshots=SweepPlan())


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> _Lake:
    """A lake, and what a batch does beside it, each of which notes itself there."""
    found = _Lake()

    def noting(name: str, answer: object = None) -> Callable[..., object]:
        def note(*_: object, **__: object) -> object:
            found.done.append(name)
            return answer

        return note

    held = _table(_NAME.quarantine)
    for owner, name, noted, answer in (
        (tally, "check", "messages counted", 2),
        (tally, "check_keys", "keys counted", None),
        (quarantine, "hold", "held", held),
        (stops, "asked_for", "may go on", None),
        (pipeline, "_stage", "staged", None),
        (audit, "audit", "audited", audit.Remarks(("many rows",))),
        (history, "keep", "history", None),
        (quarantine, "warn_of", "warned", held),
        (quarantine, "settle", "ended", None),
    ):
        monkeypatch.setattr(owner, name, noting(noted, answer))
    return found


#: What is held before the rows that lack it; history behind the audit and before the rows; what the rows end in
#: quarantine behind them. Ahead of all that, and only where nothing stops the batch, the columns that the rows need.
_ORDER = [
    *("messages counted", "keys counted", "held"),
    *("staged", "audited", "history", "mirror", "warned", "ended"),
]


@pytest.mark.parametrize(("mirror", "first"), [(True, "columns"), (False, "mirror made")])
def test_a_batchs_commits_are_made_in_the_order_in_which_a_kill_between_does_no_harm(
    lake: _Lake, *, mirror: bool, first: str
) -> None:
    """The mirror's comes behind everything that readers of its rows may ask for."""
    line = _line(lake)
    tables = Tables(_raw(line), _table(_NAME) if mirror else None, _table(_NAME.quarantine))

    done = pipeline.publish(line, _raw(line), tables, _decided(has_plan=True))

    assert lake.done == ["may go on", first, *_ORDER]
    assert done is not None
    assert (done.mirror_snapshot, done.violations) == (2, {"CONTRACT": 2})


def _raw(line: Line) -> LakeTable:
    return replace(_table(_NAME.raw), marker=new_marker(line, _SPAN, "", None))


@pytest.mark.parametrize("step", ["warn_of", "settle"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_batch_that_readers_see_is_told_where_another_process_is_first_in_quarantine(
    step: str, lake: _Lake, monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    """The next look writes what follows from it there; not what a release ends, which has to be asked for again."""

    def lost(*_: object) -> None:
        raise CommitConflict("a", "b")

    monkeypatch.setattr(quarantine, step, lost)
    span = _SPAN if is_new else Span(_TOPIC, _SPAN.start, _SPAN.start)
    decided = replace(_decided(has_plan=True), span=span)
    line = _line(lake)
    tables = Tables(_raw(line), _table(_NAME), _table(_NAME.quarantine))

    with nullcontext() if is_new else pytest.raises(CommitConflict):
        assert pipeline.publish(line, _raw(line), tables, decided) is not None

    assert lake.done[-1] == ("mirror" if step == "warn_of" else "warned")


def test_a_batch_that_stops_is_told_in_quarantine_and_nowhere_else(
    lake: _Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it held is known to the next run; readers see nothing of it, not even its columns."""
    monkeypatch.setattr(stops, "asked_for", lambda *_: ContractBlocked("a", "b", ()))
    line = _line(lake)

    with pytest.raises(ContractBlocked):
        pipeline.publish(line, _raw(line), Tables(_raw(line), _table(_NAME), None), _decided(has_plan=True))

    assert lake.done == ["messages counted", "keys counted", "held"]
