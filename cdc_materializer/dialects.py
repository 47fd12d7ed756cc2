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

_YEARS = ("0001-01-01", "9999-12-31")
_MICROS = ("0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999")


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
    """The SQL of one kind of database; `PostgreSQL` and `MySQL` (with MariaDB) are all there are."""

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

    def columns(self, table: tuple[str, str]) -> str:
        """A query for the columns of a table: `name` and `kind`, in their order."""
        raise NotImplementedError

    def position(self, server: str) -> str:
        """A query for how far the log has got, as `position_of` reads it; ``server`` is what `SERVER` has given."""
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


#: Which server answers, in every dialect.
SERVER = "SELECT VERSION() AS at"


def _is_number(ddl: str) -> bool:
    return ddl in {"int", "bigint", "double", "string"} or ddl.startswith("decimal")


def _kept(low: str, high: str, text: str, ends: tuple[str, str], *, clamp: bool) -> str:
    """A time as text where a mirror can hold it; otherwise NULL, or the nearest that it can."""
    otherwise = f" WHEN {{}} < {low} THEN '{ends[0]}' WHEN {{}} > {high} THEN '{ends[1]}'" if clamp else ""
    return f"CASE WHEN {{}} BETWEEN {low} AND {high} THEN {text}{otherwise} END"


def _hex(text: str) -> str:
    return text.encode().hex()


def _other_type(kind: str, ddl: str) -> str:
    return f"nothing says how a {kind} looks as {ddl}"


# --- PostgreSQL
# -------------------------------------------------------------------------------------------------------------------

_WHOLE = {"smallint", "integer", "bigint", "oid"}
#: Debezium counts a month as a twelfth of 365.25 days.
_DURATION = (
    "((extract(year from {}) * 12 + extract(month from {})) * 2629800000000"
    " + extract(day from {}) * 86400000000 + extract(hour from {}) * 3600000000"
    " + extract(minute from {}) * 60000000 + extract(second from {}) * 1000000)::bigint::text"
)
#: Types whose text the connector writes in a way of its own.
_OWN_TEXT = {"interval", "bit", "bit varying", "hstore", "point", "line", "circle", "geometry", "geography"}


class PostgreSQL(Dialect):
    """PostgreSQL and what speaks its SQL."""

    driver = "org.postgresql.Driver"
    mark = '"'
    session = "SET TIME ZONE 'UTC'"

    def reading(self, kind: str, ddl: str, *, clamp: bool = False) -> Reading | str:
        """As `Dialect` says."""
        base = kind.partition("(")[0] + kind.partition(")")[2]  # timestamp(3) without time zone
        found = _POSTGRESQL.get(kind) or _POSTGRESQL.get(base)
        if found is not None:
            fits, reading = found
            return reading(clamp) if fits(ddl) else _other_type(kind, ddl)
        if ddl != "string" or kind.endswith("[]") or base in _OWN_TEXT:
            return _other_type(kind, ddl)
        # The type's own output function: a cast would take the blanks from char(n) and add a mask to inet.
        return Reading("CASE WHEN {} IS NOT NULL THEN format('%s', {}) END")

    def columns(self, table: tuple[str, str]) -> str:
        """As `Dialect` says; a domain counts as the type that it is made of."""
        schema, name = (f"convert_from(decode('{_hex(part)}', 'hex'), 'UTF8')" for part in table)
        kind = "format_type({0}atttypid, {0}atttypmod)"
        domain = "format_type(t.typbasetype, t.typtypmod)"
        return (
            f"SELECT a.attname::text AS name, CASE WHEN t.typtype = 'd' THEN {domain} ELSE {kind.format('a.')} END"
            " AS kind FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid"
            f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND c.relname = {name}"
            " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )

    def position(self, server: str) -> str:  # noqa: ARG002 - one signature for all
        """As `Dialect` says: what is visible was committed before the place that is written to next."""
        return "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint::text AS at"

    def slots(self, slot: str | None) -> str:
        """A query for how far replication slots of this database are confirmed: `name` and `at`."""
        own = f" AND slot_name = convert_from(decode('{_hex(slot)}', 'hex'), 'UTF8')" if slot is not None else ""
        return (
            "SELECT slot_name::text AS name, pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint::text AS at"
            " FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database() AND NOT temporary"
            f"{own}"
        )

    def bucket(self, key: Sequence[str]) -> str:
        """As `Dialect` says."""
        text = f"convert_to(concat_ws(chr({SEPARATOR}), {', '.join(key)}), 'UTF8')"
        return f"('x' || substr(md5({text}), 1, 2))::bit(8)::int % {BUCKETS}"

    def text(self, expression: str) -> str:
        """As `Dialect` says."""
        return f"({expression})::text"


def _only(*ddls: str) -> Callable[[str], bool]:
    return lambda ddl: ddl in ddls


def _always(sql: str, form: Form = Form.VALUE) -> Callable[[bool], Reading]:
    return lambda _clamp: Reading(sql, form)


def _moment(text: str, zone: str) -> Callable[[bool], Reading]:
    low, high = (f"timestamp{'tz' if zone else ''} '{end}{zone}'" for end in _MICROS)
    ends = (_MICROS[0] + zone, _MICROS[1] + zone)
    shown = f"to_char({text}, 'YYYY-MM-DD HH24:MI:SS.US') || '{zone}'"
    return lambda clamp: Reading(_kept(low, high, shown, ends, clamp=clamp))


_POSTGRESQL: Mapping[str, tuple[Callable[[str], bool], Callable[[bool], Reading]]] = {
    **{kind: (_is_number, _always("{}::text")) for kind in _WHOLE},
    "numeric": (
        lambda ddl: _is_number(ddl) and ddl not in {"int", "bigint", "double"},
        _always("CASE WHEN {}::text NOT IN ('NaN', 'Infinity', '-Infinity') THEN {}::text END", Form.NUMBER),
    ),
    "money": (lambda ddl: ddl.startswith("decimal"), _always("{}::numeric::text", Form.NUMBER)),
    "real": (_only("float", "double"), _always("{}::text", Form.SINGLE)),
    "double precision": (_only("double"), _always("{}::text")),
    "boolean": (_only("boolean"), _always("{}::text")),
    "bit(1)": (_only("boolean"), _always("CASE {} WHEN B'1' THEN 'true' WHEN B'0' THEN 'false' END")),
    "bytea": (_only("binary"), _always("encode({}, 'hex')", Form.BYTES)),
    "date": (
        _only("date"),
        lambda clamp: Reading(
            _kept(f"date '{_YEARS[0]}'", f"date '{_YEARS[1]}'", "to_char({}, 'YYYY-MM-DD')", _YEARS, clamp=clamp)
        ),
    ),
    "timestamp without time zone": (_only("timestamp_ntz"), _moment("{}", "")),
    "timestamp with time zone": (_only("timestamp"), _moment("{} AT TIME ZONE 'UTC'", "+00:00")),
    "time without time zone": (_only("bigint"), _always("(extract(epoch from {}) * 1000000)::bigint::text")),
    "time with time zone": (_only("string"), _always("({} AT TIME ZONE 'UTC')::time::text || 'Z'")),
    "interval": (_only("bigint"), _always(_DURATION)),
}


# --- MySQL and MariaDB
# -------------------------------------------------------------------------------------------------------------------

_CHARS = "CONVERT({} USING utf8mb4)"
_DATE_TIME = "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')"
#: Zero dates are no dates: the connector sends NULL for them where the column may be NULL.
_DATED = "IF(CAST({{}} AS CHAR) LIKE '0000-00-00%' OR CAST({{}} AS CHAR) LIKE '%-00%', NULL, {})"
_TIME = "TRUNCATE(TIME_TO_SEC({}), 0) * 1000000 + IF({} < 0, -1, 1) * MICROSECOND({})"


class MySQL(Dialect):
    """MySQL and MariaDB."""

    driver = "org.mariadb.jdbc.Driver"
    mark = "`"
    session = "SET time_zone = '+00:00'"

    def reading(self, kind: str, ddl: str, *, clamp: bool = False) -> Reading | str:  # noqa: ARG002 - none is outside
        """As `Dialect` says."""
        base = re.split(r"\W", kind, maxsplit=1)[0]
        if base == "tinyint" and ddl == "boolean":
            return Reading("CASE WHEN {} = 0 THEN 'false' WHEN {} IS NOT NULL THEN 'true' END")
        if base == "bigint" and "unsigned" in kind and ddl == "bigint":
            # In this mode of the connector's, numbers past 2^63 come out negative.
            return Reading("CAST(CAST({} AS SIGNED) AS CHAR)")
        found = _MYSQL.get(kind) or (_MYSQL.get(base) if base != "bit" else None)
        return found[1] if found is not None and found[0](ddl) else _other_type(kind, ddl)

    def columns(self, table: tuple[str, str]) -> str:
        """As `Dialect` says."""
        schema, name = (f"CONVERT(0x{_hex(part)} USING utf8mb4)" for part in table)
        return (
            "SELECT CONVERT(column_name USING utf8mb4) AS name, CONVERT(column_type USING utf8mb4) AS kind"
            f" FROM information_schema.columns WHERE table_schema = {schema} AND table_name = {name}"
            " ORDER BY ordinal_position"
        )

    def position(self, server: str) -> str:
        """As `Dialect` says."""
        if "mariadb" in server.lower():
            return "SELECT CONCAT(@@GLOBAL.gtid_domain_id, '|', @@GLOBAL.gtid_binlog_pos) AS at"
        return "SELECT CONCAT(@@GLOBAL.server_uuid, '|', @@GLOBAL.gtid_executed) AS at"

    def bucket(self, key: Sequence[str]) -> str:
        """As `Dialect` says."""
        text = f"CONCAT_WS(CHAR({SEPARATOR} USING utf8mb4), {', '.join(key)})"
        return f"CONV(SUBSTR(MD5({text}), 1, 2), 16, 10) % {BUCKETS}"

    def text(self, expression: str) -> str:
        """As `Dialect` says."""
        return f"CAST({expression} AS CHAR)"


_MYSQL: Mapping[str, tuple[Callable[[str], bool], Reading]] = {
    **dict.fromkeys(
        ("tinyint", "smallint", "mediumint", "int", "bigint", "year"), (_is_number, Reading("CAST({} AS CHAR)"))
    ),
    "decimal": (
        lambda ddl: ddl == "string" or ddl.startswith("decimal"),
        Reading("CAST({} AS CHAR)", Form.NUMBER),
    ),
    # As text a FLOAT has six digits; as a DOUBLE it has all of them.
    "float": (_only("float", "double"), Reading("CAST({} + 0e0 AS CHAR)", Form.SINGLE)),
    "double": (_only("double"), Reading("CAST({} AS CHAR)")),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
        (_only("string"), Reading(_CHARS)),
    ),
    "uuid": (_only("string"), Reading("CAST({} AS CHAR)")),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        (_only("binary"), Reading("LOWER(HEX({}))", Form.BYTES)),
    ),
    "bit(1)": (_only("boolean"), Reading("CASE WHEN {} IS NULL THEN NULL WHEN {} THEN 'true' ELSE 'false' END")),
    "date": (_only("date"), Reading(_DATED.format("CAST({} AS CHAR)"))),
    "datetime": (_only("timestamp_ntz"), Reading(_DATED.format(_DATE_TIME))),
    "timestamp": (_only("timestamp"), Reading(_DATED.format(f"CONCAT({_DATE_TIME}, '+00:00')"))),
    "time": (_only("bigint"), Reading(f"CAST(CAST({_TIME} AS SIGNED) AS CHAR)")),
}

DIALECTS: Mapping[str, Dialect] = {"postgresql": PostgreSQL(), "mysql": MySQL()}


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
