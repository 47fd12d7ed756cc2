"""What a source database is asked, in its own SQL: nothing but SELECT, in the forms that a mirror's values have.

Pure. Every column is read as text that the database itself writes, because then its driver and Spark change nothing: no
calendar, no time zone, no rounding, no date that Java has no word for. Names are quoted here, and a value that has to
stand in a statement stands there as hexadecimal digits.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc_materializer.names import quote

#: Into so many buckets keys are parted, by the database as by Spark: two hexadecimal digits of the MD5 of the key's
#: text, which all of them compute alike.
BUCKETS = 64
#: The column beside the values by which a table is cut into ranges.
RANGE = "cdcm_at"
#: What stands between the values of a key in the text of which the bucket is made.
SEPARATOR = 31


class Form(StrEnum):
    """How the database's text and the mirror's value are brought together."""

    VALUE = "value"
    """The text is read as the mirror's type."""

    NUMBER = "number"
    """Both as digits without needless zeros, so that nothing is rounded."""

    BYTES = "bytes"
    """The text is hexadecimal."""

    SINGLE = "single"
    """Both as floating-point numbers of four bytes."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of the database: its name, and its type as the database writes it."""

    name: str
    kind: str


@dataclass(frozen=True)
class Reading:
    """How a column is read: an expression that gives text, with `{}` for the column, and what becomes of the text."""

    expression: str
    form: Form = Form.VALUE

    def of(self, column: str) -> str:
        """The expression for a column, which is quoted."""
        return self.expression.replace("{}", column)


@dataclass(frozen=True)
class Wanted:
    """The rows of a table that are read.

    Attributes:
        table: both parts of its name.
        columns: expressions, each with the name that its column gets.
        key: the expressions of the key's values.
        range: the column, quoted, by whose ranges several connections read; None for one.
    """

    table: tuple[str, str]
    columns: Mapping[str, str]
    key: tuple[str, ...]
    range: str | None = None


@dataclass(frozen=True)
class Position:
    """How far a database's log has got: PostgreSQL's LSN as a number, or the last number of its own GTIDs.

    Attributes:
        number: the position.
        log: for GTIDs the log's name as markers have it, `gtid:<uuid>` or `gtid:<domain>`.
    """

    number: int
    log: str | None = None

    def __str__(self) -> str:
        """Write it as the database does."""
        if self.log is not None:
            return f"{self.log}:{self.number}"
        return f"{self.number >> 32:X}/{self.number & 0xFFFFFFFF:X}"


class Dialect:
    """The SQL of one kind of database; `PostgreSQL`, `MySQL` and `MariaDB` are all there are."""

    driver: str
    mark: str
    #: Run once in every connection that reads rows.
    session: str

    def quoted(self, name: str) -> str:
        """A name of the database; raise InvalidName for what no identifier can be."""
        quote(name)
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    def reading(self, kind: str, ddl: str, *, clamp: bool = False) -> Reading | str:
        """How a column is compared, or why it is not.

        Args:
            kind: its type in the database.
            ddl: its type in the mirror.
            clamp: whether times out of range are the nearest that is in range; NULL otherwise.
        """
        raise NotImplementedError

    def plain_text(self, kind: str) -> Reading | None:
        """How the text of a column is read that the connector sends alike in all of its modes; None for other types."""
        for ddl in ("string", "smallint"):
            found = self.reading(kind, ddl)
            if isinstance(found, Reading) and found.form is Form.VALUE:
                return found
        return None

    def columns(self, table: tuple[str, str]) -> str:
        """A query for the columns of a table: `name` and `kind`, in their order."""
        raise NotImplementedError

    def timeouts(self, silent_seconds: int) -> Mapping[str, str]:
        """Properties of the driver that end a wait: for a connection, and for an answer of which nothing comes."""
        raise NotImplementedError

    def address(self, url: str, properties: Mapping[str, str]) -> str:
        """What Spark is to connect to, with those of the properties that it would not pass on as they are written."""
        raise NotImplementedError

    def position(self) -> str:
        """A query for how far the log has got, as `position_of` reads it."""
        raise NotImplementedError

    def bucket(self, key: Sequence[str]) -> str:
        """The bucket of a row, from the expressions of its key's values."""
        raise NotImplementedError

    def rows(self, wanted: Wanted, buckets: Sequence[int] | None = None) -> str:
        """A query for the rows of a table; of some buckets only, where they are named."""
        shown = [f"{expression} AS {self.quoted(name)}" for name, expression in wanted.columns.items()]
        shown += [f"{wanted.range} AS {self.quoted(RANGE)}"] if wanted.range is not None else []
        table = ".".join(self.quoted(part) for part in wanted.table)
        text = f"SELECT {', '.join(shown)} FROM {table}"
        if buckets is None:
            return text
        return f"{text} WHERE {self.bucket(wanted.key)} IN ({', '.join(str(int(at)) for at in buckets)})"

    def ends(self, wanted: Wanted) -> str:
        """A query for the lowest and the highest value of what a table is cut by, as text."""
        table = ".".join(self.quoted(part) for part in wanted.table)
        low, high = (self.text(f"{which}({wanted.range})") for which in ("MIN", "MAX"))
        return f"SELECT {low} AS low, {high} AS high FROM {table}"

    def ranges(self, low: int, high: int, count: int) -> list[str]:
        """Conditions that part the rows by the column RANGE, each row in exactly one; a single one for few values."""
        column = self.quoted(RANGE)
        step = max((high - low + count) // count, 1)
        cuts = [low + step * at for at in range(1, count) if low + step * at <= high]
        if not cuts:
            return ["1 = 1"]
        between = [f"{column} >= {start} AND {column} < {end}" for start, end in itertools.pairwise(cuts)]
        return [f"{column} < {cuts[0]} OR {column} IS NULL", *between, f"{column} >= {cuts[-1]}"]

    def text(self, expression: str) -> str:
        """An expression as text."""
        raise NotImplementedError


#: How long a driver waits for a connection.
CONNECT_SECONDS = 30
#: Which server answers, in every dialect.
SERVER = "SELECT VERSION() AS at"


def only(*ddls: str) -> Callable[[str], bool]:
    """Whether a type of the mirror is one of these."""
    return lambda ddl: ddl in ddls


def is_number(ddl: str) -> bool:
    """Whether a type of the mirror may have the digits of a whole number."""
    return ddl in {"int", "bigint", "double", "string"} or ddl.startswith("decimal")


def kept(low: str, high: str, text: str, ends: tuple[str, str], *, clamp: bool) -> str:
    """A time as text where a mirror can hold it; otherwise NULL, or the nearest that it can."""
    otherwise = f" WHEN {{}} < {low} THEN '{ends[0]}' WHEN {{}} > {high} THEN '{ends[1]}'" if clamp else ""
    return f"CASE WHEN {{}} BETWEEN {low} AND {high} THEN {text}{otherwise} END"


def hexadecimal(text: str) -> str:
    """A text's octets, as they may stand in a statement."""
    return text.encode().hex()


def other_type(kind: str, ddl: str) -> str:
    """Why a column is not compared: the mirror has it in a form that nothing tells of the database's."""
    return f"nothing says how a {kind} looks as {ddl}"


def position_of(told: str) -> Position | None:
    """The position that `Dialect.position` was answered with; None where the database keeps none.

    MariaDB tells the domain of its own changes, then the last GTID of each domain; MySQL its own uuid, then all GTIDs
    of each server. Only what this server writes counts: what it takes over from others may be of no topic of ours.
    """
    own, bar, logs = told.partition("|")
    if not bar:
        return Position(int(own)) if own.isdigit() else None
    for log in re.split(r"[,\s]+", logs):
        mariadb = re.fullmatch(r"(\d+)-\d+-(\d+)", log)
        if mariadb is not None and mariadb[1] == own:
            return Position(int(mariadb[2]), f"gtid:{own}")
        uuid, _, spans = log.partition(":")
        numbers = [int(number) for number in re.findall(r"(?:^|[:-])(\d+)(?=$|[:-])", spans)]
        if uuid.lower() == own.lower() and numbers and "-" in own:
            return Position(max(numbers), f"gtid:{own.lower()}")
    return None
