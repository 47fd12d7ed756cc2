"""What PostgreSQL itself says of a table, column by column, in the form that a mirror of it must have."""

import json
from typing import Any

from integration.chain.sql import Session
from integration.chain.values import Column, Reading, Row, float_text, json_text, plain_number

#: A value as the type's own output function writes it: what the database answers, without a cast's changes.
_OUTPUT = "CASE WHEN {} IS NOT NULL THEN format('%s', {}) END"
#: Years that a mirror can hold; others, and the infinities, are NULL there (setting `special_values: null`).
_KEPT = "CASE WHEN {{}} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999' THEN {} END"
_MOMENT = "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')"
_MICROS = "(extract(epoch from {}) * 1000000)::bigint::text"
#: Debezium counts a month as a twelfth of 365.25 days.
_DURATION = (
    "((extract(year from {}) * 12 + extract(month from {})) * 2629800000000"
    " + extract(day from {}) * 86400000000 + extract(hour from {}) * 3600000000"
    " + extract(minute from {}) * 60000000 + extract(second from {}) * 1000000)::bigint::text"
)


def _bits(text: str) -> str:
    """The bytes, the lowest first and no more than needed, that a string of bits becomes on the wire."""
    number = int(text or "0", 2)
    return number.to_bytes((number.bit_length() + 7) // 8, "little").hex()


def _elements(text: str) -> str:
    return json.dumps(json.loads(text))


def _numbers(text: str) -> str:
    return json.dumps([item and plain_number(item) for item in json.loads(text)])


def _point(text: str) -> str:
    """Only the coordinates of what a mirror holds of a point; its other fields repeat them."""
    point = json.loads(text)
    return json.dumps({"x": float_text(point["x"]), "y": float_text(point["y"])})


_IDENTITIES = {"d": "default", "f": "full", "n": "nothing", "i": "index"}
_READINGS = {
    "numeric": Reading(
        "CASE WHEN {} NOT IN ('NaN', 'Infinity', '-Infinity') THEN {}::text END", plain_number, plain_number
    ),
    "boolean": Reading("{}::text"),
    "money": Reading("{}::numeric::text", plain_number),
    "real": Reading("{}::float8::text", float_text),
    "double precision": Reading("{}::text", float_text),
    "bytea": Reading("encode({}, 'hex')"),
    "date": Reading(_KEPT.format("{}::text")),
    "timestamp without time zone": Reading(_KEPT.format(_MOMENT)),
    "timestamp with time zone": Reading(_KEPT.format(_MOMENT.format("{} AT TIME ZONE 'UTC'") + " || '+00:00'")),
    "time without time zone": Reading(_MICROS),
    "time with time zone": Reading("({} AT TIME ZONE 'UTC')::time::text || 'Z'"),
    "interval": Reading(_DURATION),
    "bit(1)": Reading("CASE {} WHEN B'1' THEN 'true' WHEN B'0' THEN 'false' END"),
    "bit": Reading("{}::text", _bits),
    "bit varying": Reading("{}::text", _bits),
    "hstore": Reading("hstore_to_json({})::text", json_text, json_text),
    "point": Reading(
        "CASE WHEN {} IS NOT NULL THEN json_build_object('x', ({})[0]::text, 'y', ({})[1]::text)::text END",
        _point,
        _point,
    ),
}


def reading_of(kind: str) -> Reading:
    """How a column of a PostgreSQL type, as ``format_type`` writes it, is compared."""
    if kind.endswith("[]"):
        return Reading("array_to_json({}::text[])::text", _numbers if kind.startswith("numeric") else _elements)
    base = kind.partition("(")[0] + kind.partition(")")[2]  # timestamp(3) without time zone
    return _READINGS.get(kind) or _READINGS.get(base) or Reading(_OUTPUT)


def columns_of(session: Session, table: str) -> list[Column]:
    """The columns of a table, with its schema, in their order; a domain counts as the type that it is made of."""
    found = session.rows(
        "SELECT json_build_object('name', a.attname, 'kind', format_type("
        "CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END,"
        " CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END))"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        f" WHERE a.attrelid = '{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
    kinds = [(str(row["name"]), str(row["kind"])) for row in found]
    return [Column(name, kind, reading_of(kind)) for name, kind in kinds]


def key_of(session: Session, table: str) -> list[str]:
    """The columns of a table's primary key, in their order."""
    return session.run(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
        f" WHERE i.indrelid = '{table}'::regclass AND i.indisprimary ORDER BY array_position(i.indkey, a.attnum)"
    )


def rows_of(session: Session, table: str, columns: list[Column]) -> list[Row]:
    """The rows of a table, by the columns' readings."""
    expressions = [_expression(column) for column in columns]
    return [*session.rows(f"SELECT row_to_json(r) FROM (SELECT {', '.join(expressions)} FROM {table}) r")]


def answer(session: Session, table: str) -> tuple[dict[str, Any], list[Row]]:
    """A table's description and its rows, each column as ``column::text``; the form of recorded truth."""
    described = session.rows(
        "SELECT json_build_object('name', attname, 'type', format_type(atttypid, atttypmod), 'notnull', attnotnull)"
        f" FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    identity = session.value(f"SELECT relreplident FROM pg_class WHERE oid = '{table}'::regclass")
    schema = {
        "table": table.rpartition(".")[2],
        "primary_key": key_of(session, table),
        "replica_identity": _IDENTITIES[identity],
        "columns": described,
    }
    texts = ", ".join(f'"{column["name"]}"::text AS "{column["name"]}"' for column in described)
    return schema, [*session.rows(f"SELECT row_to_json(r) FROM (SELECT {texts} FROM {table}) r ORDER BY r::text")]


def _expression(column: Column) -> str:
    name = '"' + column.name.replace('"', '""') + '"'
    return f"{column.reading.sql.replace('{}', name)} AS {name}"
