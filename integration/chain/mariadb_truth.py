"""What MariaDB itself says of a table, column by column, in the form that a mirror of it must have."""

import json
from typing import Any

from integration.chain.sql import Session
from integration.chain.values import Column, Reading, Row, float_text, json_text, plain_number

_TEXT = "CAST({} AS CHAR)"
_MOMENT = "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')"
#: Zero dates are no dates: Debezium sends NULL for them where the column may be NULL.
_DATED = "IF(CAST({{}} AS CHAR) LIKE '0000-00-00%' OR CAST({{}} AS CHAR) LIKE '%-00%', NULL, {})"
_BINARY = Reading("LOWER(HEX({}))")
_FLOAT = Reading("CAST(CAST({} AS DOUBLE) AS CHAR)", float_text)
_NUMBER = Reading(_TEXT, plain_number)


def _bits(width: int) -> Reading:
    """The bytes, the lowest first and as many as the type's bits need, that a number becomes on the wire."""
    return Reading("HEX({})", lambda text: int(text, 16).to_bytes((width + 7) // 8, "little").hex())


_READINGS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal"), _NUMBER),
    **dict.fromkeys(("float", "double"), _FLOAT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BINARY),
    "bit(1)": Reading("IF({}, 'true', IF({} IS NULL, NULL, 'false'))"),
    "date": Reading(_DATED.format(_TEXT)),
    "datetime": Reading(_DATED.format(_MOMENT)),
    "timestamp": Reading(_DATED.format(f"CONCAT({_MOMENT}, '+00:00')")),
    "time": Reading("CAST(CAST(TIME_TO_SEC({}) * 1000000 AS SIGNED) AS CHAR)"),
    "year": _NUMBER,
    "json": Reading(_TEXT, json_text, json_text),
}


def reading_of(kind: str) -> Reading:
    """How a column of a MariaDB type, as the information schema writes it, is compared."""
    if kind.startswith("bit(") and kind != "bit(1)":
        return _bits(int(kind[4:-1]))
    return _READINGS.get(kind) or _READINGS.get(kind.partition("(")[0].partition(" ")[0]) or Reading(_TEXT)


def columns_of(session: Session, table: str) -> list[Column]:
    """The columns of a table of the session's database, in their order."""
    found = session.rows(
        "SELECT JSON_OBJECT('name', column_name, 'kind', column_type) FROM information_schema.columns"
        f" WHERE table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
    )
    kinds = [(str(row["name"]), str(row["kind"])) for row in found]
    return [Column(name, kind, reading_of(kind)) for name, kind in kinds]


def key_of(session: Session, table: str) -> list[str]:
    """The columns of a table's primary key, in their order."""
    return session.run(
        "SELECT column_name FROM information_schema.key_column_usage WHERE constraint_name = 'PRIMARY'"
        f" AND table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
    )


def rows_of(session: Session, table: str, columns: list[Column]) -> list[Row]:
    """The rows of a table, by the columns' readings."""
    pairs = ", ".join(f"'{column.name}', {column.reading.sql.replace('{}', f'`{column.name}`')}" for column in columns)
    return [*session.rows(f"SELECT JSON_OBJECT({pairs}) FROM `{table}`")]


def answer(session: Session, table: str) -> tuple[dict[str, Any], list[Row]]:
    """A table's description and its rows, each column as text, bytes in hex; the form of recorded truth."""
    columns = columns_of(session, table)
    described = [{"name": column.name, "type": column.kind} for column in columns]
    schema = {"table": table, "primary_key": key_of(session, table), "columns": described}
    texts = [f"'{column.name}', {_text_of(column)}" for column in columns]
    rows = session.rows(f"SELECT JSON_OBJECT({', '.join(texts)}) FROM `{table}`")
    return schema, sorted(rows, key=json.dumps)


def _text_of(column: Column) -> str:
    is_binary = column.reading is _BINARY or column.kind.startswith("bit")
    return f"HEX(`{column.name}`)" if is_binary else f"CAST(`{column.name}` AS CHAR)"
