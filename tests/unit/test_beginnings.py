"""A rebuilt table that is put on top of a newer one tells where it began, and which contract has judged its rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.invariants import broken_in
from cdc_materializer.lake.line import markers, summaries
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.proof.proof import judged_otherwise
from cdc_materializer.testing.lake import delete_statement
from tests.model.lake_contract import again, append, create, marker
from tests.unit.memory import NAME, MemoryBench


@pytest.mark.parametrize("rows", [(), (("kept", ""),)], ids=["of nothing", "of rows"])
def test_a_beginning_is_published_with_what_goes_on_from_it(rows: tuple[tuple[str, str], ...]) -> None:
    """Each with its marker, in one commit; and the line is one that doctor finds nothing wrong with."""
    bench = MemoryBench()
    create(bench)
    append(bench, again(bench), "one", 5)
    beside = replace(bench.lake, branch="cdcm-replay-1")

    def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
        stage.execute(delete_statement(bench.lake, NAME, stage.branch, ["one"]))
        if rows:
            stage.append(bench.frame(rows))
        stage.begin(marker("r1", 4))
        stage.execute(delete_statement(bench.lake, NAME, stage.branch, ["kept"]))
        stage.append(bench.frame([("rebuilt", "")]))
        assert beside.load(NAME) is None, "nothing of it is there before all is"

    head = beside.publish(again(bench), marker("", 0), stage)
    found = beside.load(NAME)

    assert found is not None
    assert (bench.rows(found), bench.rows(again(bench))) == (["rebuilt"], ["one"])
    table = beside.iceberg(NAME)
    assert [told.batch for _, told in markers(table, head)] == ["r1", "", "one", "start"]
    every = summaries(table, head)
    below = [*(number for number, *_ in every[1:]), None]
    lines = [SnapshotLine(one[0], parent, 0, one[3]) for one, parent in zip(every, below, strict=True)]
    assert list(broken_in("t", lines, is_raw=False)) == []


def _line(*told: tuple[str, int, str | None, int | None]) -> list[Marker]:
    """Markers, newest first, of their batches, offsets, contracts and raw's snapshots."""
    every = [("made", 0, None, None), *told]
    return [
        Marker("shop", batch, "t", None, Offsets({0: at} if at else {}), {}, raw, contract, {})
        for batch, at, contract, raw in reversed(every)
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(_line(("m1", 1, "old", 1), ("m2", 2, "new", 2)), True, id="never rebuilt"),
        pytest.param(_line(("m1", 1, "new", 1), ("m2", 2, "new", 2)), False, id="one contract"),
        pytest.param(_line(("m1", 2, "old", 1), ("", 0, None, None), ("r1", 2, "new", 2)), False, id="rebuilt"),
        pytest.param(
            _line(("m1", 2, "old", 1), ("m2", 3, "old", 2), ("r1", 2, "new", 2), ("r2", 3, "new", 3)),
            False,
            id="put on top by an earlier version",
        ),
        pytest.param(
            _line(("m1", 1, "new", 1), ("m2", 2, "old", 2), ("", 1, "new", 1), ("r1", 2, "new", 3)),
            False,
            id="rebuilt from an offset",
        ),
        pytest.param(
            _line(("m1", 1, "old", 1), ("m2", 2, "old", 2), ("", 1, "old", 1), ("r1", 2, "new", 3)),
            True,
            id="rebuilt from an offset of an earlier contract",
        ),
    ],
)
def test_what_a_replay_has_judged_anew_was_not_judged_otherwise(line: Sequence[Marker], *, expected: bool) -> None:
    """Only batches of which the mirror still has rows count."""
    assert judged_otherwise(line, "new") is expected
