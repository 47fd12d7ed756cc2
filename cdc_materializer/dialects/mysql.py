"""What MySQL and MariaDB are asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cdc_materializer.dialects.base import (
    BUCKETS,
    CONNECT_SECONDS,
    SEPARATOR,
    Dialect,
    Form,
    Reading,
    hexadecimal,
    is_number,
    only,
    other_type,
)

_CHARS = "CONVERT({} USING utf8mb4)"
_DATE_TIME = "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')"
#: Zero dates are no dates: the connector sends NULL for them where the column may be NULL.
_DATED = "IF(CAST({{}} AS CHAR) LIKE '0000-00-00%' OR CAST({{}} AS CHAR) LIKE '%-00%', NULL, {})"
_TIME = "TRUNCATE(TIME_TO_SEC({}), 0) * 1000000 + IF({} < 0, -1, 1) * MICROSECOND({})"


class MySQL(Dialect):
    """MySQL, and but for its log MariaDB."""

    driver = "org.mariadb.jdbc.Driver"
    mark = "`"
    session = "SET time_zone = '+00:00'"

    def reading(self, kind: str, ddl: str, *, clamp: bool = False) -> Reading | str:  # noqa: ARG002 - none is outside
        """As `Dialect` says."""
        base = re.split(r"\W", kind, maxsplit=1)[0]
        if kind.endswith(" zerofill"):
            # Its text has zeros before it, which are no part of the number.
            plain = self.reading(kind.removesuffix(" zerofill"), ddl)
            return other_type(kind, ddl) if isinstance(plain, str) else Reading(plain.of("({} + 0)"), plain.form)
        if base == "tinyint" and ddl == "boolean":
            return Reading("CASE WHEN {} = 0 THEN 'false' WHEN {} IS NOT NULL THEN 'true' END")
        if base == "bigint" and "unsigned" in kind and ddl == "bigint":
            # In this mode of the connector's, numbers past 2^63 come out negative.
            return Reading("CAST(CAST({} AS SIGNED) AS CHAR)")
        found = _MYSQL.get(kind) or (_MYSQL.get(base) if base != "bit" else None)
        return found[1] if found is not None and found[0](ddl) else other_type(kind, ddl)

    def plain_text(self, kind: str) -> Reading | None:
        """As `Dialect` says: a converter may send `tinyint(1)` as a boolean, and unsigned ones have three modes."""
        is_apart = kind.startswith("tinyint(1)") or (kind.startswith("bigint") and "unsigned" in kind)
        return None if is_apart else super().plain_text(kind)

    def columns(self, table: tuple[str, str]) -> str:
        """As `Dialect` says."""
        schema, name = (f"CONVERT(0x{hexadecimal(part)} USING utf8mb4)" for part in table)
        return (
            "SELECT CONVERT(column_name USING utf8mb4) AS name, CONVERT(column_type USING utf8mb4) AS kind"
            f" FROM information_schema.columns WHERE table_schema = {schema} AND table_name = {name}"
            " ORDER BY ordinal_position"
        )

    def timeouts(self, silent_seconds: int) -> Mapping[str, str]:
        """As `Dialect` says; this driver counts milliseconds."""
        return {"connectTimeout": f"{CONNECT_SECONDS}000", "socketTimeout": f"{silent_seconds}000"}

    def address(self, url: str, properties: Mapping[str, str]) -> str:  # noqa: ARG002 - this driver knows all spellings
        """As `Dialect` says: for this address only, Spark quotes names as MySQL does; to MariaDB `"name"` is a text."""
        return f"jdbc:mysql:{url.removeprefix('jdbc:mariadb:').removeprefix('jdbc:mysql:')}?permitMysqlScheme"

    def position(self) -> str:
        """As `Dialect` says."""
        return "SELECT CONCAT(@@GLOBAL.server_uuid, '|', @@GLOBAL.gtid_executed) AS at"

    def bucket(self, key: Sequence[str]) -> str:
        """As `Dialect` says."""
        text = f"CONCAT_WS(CHAR({SEPARATOR} USING utf8mb4), {', '.join(key)})"
        return f"CONV(SUBSTR(MD5({text}), 1, 2), 16, 10) % {BUCKETS}"

    def text(self, expression: str) -> str:
        """As `Dialect` says."""
        return f"CAST({expression} AS CHAR)"


class MariaDB(MySQL):
    """MariaDB, whose GTIDs are of domains and not of servers."""

    def position(self) -> str:
        """As `Dialect` says."""
        return "SELECT CONCAT(@@GLOBAL.gtid_domain_id, '|', @@GLOBAL.gtid_binlog_pos) AS at"


_MYSQL: Mapping[str, tuple[Callable[[str], bool], Reading]] = {
    **dict.fromkeys(
        ("tinyint", "smallint", "mediumint", "int", "bigint", "year"), (is_number, Reading("CAST({} AS CHAR)"))
    ),
    "decimal": (
        lambda ddl: ddl == "string" or ddl.startswith("decimal"),
        Reading("CAST({} AS CHAR)", Form.NUMBER),
    ),
    # As text a FLOAT has six digits; as a DOUBLE it has all of them.
    "float": (only("float", "double"), Reading("CAST({} + 0e0 AS CHAR)", Form.SINGLE)),
    "double": (only("double"), Reading("CAST({} AS CHAR)")),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"),
        (only("string"), Reading(_CHARS)),
    ),
    "uuid": (only("string"), Reading("CAST({} AS CHAR)")),
    **dict.fromkeys(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        (only("binary"), Reading("LOWER(HEX({}))", Form.BYTES)),
    ),
    "bit(1)": (only("boolean"), Reading("CASE WHEN {} IS NULL THEN NULL WHEN {} THEN 'true' ELSE 'false' END")),
    "date": (only("date"), Reading(_DATED.format("CAST({} AS CHAR)"))),
    "datetime": (only("timestamp_ntz"), Reading(_DATED.format(_DATE_TIME))),
    "timestamp": (only("timestamp"), Reading(_DATED.format(f"CONCAT({_DATE_TIME}, '+00:00')"))),
    "time": (only("bigint"), Reading(f"CAST(CAST({_TIME} AS SIGNED) AS CHAR)")),
}
