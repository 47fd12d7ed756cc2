"""What each violation means, and what to do about it; a remedy never needs a value of the row."""

import re
from collections.abc import Mapping
from typing import Literal

from cdc_materializer.decode.refusals import REFUSALS, Refusal
from cdc_materializer.errors import MAX_QUARANTINED, Code

#: What a violation is about: messages, each by itself; the table as a whole; a rule, which cannot be judged.
About = Literal["messages", "table", "rule"]

#: A command that is about one table, without the table, or with a sign for it.
_COMMAND = re.compile(r"`cdcm (quarantine release|adopt|replay|contract test --table)(?: …)?(?=[ `])")

_NEW_TYPE = "`cdcm replay … --publish` rebuilds the table with the new type; or change it back."

#: What to do about each code; a remedy never needs a value of the row.
REMEDIES: Mapping[Code, str] = {
    Code.UNDECODABLE: "Look at the message at that offset; if all are like it, set `encoding` or `format`.",
    Code.SCHEMA_UNKNOWN: "Bring the schema to the registry, or check `registry` and its `id`; each run tries again.",
    Code.UNKNOWN_OP: "Check the table's `format`; the message was not made by the connector it names.",
    Code.KEY_NULL: "Name the key's columns in the table's `key`, or give the source table a primary key.",
    Code.KEY_VALUE_MISMATCH: (
        "Check the connector's message key columns and single message transforms; where the source table has"
        " REPLICA IDENTITY USING INDEX, give it DEFAULT or FULL, and take a new snapshot."
    ),
    Code.KEY_COLLISION: (
        "Give each source table a topic of its own, or mirror under another `mirror` name with a column in `key` that"
        " tells them apart; a router does that with `key.enforce.uniqueness` in a new topic. A renamed table too needs"
        " a topic that begins with its new name, by a snapshot."
    ),
    Code.SCHEMA_INCOMPATIBLE: (
        f"{_NEW_TYPE} A time that JSON without a schema has as a number needs its `time_unit` in the contract before."
    ),
    Code.OUT_OF_RANGE: (
        "Where the contract declares the type, declare a wider one and run `cdcm replay … --publish`; else widen the"
        " column at the source. For times outside of the years 1 to 9999, but in keys, `special_values` can be `clamp`."
    ),
    Code.CONTRACT: (
        "Mend the row at the source (a later good version takes its place by itself), or mend the rule and run"
        " `cdcm quarantine release`."
    ),
    Code.UNAVAILABLE_NO_BASE: "Touch the row at the source, or take an incremental snapshot of the table.",
    Code.ORDER_AMBIGUOUS: "Give the connector positions to order by, or send a table to one partition.",
    Code.TRUNCATE_UNORDERED: "Take a snapshot of the source table.",
    Code.SNAPSHOT_UNRECONCILED: "Take it again; in several partitions it sweeps when each shows a later change.",
    Code.OFFSET_GAP: "Have the connector snapshot the table again, and accept the loss with `cdcm adopt`.",
    Code.OFFSET_REGRESSION: "Find out whether the topic was made again; then accept it with `cdcm adopt`.",
    Code.POSITION_REGRESSION: "If the database was restored, accept it with `cdcm adopt`, and take a new snapshot.",
    Code.DUPLICATE_COLUMN: "Say with `renames` that the column was renamed, or rename one of the two at the source; "
    "their names differ only in case.",
}
#: The same, where a schema says what the messages hold.
_WITH_SCHEMA: Mapping[Code, str] = {Code.SCHEMA_INCOMPATIBLE: _NEW_TYPE}

#: The same of what is about the table as a whole, by what was done: the meaning, and what to do.
_OF_TABLE: Mapping[str, tuple[str, str]] = {
    "stopped": (
        "The batch would leave a table that breaks a rule about the whole table; nothing of it is published.",
        "Mend the data at the source, or the rule; each run tries again, with what has come since.",
    ),
    "reported": (
        "The table, as the batch left it, breaks a rule about the whole table, and readers see it so.",
        "Mend the data at the source; if the rule asks too much, mend the rule.",
    ),
}
_TOO_MANY = (
    "A batch would have held back more of its messages than the contract allows; nothing of it is published.",
    "Mend at the source what many rows have in common, or mend the rule, or raise the limit; each run tries again.",
)
_UNJUDGED = (
    "The rule cannot be judged, so nothing of the batch is published: what breaks it would pass unseen.",
    "Mend the rule so that it can judge every row; the run says what goes wrong, `cdcm contract test --table …` tries.",
)
_TRIED_UNJUDGED = (
    "The rule is only tried and could not be judged: what breaks it passed unseen, and nothing is held for it.",
    "Mend the rule so that it can be judged; `cdcm contract test --table …` says what goes wrong.",
)
#: Of a row, where it is not held.
_OF_ROW: Mapping[str, tuple[str, str]] = {
    "stopped": (
        "The row breaks a rule that lets nothing of its batch through.",
        "Mend the row at the source (a later good version takes its place), or the rule; each run tries again.",
    ),
    "reported": (
        "The row breaks a rule of the table's contract that only reports; nothing is held for it.",
        "Mend the row at the source; if the rule asks too much, mend the rule.",
    ),
}


def explanation(code: str, rule: str | None = None, *, about: About = "messages", done: str = "held") -> str:
    """Return what a violation means, in one sentence.

    Args:
        code: its code.
        rule: the rule of the contract, or what the message is.
        about: what it is about.
        done: what was done: held, reported or stopped.
    """
    refusal = _refusal(code, rule)
    if refusal is not None:
        return refusal.what
    of_rule = _of_rule(code, rule, about=about, done=done)
    if of_rule is not None:
        return of_rule[0]
    return Code(code).explanation if code in set(Code) else "A code that this version does not know."


def remedy(
    code: str,
    rule: str | None,
    table: str,
    *,
    about: About = "messages",
    done: str = "held",
    has_schema: bool = False,
) -> str:
    """Return what to do about a violation of a mirror, with commands as they are typed.

    Args:
        code: its code.
        rule: the rule of the contract, or what the message is.
        table: name of the mirror.
        about: as for `explanation`.
        done: likewise.
        has_schema: whether the messages were written with a schema of the registry.
    """
    said = _remedy(code, rule, about=about, done=done, has_schema=has_schema)
    return _COMMAND.sub(lambda found: f"`cdcm {found[1]} {table}", said)


def _remedy(code: str, rule: str | None, *, about: About, done: str, has_schema: bool) -> str:
    refusal = _refusal(code, rule)
    if refusal is not None:
        return refusal.do
    of_rule = _of_rule(code, rule, about=about, done=done)
    if of_rule is not None:
        return of_rule[1]
    if code not in set(Code):
        return "Read the report with the version that wrote it."
    known = Code(code)
    return _WITH_SCHEMA.get(known, REMEDIES[known]) if has_schema else REMEDIES[known]


def _of_rule(code: str, rule: str | None, *, about: About, done: str) -> tuple[str, str] | None:
    """What is said of a broken rule otherwise than of a row that is held for it."""
    if code != Code.CONTRACT:
        return None
    if about == "rule":
        return _TRIED_UNJUDGED if done == "reported" else _UNJUDGED
    if about == "table":
        return _TOO_MANY if rule == MAX_QUARANTINED else _OF_TABLE.get(done)
    return _OF_ROW.get(done)


def _refusal(code: str, rule: str | None) -> Refusal | None:
    return REFUSALS.get(rule or "") if code in (Code.UNDECODABLE, Code.SCHEMA_UNKNOWN) else None
