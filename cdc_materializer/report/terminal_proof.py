"""Terminal views of what proves and repairs mirrors: `verify`, `replay`, `adopt`."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cdc_materializer.report.layout import fact_list, failure, heading, new_table, number, place_line
from cdc_materializer.report.models import AdoptReport, ReleaseReport, TableVerify, VerifyReport
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.replay_models import ReplayReport, TableReplay
from cdc_materializer.report.wording import printable, quantity

# --- verify -------------------------------------------------------------------------------------------------------


def verify_view(report: VerifyReport, now: datetime, steps: NextSteps) -> RenderableType:
    """What `cdcm verify` found."""
    table = new_table("table", "rows", "missing", "unexpected", "different", "held", "verdict", numbers=_VERIFY_NUMBERS)
    for found in report.tables:
        counts = (found.found, found.missing, found.unexpected, found.different, found.held)
        table.add_row(Text(found.table), *map(number, counts), _verify_verdict(found))
    parts: list[RenderableType] = [table]
    for found in report.tables:
        if found.error:
            parts.append(failure(found.table, found.error))
        elif not found.equal:
            parts += [
                Text(""),
                heading(found.table, "red", f"differs from {_AGAINST[found.method]}"),
                _verify_facts(found, now, steps),
            ]
        elif found.left_out or found.unsettled:
            color = "yellow" if found.unsettled else "green"
            parts += [Text(""), heading(found.table, color, "equal, as far as it was compared"), _uncompared(found)]
        if found.repaired_snapshot and not found.error:
            parts.append(Text("Repaired: the rows that differed are what their messages give.", style="green"))
    unsettled = sum(found.unsettled for found in report.tables)
    if report.equal and unsettled:
        told = f"No row is known to differ, and {quantity(unsettled, 'key')} could not be compared; run it again."
        parts.append(Text(told, style="yellow"))
    elif report.equal and all(map(_is_missing, report.tables)):
        parts.append(Text(steps.in_text("There is no mirror yet; `cdcm run` makes them."), style="yellow"))
    elif report.equal:
        methods = sorted({found.method for found in report.tables})
        which = "Every mirror that is there" if any(map(_is_missing, report.tables)) else "Every mirror"
        parts.append(Text(f"{which} equals {_AGAINST[methods[0]]}.", style="green"))
    return Group(*parts)


_AGAINST = {"fold": "the fold of its raw table", "ledger": "its ledger", "source": "the database"}
_VERIFY_NUMBERS = ("rows", "missing", "unexpected", "different", "held")


def _is_missing(found: TableVerify) -> bool:
    return found.mirror_snapshot is None and found.error is None and found.equal


def _verify_verdict(found: TableVerify) -> Text:
    if found.error:
        return Text("not verified", style="red")
    if _is_missing(found):
        return Text("no mirror yet", style="yellow")
    if found.repaired_snapshot:
        return Text("repaired", style="yellow")
    if found.equal and found.unsettled:
        return Text("unsettled", style="yellow")
    return Text("equal", style="green") if found.equal else Text("differs", style="red")


def _verify_facts(found: TableVerify, now: datetime, steps: NextSteps) -> RenderableType:
    columns = ", ".join(f"{name} × {count}" for name, count in found.columns.items())
    facts: list[tuple[str, RenderableType]] = [("columns", columns)] if columns else []
    if found.method == "ledger":
        told = f"{quantity(found.buckets, 'bucket')} of keys, of 16; {found.expected:,} rows expected. "
        facts.append(("ledger", told + steps.in_text("`cdcm verify` tells which rows.")))
    facts += [("last written", place_line(place, now)) for place in found.places]
    facts += [("keys", printable(" ".join(found.keys)))] if found.keys else []
    if found.judged_otherwise:
        told = steps.in_text(f"`cdcm replay {found.table}` judges every message by this one")
        facts.append(("judged", f"by another contract than today's, in part: {told}"))
    return fact_list([*facts, *_uncompared_facts(found)])


def _uncompared(found: TableVerify) -> RenderableType:
    return fact_list(_uncompared_facts(found))


def _uncompared_facts(found: TableVerify) -> list[tuple[str, RenderableType]]:
    facts: list[tuple[str, RenderableType]] = []
    if found.unsettled:
        told = f"{quantity(found.unsettled, 'key')} changed each time they were looked at"
        facts.append(("unsettled", told))
    left_out = ", ".join(f"{name} ({why})" for name, why in found.left_out.items())
    return [*facts, *([("not compared", left_out)] if left_out else [])]


# --- replay -------------------------------------------------------------------------------------------------------

_REPLAY_NUMBERS = ("live", "rebuilt", "gone", "new", "changed")


def replay_view(report: ReplayReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """What `cdcm replay` found and did."""
    table = new_table("table", *_REPLAY_NUMBERS, "outcome", numbers=_REPLAY_NUMBERS)
    parts: list[RenderableType] = [table]
    for found in report.tables:
        counts = (found.live, found.rebuilt, found.only_live, found.only_rebuilt, found.different)
        table.add_row(Text(found.table), *map(number, counts), _replay_outcome(found))
        if found.error:
            parts.append(failure(found.table, found.error))
        if found.refilled:
            lacked = quantity(found.refilled, "message")
            parts.append(Text(f"{found.table}: raw lacked {lacked}, and has them now, from Kafka."))
        is_compared = found.rebuilt_snapshot is not None or not (found.error or _is_of_before(found))
        is_other = found.has_other_columns or _is_judged_otherwise(found)
        if is_compared and (not found.equal or is_other):
            rows = "rebuilt with other types" if found.types else "rebuilt, with the same rows"
            said = rows if found.equal else "rebuilt, and not the same"
            parts += [Text(""), heading(found.table, "yellow", said), _replay_facts(found, now)]
    told = [found for found in report.tables if not (found.error or _is_of_before(found))]
    if not all(found.equal for found in told):
        parts.append(Text("gone: keys that only the live mirror has; new: keys that only the rebuilt one has.", "dim"))
    if not all(found.published for found in told):
        parts.append(Text("Nothing was swapped; `--publish` makes the rebuilt mirror the one that readers see.", "dim"))
    if any(found.published for found in told):
        parts.append(Text(_KEPT, "dim"))
    return Group(*parts)


_KEPT = (
    "What was replaced is kept for `--rollback`, masked as it was then, under the tag `cdcm-before-replay`; "
    "`--forget` lets go of it."
)


def _is_judged_otherwise(found: TableReplay) -> bool:
    """Whether today's contract says something else of the rebuilt mirror than of the live one."""
    live = (found.held_live, found.told_live, found.broken_live)
    return live != (found.held_rebuilt, found.told_rebuilt, found.broken_rebuilt)


def _is_of_before(found: TableReplay) -> bool:
    """Whether nothing was rebuilt: it is about what an earlier replay had replaced."""
    return found.rolled_back or found.forgotten


def _replay_outcome(found: TableReplay) -> Text:
    if found.error:
        return Text("failed", style="red")
    done = {"published": found.published, "rolled back": found.rolled_back, "forgotten": found.forgotten}
    if any(done.values()):
        return Text(next(name for name, is_so in done.items() if is_so), style="green")
    return Text("differs", style="yellow") if found.changes else Text("equal", style="green")


def _replay_facts(found: TableReplay, now: datetime) -> RenderableType:
    facts: list[tuple[str, RenderableType]] = []
    if found.base_offsets is not None:
        facts.append(("from", ", ".join(f"{partition}/{offset}" for partition, offset in found.base_offsets.items())))
    if found.added:
        facts.append(("new columns", ", ".join(found.added)))
    if found.types:
        facts.append(("types", ", ".join(f"{one.column} {one.old} → {one.new}" for one in found.types)))
    if found.renamed:
        facts.append(("renamed", ", ".join(f"{one.old} → {one.new}" for one in found.renamed)))
    if found.columns:
        facts.append(("columns", ", ".join(f"{name} × {count}" for name, count in found.columns.items())))
    for title, counts in (
        ("held, live", found.held_live),
        ("held, rebuilt", found.held_rebuilt),
        ("told, live", found.told_live),
        ("told, rebuilt", found.told_rebuilt),
    ):
        if counts:
            facts.append((title, ", ".join(f"{name} × {count}" for name, count in counts.items())))
    for title, rules in (("broken, live", found.broken_live), ("broken, rebuilt", found.broken_rebuilt)):
        if rules:
            facts.append((title, ", ".join(rules)))
    facts += [("last written", place_line(place, now)) for place in found.places]
    facts += [("keys", printable(" ".join(found.keys)))] if found.keys else []
    return fact_list(facts)


# --- adopt --------------------------------------------------------------------------------------------------------

_ADOPTED = {
    "gap": "The table goes on behind messages that left the topic before they were read.",
    "topic": "The table goes on with the topic as it is now; its offsets follow on the earlier ones.",
    "positions": "A new epoch begins: positions from here on are not held against earlier ones.",
}


def adopt_view(report: AdoptReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """What `cdcm adopt` accepted."""
    parts: list[RenderableType] = [heading(report.table, "yellow", "accepted, on the record")]
    for found in report.adopted:
        places = ", ".join(f"{partition}/{offset}" for partition, offset in found.offsets.items())
        facts: list[tuple[str, RenderableType]] = [("what", _ADOPTED[found.what]), ("from", places)]
        facts += [("lost", f"at most {quantity(found.lost, 'message')}")] if found.lost else []
        facts += [("by", found.by), *([("reason", found.reason)] if found.reason else [])]
        parts.append(fact_list(facts))
    note = "Rows that the source lost stay in the mirror until a complete snapshot with `snapshot_sweep`."
    return Group(*parts, Text(""), Text(steps.in_text(f"`cdcm run` goes on. {note}"), style="dim"))


# --- quarantine release -------------------------------------------------------------------------------------------


def release_view(report: ReleaseReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """What `cdcm quarantine release` judged again."""
    if not report.tried:
        return Text(f"Nothing that matches is held in {report.table}.", style="green")
    facts: list[tuple[str, RenderableType]] = [
        ("judged again", quantity(report.tried, "message")),
        ("released", number(report.released)),
        *([("overtaken", number(report.superseded))] if report.superseded else []),
        ("still held", number(report.held)),
        *[(name, number(count)) for name, count in report.codes.items()],
    ]
    style, note = ("yellow", "some are held still") if report.held else ("green", "nothing of it is held any more")
    return Group(heading(report.table, style, note), fact_list(facts))
