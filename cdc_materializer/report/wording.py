"""Words that every form of a report shares: ages, times, numbers, and what a verdict means."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.violation_models import (
    Contact,
    ContractState,
    RuleState,
    TableVerdict,
    TableViolations,
    ViolationGroup,
    ViolationReport,
)

#: How many are shown of whom to tell.
CONTACTS_MAX = 4

#: Which end of a group is meant.
End = Literal["first", "last"]

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Below each of these ages, in seconds, an age is told in the unit beside it.
_AGE_UNITS = ((2 * _MINUTE, 1, "s"), (2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h"), (None, _DAY, "d"))
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_THOUSAND = 1_000
#: The smallest share that is told with two digits; what is smaller is only said to be so.
_SMALLEST_SHARE = 0.0001

#: What each verdict says of a table, the worst first.
VERDICTS: Mapping[TableVerdict, str] = {
    TableVerdict.STOPPED: "stopped, waits for you",
    TableVerdict.HELD: "published, some messages held back",
    TableVerdict.REPORTED: "all published, with remarks",
    TableVerdict.CLEAN: "clean",
    TableVerdict.EMPTY: "not run yet",
}
#: The same in a word or two, for a list of many tables.
SHORT_VERDICTS: Mapping[TableVerdict, str] = {
    TableVerdict.STOPPED: "stopped",
    TableVerdict.HELD: "held back",
    TableVerdict.REPORTED: "remarks",
    TableVerdict.CLEAN: "clean",
    TableVerdict.EMPTY: "not run",
}
#: What was done with the messages of a group.
TREATMENTS: Mapping[str, str] = {
    "held": "held back",
    "reported": "published, reported",
    "stopped": "stopped the table",
}
#: What a rule's action does where it is broken.
ACTIONS: Mapping[str, str] = {
    "quarantine": "holds the row",
    "block": "stops the table",
    "warn": "only reports",
    "shadow": "is only tried",
}
#: How each mask hides a column.
MASKS: Mapping[str, str] = {
    "null": "always empty",
    "redact": "covered",
    "hash": "hashed",
    "last4": "last four characters",
    "drop": "left out",
}


def moment(at: datetime | None, now: datetime) -> str:
    """Write a time as ``2026-11-21T10:00:00Z (3 h ago)``; a dash for none."""
    return "–" if at is None else f"{utc(at)} ({age(now - at)})"


def utc(at: datetime) -> str:
    """Write a time as ``2026-11-21T10:00:00Z``, whatever its zone."""
    return f"{at.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"


def age(passed: timedelta) -> str:
    """Write how long ago something was, in one unit: ``45 s ago``, ``3 h ago``."""
    seconds = int(passed.total_seconds())
    return "in the future" if seconds < 0 else f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Write a length of time in one unit, the largest that still tells two apart: ``119 s``, ``2 min``, ``3 h``."""
    seconds = max(seconds, 0)  # of another machine's clock, which may be ahead
    for limit, size, unit in _AGE_UNITS:
        if limit is None or seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return ""


def share(part: float | None) -> str:
    """Write a share of messages as a percentage; a dash where it is not known."""
    if part is None:
        return "–"
    return "< 0.01%" if 0 < part < _SMALLEST_SHARE else f"{part:.2%}"


def size(count: float) -> str:
    """A number of bytes."""
    for unit in _BYTE_UNITS:
        if count < _THOUSAND or unit == _BYTE_UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _THOUSAND
    return ""


def quantity(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: ``1 message``, ``1,200 messages``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def printable(text: str) -> str:
    """Write somebody's text so that nothing follows what it says: characters that do not print are shown as such."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def contract_lines(table: TableViolations) -> Iterator[str]:
    """Say how much of a contract was kept, and whether it is what the table was judged by; nothing for none."""
    contract = table.contract
    if table.contract_error is not None:
        yield f"Nothing is published until this is mended: {table.contract_error}"
    if contract is None:
        return
    kept = f"{len(contract.kept):,} of {quantity(contract.rules, 'rule')} kept"
    if contract.in_force is None:
        kept = f"{quantity(contract.rules, 'rule')}, nothing judged yet"
    yield f"Contract {contract.name} {contract.version}: {kept}."
    if contract.max_quarantined is not None:
        yield f"A batch that would hold more than {contract.max_quarantined} of its messages is stopped."
    if contract.in_force is False:
        yield "The contract's file is not the one that the newest batch was judged by."


def contacts_line(contract: ContractState | None) -> str | None:
    """Say whom to tell: the first few, each with what it is; None where the contract names nobody."""
    if contract is None or not contract.contacts:
        return None
    shown = [_contact(contact) for contact in contract.contacts[:CONTACTS_MAX]]
    more = len(contract.contacts) - len(shown)
    return f"Whom to tell: {', '.join([*shown, *([f'{more} more in the contract'] if more else [])])}."


def _contact(contact: Contact) -> str:
    # A role and an address say themselves what the name is; a bare one does not.
    bare = [contact.kind] if contact.kind == "team" else []
    known = [one for one in (contact.role, contact.address) if one] or bare
    name, *said = [_bare(one) for one in (contact.name, *known)]
    return f"{name} ({', '.join(said)})" if said else name


def _bare(address: str) -> str:
    """An address without its scheme: readers know it, and a page that holds none links nowhere."""
    return address.rpartition("://")[2].removeprefix("mailto:")


def masked_line(table: TableViolations) -> str | None:
    """Say which columns readers do not see as they are; None where there is none."""
    if not table.masked:
        return None
    told = ", ".join(f"{column} ({MASKS.get(how, how)})" for column, how in table.masked.items())
    return f"Masked columns: {told}."


def samples_line(table: TableViolations) -> str | None:
    """Say which columns the samples leave out; None where none were asked for, or no message could be one."""
    if table.sample_columns is None or all(group.about != "messages" for group in table.violations):
        return None
    shown, left_out = table.sample_columns.shown, table.sample_columns.left_out
    if not shown:
        return f"No samples: {_why_no_samples(table)}."
    rest = f"; left out: {', '.join(left_out)}" if left_out else ""
    return f"Samples show the public columns, {', '.join(shown)}{rest}."


def _why_no_samples(table: TableViolations) -> str:
    if table.contract_error is not None:
        return "the contract cannot be followed, so nothing tells which columns are public"
    if table.contract is None:
        return "only a contract can call columns public, and the table has none"
    return "the contract classifies no column as public that is not masked"


def headline(report: ViolationReport) -> str:
    """Say in two sentences how a pipeline stands, for people who read nothing else."""
    totals = report.totals
    stopped = sum(table.verdict is TableVerdict.STOPPED for table in report.tables)
    waiting = totals.tables_with_open - stopped
    sentences = []
    if stopped:
        sentences.append(
            f"{quantity(stopped, 'table')} {_are(stopped)} stopped: nothing is published there until somebody decides."
        )
    if totals.held_open:
        held = f"{quantity(totals.held_open, 'message')} {_are(totals.held_open)} held back"
        tables = sum(table.held_open > 0 for table in report.tables)
        sentences.append(f"{held} in {tables} of {quantity(totals.tables, 'table')}.")
    if waiting:
        where = "Where tables go on, readers" if stopped else "Readers"
        sentences.append(f"{where} see the last good version of the rows concerned; everything else is published.")
    if totals.reported:
        verb = "was" if totals.reported == 1 else "were"
        sentences.append(f"{quantity(totals.reported, 'message')} {verb} published with a remark.")
    groups = [group for table in report.tables for group in table.violations]
    warned = sum(group.about == "table" and group.action == "reported" for group in groups)
    if warned:
        verb = "was" if warned == 1 else "were"
        sentences.append(f"{quantity(warned, 'rule')} about a whole table {verb} broken and only reported.")
    tried = sum(group.about == "rule" and group.action == "reported" for group in groups)
    if tried:
        is_tried = "that is" if tried == 1 else "that are"
        sentences.append(f"{quantity(tried, 'rule')} {is_tried} only tried could not be judged.")
    return " ".join(sentences) or "Nothing is held back."


def worst_first(tables: Iterable[TableViolations]) -> list[TableViolations]:
    """Order tables by how much they need somebody: by verdict, then by what is held."""
    order = list(VERDICTS)
    return sorted(tables, key=lambda table: (order.index(table.verdict), -table.held_open))


def standing(table: TableViolations) -> str:
    """Say what is held back in a table, and what became of what was: only what there is."""
    of_all = f" ({share(table.held_share)} of {table.messages:,})" if table.messages and table.held_open else ""
    held = (
        f"{quantity(table.held_open, 'message')} held back now{of_all}" if table.held_open else "Nothing is held back"
    )
    rest = {
        "overtaken by a later good version": table.superseded,
        "released": table.released,
        "published with a remark": table.reported,
    }
    said = ", ".join([held, *(f"{number:,} {what}" for what, number in rest.items() if number)]) + "."
    if table.verdict is TableVerdict.STOPPED and table.unpublished:
        verb = "waits" if table.unpublished == 1 else "wait"
        said += f" {quantity(table.unpublished, 'message')} {verb} in raw until the table goes on."
    return said


def place_words(place: MessagePlace) -> str:
    """Say where a message lies: ``partition 0, offset 9, schema 4``."""
    schema = f", schema {printable(place.written_with)}" if place.written_with is not None else ""
    return f"partition {place.partition}, offset {place.offset}{schema}"


def at_words(group: ViolationGroup, end: End) -> str:
    """Say where the first or the last of a group was found: the message's place, or how far the table had got."""
    place = group.first if end == "first" else group.last
    if group.about == "messages":
        return place_words(place)
    batch = "with the batch up to" if group.action == "reported" else "in the batch from"
    return f"{batch} partition {place.partition}, offset {place.offset}"


def time_of(group: ViolationGroup, end: End) -> datetime | None:
    """Return when the first or the last message of a group was written, or what is about the table was detected."""
    if group.about == "messages":
        return (group.first if end == "first" else group.last).timestamp
    return group.detected_first if end == "first" else group.detected_last


def schema_words(group: ViolationGroup) -> str:
    """Say which schemas the first and the last message were written with: ``63 at first, 67 at last``."""
    first, last = (printable(place.written_with or "none") for place in (group.first, group.last))
    return first if last in {"none", first} else f"{first} at first, {last} at last"


def found_words(group: ViolationGroup) -> str:
    """Say how many messages a group concerns: ``3 messages (1.50% of all), 2 still open``; or how often it was."""
    if group.about != "messages":
        times = "once" if group.count == 1 else f"{group.count:,} times"
        what = "about the table as a whole" if group.about == "table" else "about the rule itself"
        still_so = "" if group.action == "reported" else ", still so" if group.open else ", over since"
        return f"{times}, {what}{still_so}"
    of_all = f" ({share(group.share)} of all)" if group.share is not None else ""
    still = "" if group.action == "reported" else f", {group.open or 'none'} still open"
    return f"{quantity(group.count, 'message')}{of_all}{still}"


def rule_words(rule: RuleState) -> tuple[str, str, str, str]:
    """Say of a rule what it does where it is broken, by how many messages it is, their share, and how many are open."""
    does = ACTIONS.get(rule.action, rule.action)
    if not rule.count:
        unjudged = "could not be judged" if rule.action == "shadow" else "cannot be judged"
        return does, unjudged if rule.unjudged else "nothing", "–", "–"
    broken = f"the table, {rule.count:,} ×" if rule.about == "table" else quantity(rule.count, "message")
    unjudged = ", not always judged" if rule.action == "shadow" else ", cannot be judged now"
    broken += unjudged if rule.unjudged else ""
    return does, broken, share(rule.share), f"{rule.open:,}" if rule.open else "none"


def values_line(report: ViolationReport) -> str:
    """Say whether a report has values of rows."""
    if any(group.samples for table in report.tables for group in table.violations):
        return "The samples are values of rows, of columns that the contracts call public; no other value is in here."
    return "Values of rows are in no part of this report."


def done_words(group: ViolationGroup) -> str:
    """Say what was done with the messages of a group, and how severe the rule is."""
    return TREATMENTS[group.action] + (f", severity {group.severity}" if group.severity else "")
