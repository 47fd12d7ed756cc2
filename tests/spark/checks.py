"""What must be so of a golden case that has gone its way: what its expected.yaml says, and what always holds."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cdc_materializer.errors import CdcError
from cdc_materializer.report.models import ErrorInfo
from tests.spark.passages import CRASHED, RESENT, WHOLE, WHY, WHY_STOPS, Passage, State, plain

OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")


def check(passage: Passage) -> None:
    """After each step the mirror, the counts and the quarantine are those of expected.yaml."""
    messages, is_whole = 0, True
    assert len(passage.states) == len(passage.case.expected), "expected.yaml has one document a step"
    publishes = passage.has_mirror and not all(one.get("error") for one in passage.case.expected)
    assert passage.has_crashed or passage.way != CRASHED or not publishes, "no batch was done twice"
    steps = zip(passage.case.steps, passage.states, passage.sent, passage.case.expected, strict=True)
    for step, state, stored, expected in steps:
        sent = sum(1 for message in step.get("messages", []) if "skip" not in message)
        messages += 2 * sent if passage.way == RESENT else sent
        _check_stop(state, expected)
        _check_rows(state, expected, bare=passage.way == RESENT)
        if passage.way != RESENT:
            _check_counts(state, expected, passage)
            _check_quarantine(state, expected, cut=passage.is_cut)
            _check_history(state, expected)
        wanted = messages if passage.way == RESENT else expected.get("raw", messages)
        assert len(state.raw) == wanted, "once each, in raw"
        # Of a topic that was made again, or lost what was read already, raw has more.
        is_whole = is_whole and not {"topic", "forget"} & set(step)
        assert not is_whole or wanted != messages or Counter(state.raw) == Counter(stored), "as they came, in raw"
        assert state.unsound == [], "what must hold of the tables' snapshots"
        assert state.others == [], "snapshots of ours that are taken for another program's"
        _check_verify(state, expected, passage)
        _check_replay(state, expected, passage)
    _check_fates(passage)


def _check_verify(state: State, expected: Mapping[str, Any], passage: Passage) -> None:
    """The mirror is what a fold of all of raw gives, or the case says why not; it may stop as its runs do."""
    found = state.verified
    if found is None:
        return
    stopped = found.error.code if found.error is not None else None
    if "verify_differs" in passage.case.data:
        assert (found.equal, stopped) == (False, None), "it is equal: take `verify_differs` out of the case"
        return
    assert found.equal or stopped == expected.get("error", "none"), found


def _check_replay(state: State, expected: Mapping[str, Any], passage: Passage) -> None:
    """A rebuilt mirror is the live one, and holds the same, or the case says why not; it may stop as its runs do."""
    found = state.replayed
    if found is None:
        return
    if "replay_differs" in passage.case.data:
        assert not found.equal, "it is equal: take `replay_differs` out of the case"
        assert found.error is None, found
        return
    stopped = found.error.code if found.error is not None else None
    if stopped is not None and stopped == expected.get("error"):
        return
    assert (found.equal, found.error) == (True, None), found
    assert found.held_rebuilt == found.held_live, found
    assert found.told_rebuilt == found.told_live, found


def _check_fates(passage: Passage) -> None:
    """What `why` tells of the messages is what the runs counted, and what the case says of each."""
    told, last = passage.states[-1].fates, passage.case.expected[-1]
    if told is None:
        return
    if WHY_STOPS in passage.case.data:
        assert isinstance(told, CdcError), "it tells: take `why_stops` out of the case"
        assert ErrorInfo.of(told).code == last.get("error"), told
        return
    assert not isinstance(told, CdcError), told
    runs = [state.run for state in passage.states]
    counted = {name: sum(getattr(run, name) for run in runs) for name in OUTCOMES}
    found = {name: sum(1 for *_, outcome in told if outcome == name) for name in OUTCOMES}
    # What was held and read once more was counted as held before.
    counted["quarantined"] -= sum(counted.values()) - len(told)
    if ("why_differs_cut" if passage.is_cut else "why_differs") in passage.case.data:
        assert found != counted, "it holds: take what says that it differs out of the case"
    else:
        assert found == counted
    wanted = last.get(WHY)
    if wanted is not None and passage.way == WHOLE:
        assert told == sorted((one.get("partition", 0), one["offset"], one["outcome"]) for one in wanted)


def _check_history(state: State, expected: Mapping[str, Any]) -> None:
    wanted = plain(expected.get("history", []))
    asked = {name for row in wanted for name in row} | {"op"}
    found = [{name: row[name] for name in asked if row[name] is not None} for row in state.history]
    told = [{name: part for name, part in row.items() if part is not None} for row in wanted]
    assert _ordered(found) == _ordered(told)


def _check_stop(state: State, expected: Mapping[str, Any]) -> None:
    found = state.run.error
    assert (found.code if found else None) == expected.get("error"), found
    assert state.exit_code == expected.get("exit", 0)


def _check_rows(state: State, expected: Mapping[str, Any], *, bare: bool) -> None:
    if expected["rows"] is None:
        assert state.rows is None, "there is a mirror"
        return
    wanted = plain(expected["rows"])
    if bare:
        wanted = [{name: part for name, part in row.items() if name != "__cdc"} for row in wanted]
    found = state.rows or []
    assert _ordered(_seen(found, wanted)) == _ordered(wanted)
    for name, ddl in expected.get("types", {}).items():
        assert (name, state.types.get(name)) == (name, ddl)


def _check_counts(state: State, expected: Mapping[str, Any], passage: Passage) -> None:
    counts = {name: getattr(state.run, name) for name in OUTCOMES}
    assert sum(counts.values()) == state.run.read
    counts["swept"] = state.run.swept
    wanted = expected.get("counts_cut") if passage.is_cut else expected.get("counts", {})
    if wanted is None or (passage.is_cut and passage.limit != passage.case.cut):
        read = {name: count for name, count in expected.get("counts", {}).items() if name in OUTCOMES}
        assert state.run.read == sum(read.values())
        return
    assert {name: count for name, count in counts.items() if count} == wanted


def _check_quarantine(state: State, expected: Mapping[str, Any], *, cut: bool) -> None:
    wanted = expected.get("quarantine_cut") if cut else None
    wanted = expected.get("quarantine", []) if wanted is None else wanted
    asked = sorted({name for row in wanted for name in row} | {"offset", "code", "status"})
    found = [{name: row[name] for name in asked if row[name] is not None} for row in state.quarantine]
    wanted = [{name: part for name, part in row.items() if part is not None} for row in wanted]
    assert _ordered(found) == _ordered(wanted)


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def _seen(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with as much of `__cdc` as is expected of the row of the same values."""
    asked = sorted({name for row in expected for name in row.get("__cdc", {})})
    cut = []
    for row in rows:
        cdc = {name: row["__cdc"][name] for name in asked}
        cut.append({**{name: part for name, part in row.items() if name != "__cdc"}, **({"__cdc": cdc} if cdc else {})})
    return cut
