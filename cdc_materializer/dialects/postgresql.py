"""What PostgreSQL is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, urlencode

from cdc_materializer.dialects.base import (
    BUCKETS,
    CONNECT_SECONDS,
    SEPARATOR,
    Dialect,
    Form,
    Reading,
    hexadecimal,
    is_number,
    kept,
    only,
    other_type,
)

_YEARS = ("0001-01-01", "9999-12-31")
_MICROS = ("0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999")
_WHOLE = {"smallint", "integer", "bigint", "oid"}
#: Debezium counts a month as a twelfth of 365.25 days.
_DURATION = (
    "((extract(year from {}) * 12 + extract(month from {})) * 2629800000000"
    " + extract(day from {}) * 86400000000 + extract(hour from {}) * 3600000000"
    " + extract(minute from {}) * 60000000 + extract(second from {}) * 1000000)::bigint::text"
)
#: Types whose text the connector writes in a way of its own, or in the zone of its own session.
_OWN_TEXT = {
    *("interval", "bit", "bit varying", "hstore", "point", "line", "circle", "geometry", "geography"),
    *("tstzrange", "tstzmultirange"),
}


class PostgreSQL(Dialect):
    """PostgreSQL and what speaks its SQL."""

    driver = "org.postgresql.Driver"
    mark = '"'
    session = "SET TIME ZONE 'UTC'"

    def reading(self, kind: str, ddl: str, *, clamp: bool = False) -> Reading | str:
        """As `Dialect` says."""
        base = kind.partition("(")[0] + kind.partition(")")[2]  # timestamp(3) without time zone
        if base.startswith("interval "):  # year to month, and so on: which parts it may have changes no form
            base = "interval"
        found = _POSTGRESQL.get(kind) or _POSTGRESQL.get(base)
        if found is not None:
            fits, reading = found
            return reading(clamp) if fits(ddl) else other_type(kind, ddl)
        if ddl != "string" or kind.endswith("[]") or base in _OWN_TEXT:
            return other_type(kind, ddl)
        # The type's own output function: a cast would take the blanks from char(n) and add a mask to inet.
        return Reading("CASE WHEN {} IS NOT NULL THEN format('%s', {}) END")

    def columns(self, table: tuple[str, str]) -> str:
        """As `Dialect` says; a domain counts as the type that it is made of."""
        schema, name = (f"convert_from(decode('{hexadecimal(part)}', 'hex'), 'UTF8')" for part in table)
        kind = "format_type({0}atttypid, {0}atttypmod)"
        domain = "format_type(t.typbasetype, t.typtypmod)"
        return (
            f"SELECT a.attname::text AS name, CASE WHEN t.typtype = 'd' THEN {domain} ELSE {kind.format('a.')} END"
            " AS kind FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid"
            f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND c.relname = {name}"
            " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )

    def timeouts(self, silent_seconds: int) -> Mapping[str, str]:
        """As `Dialect` says; this driver counts seconds."""
        return {"connectTimeout": str(CONNECT_SECONDS), "socketTimeout": str(silent_seconds)}

    def address(self, url: str, properties: Mapping[str, str]) -> str:
        """As `Dialect` says: Spark passes names on in small letters (SPARK-55830), and this driver knows no such."""
        mixed = {name: value for name, value in properties.items() if name != name.lower()}
        return f"{url}?{urlencode(mixed, quote_via=quote)}" if mixed else url

    def position(self) -> str:
        """As `Dialect` says: what is visible was committed before the place that is written to next."""
        return "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint::text AS at"

    def slots(self, slot: str | None) -> str:
        """A query for how far replication slots of this database are confirmed: `name` and `at`."""
        own = f" AND slot_name = convert_from(decode('{hexadecimal(slot)}', 'hex'), 'UTF8')" if slot is not None else ""
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


def _always(sql: str, form: Form = Form.VALUE) -> Callable[[bool], Reading]:
    return lambda _clamp: Reading(sql, form)


def _moment(text: str, zone: str) -> Callable[[bool], Reading]:
    low, high = (f"timestamp{'tz' if zone else ''} '{end}{zone}'" for end in _MICROS)
    ends = (_MICROS[0] + zone, _MICROS[1] + zone)
    shown = f"to_char({text}, 'YYYY-MM-DD HH24:MI:SS.US') || '{zone}'"
    return lambda clamp: Reading(kept(low, high, shown, ends, clamp=clamp))


_POSTGRESQL: Mapping[str, tuple[Callable[[str], bool], Callable[[bool], Reading]]] = {
    **{kind: (is_number, _always("{}::text")) for kind in _WHOLE},
    "numeric": (
        lambda ddl: is_number(ddl) and ddl not in {"int", "bigint", "double"},
        _always("CASE WHEN {}::text NOT IN ('NaN', 'Infinity', '-Infinity') THEN {}::text END", Form.NUMBER),
    ),
    "money": (lambda ddl: ddl.startswith("decimal"), _always("{}::numeric::text", Form.NUMBER)),
    "real": (only("float", "double"), _always("{}::text", Form.SINGLE)),
    "double precision": (only("double"), _always("{}::text")),
    "boolean": (only("boolean"), _always("{}::text")),
    "bit(1)": (only("boolean"), _always("CASE {} WHEN B'1' THEN 'true' WHEN B'0' THEN 'false' END")),
    "bytea": (only("binary"), _always("encode({}, 'hex')", Form.BYTES)),
    "date": (
        only("date"),
        lambda clamp: Reading(
            kept(f"date '{_YEARS[0]}'", f"date '{_YEARS[1]}'", "to_char({}, 'YYYY-MM-DD')", _YEARS, clamp=clamp)
        ),
    ),
    "timestamp without time zone": (only("timestamp_ntz"), _moment("{}", "")),
    "timestamp with time zone": (only("timestamp"), _moment("{} AT TIME ZONE 'UTC'", "+00:00")),
    "time without time zone": (only("bigint"), _always("(extract(epoch from {}) * 1000000)::bigint::text")),
    "time with time zone": (only("string"), _always("({} AT TIME ZONE 'UTC')::time::text || 'Z'")),
    "interval": (only("bigint"), _always(_DURATION)),
}
