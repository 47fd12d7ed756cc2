"""Names, parsed once at the door: tables, columns, topics.

Pure. A name that got through here can neither leave the warehouse nor end a quoted identifier; SQL is still built in
`merge.py` only. The rules are those of design sections 4.2 and 4.4.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from cdc_materializer.errors import DuplicateColumn, InvalidName

#: Endings of the tables that stand beside a mirror (design section 4.4).
RAW_SUFFIX = "__raw"
QUARANTINE_SUFFIX = "__quarantine"
HISTORY_SUFFIX = "__history"
RESERVED_SUFFIXES = (RAW_SUFFIX, QUARANTINE_SUFFIX, HISTORY_SUFFIX)

#: A partition transform of a column: `days(placed_at)`, `bucket(16, id)`.
TRANSFORM = re.compile(r"(\w+)\((?:(\d+), *)?([^(),`]+)\)")

#: A field of a partition spec or a sort order: perhaps a transform, its column, and how it sorts.
LAYOUT_FIELD = re.compile(r"(?:(\w+)\((?:\d+, ?)?)?(\w+)\)?(?: (?:asc|desc))?(?: nulls (?:first|last))?", re.IGNORECASE)

#: Column names that begin so are ours (design section 4.4).
RESERVED_COLUMN_PREFIX = "__cdc"

#: Iceberg's metadata columns: a table that has one of its own by these names cannot be the target of a MERGE.
ICEBERG_COLUMNS = frozenset(
    {
        "_change_ordinal",
        "_change_type",
        "_commit_snapshot_id",
        "_deleted",
        "_file",
        "_last_updated_sequence_number",
        "_partition",
        "_pos",
        "_row_id",
        "_spec_id",
    }
)

_RENAME = "Rename them in the source, or leave them out with the connector's `column.exclude.list`."

#: Of messages that have both names no table can be made, and they stay in the topic and in raw.
_LEAVE_OUT = (
    "Rename one of them in the source, or leave it out with the connector's `column.exclude.list`, and have the "
    "connector write to a new topic: messages that have both stay in this one."
)

#: Longest part of a table name, in characters; with a sibling's suffix it still fits file systems (255 bytes in ASCII).
PART_LENGTH_MAX = 128

#: Longest identifier that is quoted, in characters.
IDENTIFIER_LENGTH_MAX = 255

#: Longest column of a source, in characters; others are called after it (`__cdc_rebuilt_…__decimal_38_38`).
COLUMN_LENGTH_MAX = 226

#: How much of a name a message repeats, in characters.
SHOWN_LENGTH_MAX = 80

#: Letters that Java 17, whose Unicode is 13, does not know yet: those that Python 3.11 knows beside it, and of 16.
_LATER_LETTERS = re.compile(
    "[\u0870-\u0887\u0889-\u088e\u08b5\u08c8\u08c9\u0c5d\u0cdd\u170d\u171f\u1b4c\u1c89\u1c8a\u2c2f\u2c5f\u9ffd-\u9fff"
    "\ua7c0\ua7c1\ua7cb-\ua7cd\ua7d0-\ua7dc\ua7f1-\ua7f4]"
)

_PART = re.compile(r"\w[\w-]*")
_TABLE_PARTS_MIN = 2

# Topics that by their first or last part are Debezium's, whatever stands beside it. The heartbeat and signal tables
# that Debezium's guides have people create count too.
_DEBEZIUM_PART = re.compile(r"_*(debezium|dbz)[-_](heartbeats?|signals?|notifications?)", re.IGNORECASE)
# Topics that are Debezium's when this part follows directly on the connector's `topic.prefix`.
_PART_AFTER_PREFIX = frozenset(
    {"transaction", "message", "signal", "signals", "notification", "notifications", "heartbeat"}
)
# Customary names of the topic that keeps a connector's DDL (`schema.history.internal.kafka.topic`).
_SCHEMA_HISTORY_PART = re.compile(r"(db|schema)[-_]?(history|changes?)", re.IGNORECASE)


def shown(text: str) -> str:
    """Return ``text`` for a message: at most 80 characters, and `?` for each that does not print."""
    clipped = text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in clipped)


def printable_lines(text: str) -> str:
    """Return ``text`` for a terminal, line by line, with a sign for each character that does not print.

    A terminal follows escape sequences: it would move, recolour or hide what stands beside somebody's name.
    """
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the name in ``known`` that ``word`` was most likely meant to be, or None when none is near."""
    by_folded = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(word[:SHOWN_LENGTH_MAX].lower().replace("-", "_"), by_folded, n=1)
    return by_folded[matches[0]] if matches else None


@dataclass(frozen=True)
class TableName:
    """The name of a lake table: one or more namespace parts and a name, none of which can leave the warehouse."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``namespace.name``; raise InvalidName for anything that is not one, and for reserved endings."""
        *namespace, name = parts = text.split(".")
        if len(parts) < _TABLE_PARTS_MIN or not all(_is_part(part) for part in parts):
            raise InvalidName(
                f"The table name `{shown(text)}` cannot be used: it needs two or more parts with a dot between them, "
                f"each of letters, digits, `_` and `-` (not first) and at most {PART_LENGTH_MAX} characters.",
                "Name the table like `shop.orders`.",
            )
        ending = next((suffix for suffix in RESERVED_SUFFIXES if name.lower().endswith(suffix)), None)
        if ending is not None:
            raise InvalidName(
                f"The table name `{shown(text)}` cannot be used: names that end `{ending}` are kept for the tables "
                "beside a mirror.",
                "Choose a mirror name without that ending.",
            )
        return cls(tuple(namespace), name)

    @classmethod
    def from_topic(cls, topic: str) -> Self:
        """Return the default mirror of ``topic``, its last two parts; raise InvalidName if they are none."""
        return cls.parse(".".join(topic.split(".")[-_TABLE_PARTS_MIN:]))

    @property
    def raw(self) -> Self:
        """The table that keeps every message of this mirror."""
        return self._beside(RAW_SUFFIX)

    @property
    def quarantine(self) -> Self:
        """The table that keeps the violations of this mirror."""
        return self._beside(QUARANTINE_SUFFIX)

    @property
    def history(self) -> Self:
        """The table that keeps one row a change of this mirror."""
        return self._beside(HISTORY_SUFFIX)

    def __str__(self) -> str:
        """Return the dotted name."""
        return ".".join((*self.namespace, self.name))

    def _beside(self, suffix: str) -> Self:
        return replace(self, name=self.name + suffix)


def recovery(name: TableName) -> str:
    """What to do about a table whose progress is lost, one of ours or another tool's."""
    ending = next((suffix for suffix in RESERVED_SUFFIXES if name.name.endswith(suffix)), "")
    mirror = replace(name, name=name.name.removesuffix(ending))
    ways = {
        "": "move it away: the next run makes it again from raw, where everything is",
        RAW_SUFFIX: "roll it back to a copy that has one; or move it away, and the topic is landed again as far as it "
        "still goes",
        # A run would make an empty one, and then forget what held messages have told of their rows.
        QUARANTINE_SUFFIX: "roll it back to a copy that has one; or move it away and, before the next run, "
        f"`cdcm replay {mirror} --publish`, which finds again in raw what is held",
        HISTORY_SUFFIX: "roll it back to a copy that has one; or move it away: it begins anew with the next change, "
        "and what it told before is in the moved table alone",
    }
    lost = f"If its marked snapshots were expired, {ways[ending]}."
    return f"{lost} If another tool made it, give the topic another `mirror` name."


def ordered_column(text: str) -> str:
    """The column that a field of a partition spec or a sort order is made of."""
    match = LAYOUT_FIELD.fullmatch(text)
    return match[2] if match is not None else text


def quote(identifier: str) -> str:
    """Return ``identifier`` as one Spark identifier in backticks; raise InvalidName for what no identifier can be.

    Refused are the empty name, control characters (NUL among them), half surrogates (no UTF-8 for them) and more than
    255 characters.
    """
    if not _is_identifier(identifier):
        raise InvalidName(
            f"The name `{shown(identifier)}` cannot be used: it is empty, longer than {IDENTIFIER_LENGTH_MAX} "
            "characters, or holds control characters.",
            "Rename it in the source, or leave it out of what the connector sends.",
        )
    return "`" + identifier.replace("`", "``") + "`"


def check_columns(names: Sequence[str], fields: Sequence[tuple[str, ...]] = (), remedy: str = _LEAVE_OUT) -> None:
    """Check that a table can have exactly these columns, as the source spells them, beside our `__cdc`.

    All names that it cannot have are told at once, so that they are mended at once.

    Args:
        names: the columns.
        fields: the paths of what stands inside of them.
        remedy: what to do where names differ in case alone.

    Raises:
        InvalidName: names begin `__cdc`, are Iceberg's metadata columns, or cannot be quoted; one with a dot is the
            path of another; or files would have one name for two.
        DuplicateColumn: two names are equal when case is ignored, as Spark does, whatever else there is.
    """
    paths = [*((name,) for name in names), *fields]
    duplicates = _repeated(paths, _case_forms)
    reasons = _reasons(names)
    dotted = [name for name in _repeated(paths, lambda path: _case_forms((".".join(path),))) if name not in duplicates]
    reasons += [f"{_listed(dotted)} (with their dots the paths of fields too)"] if dotted else []
    alike = [name for name in _repeated(paths, _file_forms) if name not in {*duplicates, *dotted}]
    reasons += (
        [f"{_listed(alike)} (one name in Parquet files; of a column that was renamed `renames` tells)"] if alike else []
    )
    unusable = f"The source has columns whose names cannot be used: {', '.join(reasons)}."
    if not duplicates:
        if reasons:
            raise InvalidName(unusable, _RENAME)
        return
    what = _not_apart(duplicates)
    raise DuplicateColumn(f"{what} {unusable}" if reasons else what, f"{remedy} {_RENAME}" if reasons else remedy)


def check_apart(names: Sequence[str]) -> None:
    """Raise DuplicateColumn where two names are equal when case is ignored: Spark cannot tell the two apart."""
    duplicates = _repeated([(name,) for name in names], _case_forms)
    if duplicates:
        raise DuplicateColumn(_not_apart(duplicates), _LEAVE_OUT)


def _not_apart(names: Iterable[str]) -> str:
    what = "Columns whose names differ only in upper and lower case cannot be told apart in the lake"
    return f"{what}: {_listed(names)}."


def _reasons(names: Sequence[str]) -> list[str]:
    """Names that no table can have whatever its others are, each group with why."""
    unusable = [name for name in names if not _is_identifier(name) or len(name) > COLUMN_LENGTH_MAX]
    reserved = {
        keeper: [name for name in names if _keeper(name) == keeper] for keeper in ("cdc_materializer", "Iceberg")
    }
    return [
        *([f"{_listed(unusable)} (empty, too long, or with control characters)"] if unusable else []),
        *[f"{_listed(kept)} (kept by {keeper} for its own columns)" for keeper, kept in reserved.items() if kept],
    ]


def _repeated(paths: Sequence[tuple[str, ...]], forms: Callable[[tuple[str, ...]], set[object]]) -> list[str]:
    """The paths that have a form which another one has."""
    groups: dict[object, list[tuple[str, ...]]] = {}
    for path in paths:
        for form in forms(path):
            groups.setdefault(form, []).append(path)
    found = {path: None for group in groups.values() if len(group) > 1 for path in group}
    return [".".join(path) for path in found]


def _case_forms(path: tuple[str, ...]) -> set[object]:
    """What of a path is compared where case is ignored: names as `ignoring_case` has them, and in lower case.

    They differ for one letter, `İ`, which by itself is an `i` and in lower case two characters.
    """
    return {tuple(map(ignoring_case, path)), tuple(name.lower() for name in path)}


def _file_forms(path: tuple[str, ...]) -> set[object]:
    """The path as Iceberg writes it into Parquet, whose names are Avro's (`AvroSchemaUtil.makeCompatibleName`).

    What is no letter, digit or `_` becomes `_x` and its number, and a digit gets a `_` where it is the first: `a b` is
    `a_x20b` there, and `1st` is `_1st`. Values of two columns of one name are read for each other.
    """
    return {tuple(map(_in_files, path))}


def _in_files(name: str) -> str:
    units = name.encode("utf-16-be", "surrogatepass")
    signs = [chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2)]
    kept = [sign == "_" or sign.isdecimal() or is_letter_of_java(sign) for sign in signs]
    written = [sign if is_kept else f"_x{ord(sign):X}" for sign, is_kept in zip(signs, kept, strict=True)]
    return ("_" if name[:1].isdecimal() else "") + "".join(written)


def is_letter_of_java(sign: str) -> bool:
    """Whether Java takes a character for a letter, looking at units of 16 bits: one that takes two has none."""
    return sign.isalpha() and sign <= "\uffff" and _LATER_LETTERS.match(sign) is None


def same_name(one: str, other: str) -> bool:
    """Whether readers that ignore case take two names for one."""
    return not _case_forms((one,)).isdisjoint(_case_forms((other,)))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{shown(name)}`" for name in names)


def is_table_topic(topic: str, topics: Iterable[str] = ()) -> bool:
    """Say whether ``topic`` carries a table's changes, as far as its name tells; ``topics`` are all that there are.

    Not tables: heartbeat, transaction, logical message, schema change, schema history, signal and notification topics,
    and names that begin `__`. A topic of one part is never one (a connector's schema change topic is its bare prefix);
    it can still be named exactly in the configuration, with a mirror.

    A table may itself be called `transaction` or `message`: such a last part is Debezium's only directly after the
    connector's prefix, which is one part unless ``topics`` shows a longer one (`a.b` if there is `a.b.public.orders`).
    """
    if "." not in topic or topic.startswith("__"):
        return False
    first, *middle, last = topic.split(".")
    if _DEBEZIUM_PART.fullmatch(first) or _DEBEZIUM_PART.fullmatch(last) or _SCHEMA_HISTORY_PART.fullmatch(first):
        return False
    others = tuple(topics)
    if last.lower() in _PART_AFTER_PREFIX or _SCHEMA_HISTORY_PART.fullmatch(last):
        return bool(middle) and not _is_prefix(topic.rpartition(".")[0], others)
    return not _is_prefix(topic, others)


def _is_part(part: str) -> bool:
    return len(part) <= PART_LENGTH_MAX and _PART.fullmatch(part) is not None


def _is_identifier(name: str) -> bool:
    return bool(name) and len(name) <= IDENTIFIER_LENGTH_MAX and all(map(_is_quotable, name))


def _is_quotable(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cs"}


def _keeper(name: str) -> str | None:
    """Who keeps a column's name for its own columns; None where nobody does."""
    lowered = name.lower()
    if lowered.startswith(RESERVED_COLUMN_PREFIX):
        return "cdc_materializer"
    return "Iceberg" if lowered in ICEBERG_COLUMNS else None


def ignoring_case(name: str) -> str:
    """Return what is equal for names that Java's `equalsIgnoreCase` or `toLowerCase` take for one.

    Python's `casefold` would be wrong both ways: it makes one of `straße` and `strasse`, which Spark keeps apart.
    """
    uppers = (character.upper() if len(character.upper()) == 1 else character for character in name)
    return "".join(upper.lower()[0] for upper in uppers)


def _is_prefix(prefix: str, topics: Iterable[str]) -> bool:
    """Say whether tables stand below ``prefix``: a topic that has it and two more parts (`prefix.schema.table`)."""
    return any(topic.startswith(prefix + ".") and "." in topic[len(prefix) + 1 :] for topic in topics)
