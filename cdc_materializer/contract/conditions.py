"""What a `row_condition` says: the columns that it names, and whether a row alone decides it.

Spark's analyser has the last word when a run begins. What can be told without Spark is told here, with the file's line:
columns that are not declared, brackets that do not close, and conditions that come to something else in another batch
or at another time, under which it would depend on the cut of the log what readers see.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from cdc_materializer.names import nearest

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<number>(?:\d|\.\d)[\w.]*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>->|.)""",
    re.DOTALL | re.VERBOSE,
)
#: How GX's own parser writes a column.
_GX_COLUMN = re.compile(r"""\bcol\(\s*(["'])(.+?)\1\s*\)""")
#: All that it reads; what stands behind that, it drops without a word.
_GX_CONDITION = re.compile(
    r"""\s*col\("(?P<column>[^"\r\n]+)"\)\s*
    (?:(?i:\.notnull\(\))
    |(?:==|!=|>=|<=|>|<)\s*(?:[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?
        |(?P<date>date\s*\(\s*)?(?:"(?P<quoted>[^"']+)"|'(?P<single>[^"']+)')(?(date)\s*\))))\s*""",
    re.VERBOSE,
)
_OPENED, _CLOSED = "([{", ")]}"
#: Words of Spark's expressions that stand where a column could: operators, types, and the units of times.
WORDS = frozenset(
    word
    for words in (
        "all and any array as asc between bigint binary boolean both by byte case cast char character collate cross",
        "cube current_catalog current_database current_date current_schema current_time current_timestamp",
        "current_timezone current_user date day dayofweek dayofyear days dec decimal desc distinct div double dow doy",
        "else end epoch escape except exists extract false filter first float following for from grouping having hour",
        "hours ilike in int integer interval is isodow isoyear last leading like limit localtimestamp long ltz map",
        "microsecond microseconds millisecond milliseconds minute minutes month months nanosecond nanoseconds not ntz",
        "null nulls numeric offset on or order over partition placing position preceding quarter range real regexp",
        "respect rlike row rows second seconds select session_user short smallint some string struct substring then",
        "time timestamp timestamp_ltz timestamp_ntz timezone_hour timezone_minute tinyint to trailing trim true",
        "try_cast unbounded user using varchar variant void week weeks when where window with within year yearofweek",
        "years zone",
    )
    for word in words.split()
)
_RANDOM, _TIME, _USER = "asks for something random", "asks for the time of the run", "asks who runs it"
#: What a condition asks for that calls a function, and one that has a word.
_CALLED = {
    **dict.fromkeys(
        ("monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle", "uniform"), _RANDOM
    ),
    **dict.fromkeys(("input_file_block_length", "input_file_block_start", "input_file_name", "uuid"), _RANDOM),
    **dict.fromkeys(("curdate", "now"), _TIME),
    **dict.fromkeys(("current_user", "session_user", "user"), _USER),
    "spark_partition_id": _RANDOM,
    "over": "looks at the other rows of the batch",
}
_ALONE = {
    **dict.fromkeys(("current_date", "current_time", "current_timestamp", "localtimestamp"), _TIME),
    **dict.fromkeys(("current_user", "session_user", "user"), _USER),
    "select": "asks another table",
}
#: Texts of which Spark makes the time of the run, where it makes a time of them.
_SPOKEN_TIMES = re.compile(r"\s*(now|today|tomorrow|yesterday)\s*", re.IGNORECASE)
#: Functions that make no time of a text, and words that stand between texts.
_TEXT_CALLS, _TEXT_WORDS = (
    frozenset(word for line in lines for word in line.split())
    for lines in (
        (
            "btrim char_length coalesce concat concat_ws contains endswith if ifnull initcap instr lcase left length",
            "lower lpad ltrim nullif nvl regexp_extract regexp_like regexp_replace replace right rpad rtrim",
            "split_part startswith substr substring translate trim ucase upper",
        ),
        ("and between case else end false ilike in is like not null or regexp rlike then true when",),
    )
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    @property
    def name(self) -> str:
        """A word in lower case, or the name between backticks."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text.casefold()


def faults(
    condition: object, columns: Collection[str], *, decides: bool, timeless: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a condition, and what to do.

    Args:
        condition: Spark SQL, GX's own text, or GX's mapping.
        columns: the names of the declared columns.
        decides: whether a row is held for what it comes to; where it is not, it may ask for the time.
        timeless: those of the columns that are known to hold texts, numbers, or else nothing that has a time in it.
    """
    plain = {column.casefold() for column in timeless}
    if not isinstance(condition, str):
        compared = list(_mapped(condition))
        yield from _unknown((name for name, _ in compared), columns)
        if decides and any(_is_spoken_time(name, value, plain) for name, value in compared):
            yield _undecided_fault(_TIME)
        for text in _filters(condition):
            yield from faults(text, columns, decides=decides, timeless=timeless)
        return
    if not condition.strip():
        yield "row_condition is empty.", "Write a condition, or leave it out."
        return
    if named := _GX_COLUMN.findall(condition):
        yield from _unknown((name for _, name in named), columns)
        yield from _gx_faults(condition, plain if decides else None)
        return
    tokens = _tokens(condition)
    if not _is_balanced(tokens):
        yield "a bracket or a quotation mark of row_condition has no other.", "Close it."
        return
    known = {column.casefold() for column in columns}
    if decides and (why := _undecided(tokens, known, plain)):
        yield _undecided_fault(why)
    if not _is_for_spark(tokens):
        yield from _unknown(_named(tokens), columns)


def columns_in(condition: object) -> Iterator[str]:
    """The columns that a condition names, as far as that shows without Spark; none of no condition."""
    if not isinstance(condition, str):
        yield from (name for name, _ in _mapped(condition))
    for text in spark_texts(condition):
        of_gx, tokens = [name for _, name in _GX_COLUMN.findall(text)], _tokens(text)
        yield from of_gx or (() if _is_for_spark(tokens) else _named(tokens))


def words_of(text: str) -> list[str]:
    """The words and signs of Spark SQL, in lower case; what is between quotation marks or backticks is none of them."""
    return [token.name for token in _tokens(text) if token.kind in {"word", "sign"}]


def spark_texts(condition: object) -> Iterator[str]:
    """What Spark reads of a condition: Spark SQL, alone or at whatever depth of GX's mapping."""
    yield from [condition] if isinstance(condition, str) else _filters(condition)


def _tokens(text: str) -> list[_Token]:
    found = (_Token(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(text))
    return [token for token in found if token.kind != "blank"]


def _is_for_spark(tokens: list[_Token]) -> bool:
    """Whether only Spark can tell columns from arguments of a lambda, columns of a query or parts of a type."""
    return any(token.text == "->" or token.name in {"select", "struct"} for token in tokens)


def _undecided_fault(why: str) -> tuple[str, str]:
    return (
        f"row_condition {why}, so the same row would be held in one batch and published in another.",
        "Compare columns of the row with each other and with fixed values, or give the rule the action warn.",
    )


def _gx_faults(condition: str, timeless: Collection[str] | None) -> Iterator[tuple[str, str]]:
    """What is wrong with a text for GX's own parser, but for its columns."""
    read = _GX_CONDITION.fullmatch(condition)
    if read is None:
        message = "row_condition is not one comparison, and Great Expectations' own parser would read no more than one."
        yield message, 'Write one such as col("n") > 1, or Spark SQL with condition_parser: spark.'
    elif timeless is not None and _is_spoken_time(read["column"], read["quoted"] or read["single"], timeless):
        yield _undecided_fault(_TIME)


def _is_spoken_time(column: str, value: object, timeless: Collection[str]) -> bool:
    """Whether a column that may have times is compared with a text of which Spark makes the time of the run."""
    listed = value if isinstance(value, list) else [value]
    is_spoken = any(isinstance(one, str) and _SPOKEN_TIMES.fullmatch(one) for one in listed)
    return is_spoken and column.casefold() not in timeless


def _unknown(named: Iterator[str], columns: Collection[str]) -> Iterator[tuple[str, str]]:
    known = {column.casefold() for column in columns}
    for name in dict.fromkeys(named):
        if name.casefold() not in known:
            near = nearest(name, columns)
            do = f"Did you mean {near}?" if near else "Declare it under properties."
            yield f"row_condition names the column {name[:80]!r}, which is not declared.", do


def _mapped(condition: object) -> Iterator[tuple[str, object]]:
    """The columns of GX's mapping, each with what it is compared with: a comparison has one under `column`."""
    if isinstance(condition, Mapping):
        column = condition.get("column")
        if isinstance(column, Mapping) and isinstance(column.get("name"), str):
            yield column["name"], condition.get("parameter")
        for part in condition.values():
            yield from _mapped(part)
    elif isinstance(condition, list):
        for part in condition:
            yield from _mapped(part)


def _filters(condition: object) -> Iterator[str]:
    """The Spark SQL in GX's mapping, at whatever depth."""
    parts = condition.values() if isinstance(condition, Mapping) else condition if isinstance(condition, list) else ()
    if isinstance(condition, Mapping) and isinstance(text := condition.get("pass_through_filter"), str):
        yield text
    for part in parts:
        yield from _filters(part)


def _is_balanced(tokens: list[_Token]) -> bool:
    opened: list[str] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in _OPENED:
            opened.append(token.text)
        elif token.text in _CLOSED:
            if not opened or _OPENED.index(opened.pop()) != _CLOSED.index(token.text):
                return False
        elif token.text in {"'", '"', "`"}:
            return False
    return not opened


def _named(tokens: list[_Token]) -> Iterator[str]:
    """The columns: words that are no function, no field of a column and no word of the language."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        is_part = before is not None and before.text == "."
        is_called = after is not None and after.text == "("
        if token.kind == "quoted" and not is_part:
            yield token.name
        elif token.kind == "word" and not is_part and not is_called and token.name not in WORDS:
            # X'1F' is a value, COLLATE has a collation behind it, and EXTRACT(CENTURY FROM …) a unit before FROM.
            is_value = after is not None and (after.kind == "text" or after.name == "from")
            if not is_value and (before is None or before.name != "collate"):
                yield token.text


def _undecided(tokens: list[_Token], columns: Collection[str], timeless: Collection[str]) -> str | None:
    """Say what a condition asks that a row alone does not decide; None where the row does."""
    found = (_asked(tokens, at, columns, timeless) for at in range(len(tokens)))
    return next((why for why in found if why is not None), None)


def _asked(tokens: list[_Token], at: int, columns: Collection[str], timeless: Collection[str]) -> str | None:
    token, before = tokens[at], tokens[at - 1] if at else None
    following = [token.text for token in tokens[at + 1 : at + 3]]
    if token.kind == "text" and _SPOKEN_TIMES.fullmatch(token.text.lstrip("rR")[1:-1]):
        # Spark makes a time of it wherever one is asked for: by functions and sums too, with no cast written.
        return None if _is_of_texts(_clause(tokens, at), timeless) else _TIME
    if token.kind != "word" or (before is not None and before.text == "."):
        return None
    if token.name == "unix_timestamp" and following == ["(", ")"]:
        return _TIME
    called = _CALLED.get(token.name) if following[:1] == ["("] else None
    return called or (_ALONE.get(token.name) if token.name not in columns else None)


def _clause(tokens: list[_Token], at: int) -> list[_Token]:
    """The part of a condition around a place that AND and OR join with others; all of it where these may join less."""
    words = {token.name for token in tokens if token.kind == "word"}
    if not words.isdisjoint({"between", "case"}):
        return tokens
    joints, opened = [-1, len(tokens)], list[bool]()
    for index, token in enumerate(tokens):
        before = tokens[index - 1].name if index else "and"
        if token.kind == "sign" and token.text in _OPENED:
            opened.append(before in {"(", "and", "or", "not"})  # behind anything else it is a call, or a list
        elif token.kind == "sign" and token.text in _CLOSED:
            opened.pop()
        elif token.kind == "word" and token.name in {"and", "or"} and all(opened):
            joints.append(index)
    return tokens[max(joint for joint in joints if joint < at) + 1 : min(joint for joint in joints if joint > at)]


def _is_of_texts(tokens: list[_Token], timeless: Collection[str]) -> bool:
    """Whether there is nothing among these that Spark could compare a time with, or make one of a text for."""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.kind == "quoted" or (token.kind == "word" and token.name in timeless):
            is_plain = token.name.casefold() in timeless
        elif token.kind == "word":
            is_called = after is not None and after.text == "("
            is_plain = token.name in _TEXT_WORDS or (is_called and token.name in _TEXT_CALLS)
        else:
            is_plain = token.text not in {":", "->"}
        if not is_plain:
            return False
    return True
