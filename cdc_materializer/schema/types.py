"""Column types as Spark DDL texts: which one holds the values of another, exactly.

Pure. The rules are those of changelog-semantics §3 ("Widening only") and of the Iceberg specification, section "Schema
Evolution": a table takes int to long, float to double, a larger decimal precision and more fields of a struct in place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence

from cdc_materializer.names import quote, same_name

#: The most digits that Iceberg's decimal holds.
DECIMAL_DIGITS_MAX = 38
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_WIDER = {("int", "bigint"), ("float", "double")}
#: The most digits that an integer has.
INTEGERS = {"int": 10, "bigint": 19}
_NESTED = re.compile(r"(struct|array|map)<(.*)>", re.DOTALL)


def decimal_of(ddl: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal DDL type, None for every other type."""
    match = _DECIMAL.fullmatch(ddl)
    return (int(match[1]), int(match[2])) if match else None


def fields_of(ddl: str) -> dict[str, str] | None:
    """Types of a struct's fields by name, in their order; None for every other type."""
    fields = field_list(ddl)
    return None if fields is None else dict(fields)


def field_list(ddl: str) -> list[tuple[str, str]] | None:
    """Names and types of a struct's fields, also those that come twice; None for every other type."""
    inside = _inside(ddl, "struct")
    return None if inside is None else [_field(part) for part in _split(inside)]


def item_of(ddl: str) -> str | None:
    """Type of an array's elements; None for every other type."""
    return _inside(ddl, "array")


def entry_of(ddl: str) -> tuple[str, str] | None:
    """Types of a map's keys and values; None for every other type."""
    inside = _inside(ddl, "map")
    if inside is None:
        return None
    key, value = _split(inside)
    return key, value


def struct_ddl(fields: dict[str, str]) -> str:
    """The DDL of a struct, its fields' names quoted."""
    return fields_ddl(fields.items())


def fields_ddl(fields: Iterable[tuple[str, str]]) -> str:
    """The DDL of a struct by names and types of its fields, of which some may have one name."""
    return "struct<" + ",".join(f"{quote(name)}:{ddl}" for name, ddl in fields) + ">"


def _inside(ddl: str, kind: str) -> str | None:
    match = _NESTED.fullmatch(ddl)
    return match[2] if match is not None and match[1] == kind else None


def _split(text: str) -> list[str]:
    """The parts of a text between commas that stand in no brackets and in no quoted name."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted and character in "<(":
            depth += 1
        elif not quoted and character in ">)":
            depth -= 1
        elif not quoted and character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _field(text: str) -> tuple[str, str]:
    if text.startswith("`"):
        name, _, ddl = text[1:].replace("``", "\0").partition("`:")
        return name.replace("\0", "`"), ddl.replace("\0", "``").strip()
    name, _, ddl = text.partition(":")
    return name.strip(), ddl.strip()


def is_widening(old: str, new: str) -> bool:
    """Whether Iceberg can change a column of type `old` to `new` in place without touching a value."""
    if (old, new) in _WIDER:
        return True
    before, after = decimal_of(old), decimal_of(new)
    return before is not None and after is not None and before[1] == after[1] and before[0] < after[0]


def same_kind(one: str, other: str) -> bool:
    """Whether a value of one type may be a value of the other exactly (design §4.5).

    Integers and decimals may, and MySQL's booleans, which come as numbers in a snapshot and as truth values behind it.
    """
    if all(_digits(kind) is not None for kind in (one, other)):
        return True
    is_truth = "boolean" in (one, other) and (one in INTEGERS or other in INTEGERS)
    return is_truth or {one, other} == {"float", "double"}


#: Types of which a value has one text that says the same, in databases too. A time's depends on a zone or on digits.
_ONE_TEXT = {"int", "bigint", "boolean", "date"}


def has_other_form(one: str, other: str) -> bool:
    """Whether some values of one type say the same as a value of the other, of another kind: 5 and the text 5."""
    pair = {one, other}
    if "string" in pair and len(pair) > 1:
        (kind,) = pair - {"string"}
        return kind in _ONE_TEXT or decimal_of(kind) is not None
    return len(pair & set(INTEGERS)) == 1 and len(pair & {"float", "double"}) == 1


def outgrown(table: str, writers: Sequence[str], *, retyped: bool = False) -> str | None:
    """The type that a column would have, were it made anew for what writers send; None where its own type does.

    That of the last writer's kind, wide enough for all who send that kind: their values have to be in one column. A
    column that was rebuilt as text, and so has the values of all, never gets back a type that some of them are not.

    Args:
        table: the column's type.
        writers: the types that they give it, in the order of their last messages.
        retyped: whether it was rebuilt with another type (`Column.retyped`).
    """
    if all(merge_types(table, writer)[1] for writer in writers):
        return None
    wanted = writers[-1]
    for writer in reversed(writers):
        wanted = _together(wanted, writer)
    has_all = retyped and all(_as_same_texts(table, writer)[1] for writer in writers)
    # Wider than what is wanted by now is no reason to write all rows again.
    if holds(table, wanted) or (has_all and not all(merge_types(wanted, writer)[1] for writer in writers)):
        return None
    return wanted


def _as_same_texts(table: str, writer: str) -> tuple[str, bool]:
    """As `merge_types`, where a text also has what has one text (`decode.fit`)."""
    if table == "string" and has_other_form(writer, table):
        return table, True
    return _merge_with(table, writer, _as_same_texts)


def _together(one: str, other: str) -> str:
    """The type for the values of two, where they are of a kind; else the first."""
    merged, fits = _merge_with(one, other, lambda left, right: (_together(left, right), False))
    left, right = _digits(one), _digits(other)
    if fits or left is None or right is None:
        return merged
    behind = max(left[1], right[1])
    return f"decimal({min(max(left[0], right[0]) + behind, DECIMAL_DIGITS_MAX)},{behind})"


def _digits(ddl: str) -> tuple[int, int] | None:
    """How many digits a number has at most before and behind its point; None for what is no exact number."""
    found = decimal_of(ddl)
    if found is not None:
        return found[0] - found[1], found[1]
    return (INTEGERS[ddl], 0) if ddl in INTEGERS else None


def merge_types(table: str, writer: str) -> tuple[str, bool]:
    """The type that a column changes to for a writer's sake, and whether it then holds every value of that writer.

    Whether a value fits must not depend on which writers come later, or the cut of the log would decide it: so a column
    of numbers gets digits enough before the point for what a writer may send, as far as there are any, and what is
    behind the point alone decides.
    """
    return _merge_with(table, writer, merge_types)


#: How the types of two parts are merged, as `merge_types` merges those of columns.
_Merge = Callable[[str, str], tuple[str, bool]]


def _merge_with(table: str, writer: str, inside: _Merge) -> tuple[str, bool]:
    if table == writer or is_widening(writer, table):
        return table, True
    if is_widening(table, writer):
        return writer, True
    if table in INTEGERS and writer == "boolean":
        return table, True
    others = _digits(writer)
    if others is not None and _digits(table) is not None:
        return _merge_numbers(table, *others)
    return _merge_nested(table, writer, inside)


def holds(table: str, writer: str) -> bool:
    """Whether a column of one type holds every value of the other exactly, without a change."""
    return merge_types(table, writer) == (table, True)


def becomes(table: str, wanted: str) -> bool:
    """Whether a column of one type can be changed to the other in place."""
    return merge_types(table, wanted) == (wanted, True)


def _merge_numbers(table: str, before_point: int, behind_point: int) -> tuple[str, bool]:
    own = decimal_of(table)
    if own is None:
        # Nine digits fit any int, and eighteen any bigint.
        merged = "bigint" if before_point >= INTEGERS["int"] else table
        return merged, behind_point == 0 and before_point < INTEGERS[merged]
    digits = min(max(own[0] - own[1], before_point) + own[1], DECIMAL_DIGITS_MAX)
    return f"decimal({digits},{own[1]})", behind_point <= own[1] and before_point <= digits - own[1]


#: Types of moments, the one with a zone first: the other's are in UTC there, as everywhere.
_MOMENTS = ("timestamp", "timestamp_ntz")
_FLOATS = {"float", "double"}


def judged_as(one: str, other: str) -> tuple[str, bool]:
    """The type in which rules judge values of both, and whether there is one; else the first.

    Nothing is stored in it, so it need not be a change that a table could make: it has as many digits behind the point
    as either, the double nearest to a decimal beside doubles, midnight for a date beside moments, and a text for
    anything beside texts. So that a value is judged in the same way whatever else a batch has, the order counts only
    where nothing has both.
    """
    merged, fits = _merge_with(one, other, judged_as)
    if fits:
        return merged, True
    pair, left, right = {one, other}, _digits(one), _digits(other)
    if left is not None and right is not None:
        before, behind = max(left[0], right[0]), max(left[1], right[1])
        return (f"decimal({before + behind},{behind})" if before + behind <= DECIMAL_DIGITS_MAX else "double"), True
    if pair & _FLOATS and (left is not None or right is not None or pair <= _FLOATS):
        return "double", True
    if pair <= {"date", *_MOMENTS}:
        return next(kind for kind in _MOMENTS if kind in pair), True
    if pair <= {"boolean", *INTEGERS}:
        return other, True
    return one, one == "string"


def _merge_nested(table: str, writer: str, inside: _Merge) -> tuple[str, bool]:
    """The type of two structs, arrays or maps together, part by part; the first where they are not of one kind."""
    own, others = fields_of(table), fields_of(writer)
    if own is not None and others is not None:
        return _merge_fields(own, others, inside)
    items = item_of(table), item_of(writer)
    if items[0] is not None and items[1] is not None:
        merged, fits = inside(items[0], items[1])
        return f"array<{merged}>", fits
    entries = entry_of(table), entry_of(writer)
    if entries[0] is not None and entries[1] is not None and entries[0][0] == entries[1][0]:
        merged, fits = inside(entries[0][1], entries[1][1])
        return f"map<{entries[0][0]},{merged}>", fits
    return table, False


def _merge_fields(own: dict[str, str], others: dict[str, str], inside: _Merge) -> tuple[str, bool]:
    fields, all_fit = dict(own), True
    for name, ddl in others.items():
        if name in fields:
            fields[name], fits = inside(fields[name], ddl)
        else:
            # A field that differs from another in nothing but case has no place, whoever sends it.
            fits = not any(same_name(name, known) for known in fields)
            fields |= {name: ddl} if fits else {}
        all_fit = all_fit and fits
    return struct_ddl(fields), all_fit


def widest(ddl: str) -> str:
    """The type of the same kind that holds every value of it, so that a column of it need never change."""
    found = decimal_of(ddl)
    if found is not None:
        return f"decimal({DECIMAL_DIGITS_MAX},{found[1]})"
    return {"int": "bigint", "float": "double"}.get(ddl, ddl)


def type_word(ddl: str) -> str:
    """A type as part of a column's name: `decimal_38_4`, `array_int`; a struct by a hash, for it can be of any length.

    Two types have two words.
    """
    if "`" in ddl or fields_of(ddl) is not None:
        return f"{ddl.partition('<')[0]}_{hashlib.sha256(ddl.encode()).hexdigest()[:8]}"
    return re.sub(r"\W+", "_", ddl).strip("_")


#: What `type_word` gives for any type.
TYPE_WORD = re.compile(
    r"boolean|bigint|double|string|binary|date|timestamp|timestamp_ntz|decimal_38_\d+|(struct|array|map)_\w+"
)
