"""What a source database is asked: quoted, without values, and each type in the form that its mirror has."""

import re

import pytest

from cdc_materializer.dialects import DIALECTS, Form, MariaDB, MySQL, PostgreSQL, Reading, Wanted, position_of
from cdc_materializer.errors import InvalidName

POSTGRESQL, MYSQL = PostgreSQL(), MySQL()


@pytest.mark.parametrize(
    ("kind", "ddl", "form", "part"),
    [
        ("integer", "int", Form.VALUE, "{}::text"),
        ("bigint", "bigint", Form.VALUE, "{}::text"),
        ("numeric(12,2)", "decimal(12,2)", Form.NUMBER, "'Infinity'"),
        ("numeric", "string", Form.NUMBER, "'NaN'"),
        ("money", "decimal(19,2)", Form.NUMBER, "::numeric"),
        ("real", "float", Form.SINGLE, "{}::text"),
        ("double precision", "double", Form.VALUE, "{}::text"),
        ("boolean", "boolean", Form.VALUE, "{}::text"),
        ("bit(1)", "boolean", Form.VALUE, "B'1'"),
        ("bytea", "binary", Form.BYTES, "encode({}, 'hex')"),
        ("date", "date", Form.VALUE, "YYYY-MM-DD"),
        ("timestamp(3) without time zone", "timestamp_ntz", Form.VALUE, "SS.US"),
        ("timestamp with time zone", "timestamp", Form.VALUE, "AT TIME ZONE 'UTC'"),
        ("time(3) without time zone", "bigint", Form.VALUE, "1000000"),
        ("time with time zone", "string", Form.VALUE, "|| 'Z'"),
        ("interval", "bigint", Form.VALUE, "2629800000000"),
        ("interval(3)", "bigint", Form.VALUE, "2629800000000"),
        ("interval year to month", "bigint", Form.VALUE, "2629800000000"),
        ("interval day to second(3)", "bigint", Form.VALUE, "2629800000000"),
        ("character(5)", "string", Form.VALUE, "format('%s', {})"),
        ("uuid", "string", Form.VALUE, "format('%s', {})"),
        ("jsonb", "string", Form.VALUE, "format('%s', {})"),
        ("shop.order_status", "string", Form.VALUE, "format('%s', {})"),
    ],
)
def test_types_of_postgresql_are_read_in_the_form_of_the_mirror(kind: str, ddl: str, form: Form, part: str) -> None:
    """As text that the database writes."""
    reading = POSTGRESQL.reading(kind, ddl)

    assert isinstance(reading, Reading)
    assert (reading.form, part in reading.expression) == (form, True)


@pytest.mark.parametrize(
    ("kind", "ddl", "form", "part"),
    [
        ("int(11)", "int", Form.VALUE, "AS CHAR"),
        ("tinyint(1)", "boolean", Form.VALUE, "'true'"),
        ("tinyint(1)", "int", Form.VALUE, "AS CHAR"),
        ("bigint(20) unsigned", "decimal(20,0)", Form.VALUE, "AS CHAR"),
        ("bigint(20) unsigned", "bigint", Form.VALUE, "AS SIGNED"),
        ("decimal(12,2)", "decimal(12,2)", Form.NUMBER, "AS CHAR"),
        ("float", "float", Form.SINGLE, "+ 0e0"),
        ("double", "double", Form.VALUE, "AS CHAR"),
        ("varchar(20)", "string", Form.VALUE, "utf8mb4"),
        ("enum('a','b')", "string", Form.VALUE, "utf8mb4"),
        ("varbinary(10)", "binary", Form.BYTES, "HEX({})"),
        ("bit(1)", "boolean", Form.VALUE, "'true'"),
        ("datetime(6)", "timestamp_ntz", Form.VALUE, "%i:%s.%f"),
        ("timestamp", "timestamp", Form.VALUE, "+00:00"),
        ("time(6)", "bigint", Form.VALUE, "MICROSECOND"),
        ("year(4)", "int", Form.VALUE, "AS CHAR"),
        ("int(5) unsigned zerofill", "bigint", Form.VALUE, "CAST(({} + 0) AS CHAR)"),
        ("bigint(20) unsigned zerofill", "bigint", Form.VALUE, "CAST(CAST(({} + 0) AS SIGNED) AS CHAR)"),
        ("decimal(8,2) unsigned zerofill", "decimal(8,2)", Form.NUMBER, "CAST(({} + 0) AS CHAR)"),
        ("float unsigned zerofill", "float", Form.SINGLE, "CAST(({} + 0) + 0e0 AS CHAR)"),
    ],
)
def test_types_of_mysql_are_read_in_the_form_of_the_mirror(kind: str, ddl: str, form: Form, part: str) -> None:
    """As text that the database writes."""
    reading = MYSQL.reading(kind, ddl)

    assert isinstance(reading, Reading)
    assert (reading.form, part in reading.expression) == (form, True)


@pytest.mark.parametrize(
    ("database", "kind", "ddl"),
    [
        ("postgresql", "integer[]", "array<int>"),
        ("postgresql", "text[]", "string"),
        ("postgresql", "bit(12)", "binary"),
        ("postgresql", "bytea", "string"),
        ("postgresql", "interval", "string"),
        ("postgresql", "interval year to month", "string"),
        ("postgresql", "interval day to second(3)", "string"),
        ("postgresql", "tstzrange", "string"),
        ("postgresql", "tstzmultirange", "string"),
        ("postgresql", "hstore", "string"),
        ("postgresql", "numeric(12,2)", "bigint"),
        ("postgresql", "timestamp without time zone", "bigint"),
        ("mysql", "json", "string"),
        ("mysql", "bit(12)", "binary"),
        ("mysql", "int(5) unsigned zerofill", "binary"),
        ("mysql", "point", "struct<x:double,y:double>"),
        ("mysql", "varchar(3)", "binary"),
    ],
)
def test_a_type_without_one_text_is_left_out_with_the_reason(database: str, kind: str, ddl: str) -> None:
    """The connector's form of it is its own, or the mirror has it in another type."""
    found = DIALECTS[database].reading(kind, ddl)

    assert found == f"nothing says how a {kind} looks as {ddl}"


@pytest.mark.parametrize(
    ("database", "kind", "is_one"),
    [
        ("postgresql", "character varying(9)", True),
        ("postgresql", "bigint", True),
        ("postgresql", "numeric(10,2)", False),
        ("postgresql", "interval", False),
        ("postgresql", "time without time zone", False),
        ("mysql", "varchar(9)", True),
        ("mysql", "int(5) unsigned zerofill", True),
        ("mysql", "tinyint(4)", True),
        ("mysql", "tinyint(1)", False),
        ("mysql", "bigint(20) unsigned", False),
        ("mysql", "decimal(10,2)", False),
        ("mysql", "time", False),
    ],
)
def test_a_mask_is_made_only_of_what_every_mode_of_the_connector_sends_alike(
    database: str, kind: str, *, is_one: bool
) -> None:
    """Else the text that the mirror has masked may be another one than the database's."""
    assert (DIALECTS[database].plain_text(kind) is not None) == is_one


def test_times_out_of_range_are_null_or_the_nearest_end() -> None:
    """As the table's `special_values` says."""
    null, clamped = (POSTGRESQL.reading("date", "date", clamp=clamp) for clamp in (False, True))

    assert isinstance(null, Reading)
    assert isinstance(clamped, Reading)
    assert "THEN '9999-12-31'" in clamped.expression
    assert "THEN '9999-12-31'" not in null.expression


@pytest.mark.parametrize("database", DIALECTS)
def test_a_name_ends_only_at_its_end_and_a_value_is_hexadecimal(database: str) -> None:
    """Whatever a table, a schema or a column is called."""
    dialect = DIALECTS[database]
    mark, evil = dialect.mark, f"a'; DROP TABLE x; --{dialect.mark}\\"
    columns = dialect.columns((evil, evil))
    wanted = Wanted((evil, evil), {"c0": dialect.quoted(evil)}, (dialect.quoted(evil),))

    assert "DROP" not in columns
    assert columns.count(evil.encode().hex()) == 2
    quoted = f"{mark}{evil.replace(mark, mark * 2)}{mark}"
    assert re.sub(re.escape(quoted), "", dialect.rows(wanted)).count("DROP") == 0
    with pytest.raises(InvalidName):
        dialect.quoted("nul\0")


@pytest.mark.parametrize("database", DIALECTS)
@pytest.mark.parametrize(
    ("low", "high", "count"), [(1, 100, 4), (-7, 7, 3), (5, 5, 4), (0, 2, 8), (-(2**63), 2**63, 5)]
)
def test_ranges_take_each_row_once(database: str, low: int, high: int, count: int) -> None:
    """From below the lowest to above the highest, for rows that came since they were asked for."""
    conditions = DIALECTS[database].ranges(low, high, count)
    mark = DIALECTS[database].mark
    tests = [
        condition.replace(f"{mark}cdcm_at{mark}", "x").replace("OR x IS NULL", "").lower() for condition in conditions
    ]

    assert 1 <= len(conditions) <= count
    for x in {low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 10}:
        held = [eval(test.replace("1 = 1", "True"), {"x": x}) for test in tests]  # noqa: S307 - our own conditions
        assert held.count(True) == 1, (x, conditions)


def test_buckets_are_whole_numbers() -> None:
    """Nothing else gets into the condition that names them."""
    wanted = Wanted(("s", "t"), {"c0": '"id"::text'}, ('"id"::text',))

    assert POSTGRESQL.rows(wanted, (3, 17)).endswith("IN (3, 17)")


@pytest.mark.parametrize(
    ("told", "number", "log"),
    [
        ("27397184", 27397184, None),
        ("0|0-4242-57", 57, "gtid:0"),
        ("1|0-1-9,1-4242-57", 57, "gtid:1"),
        (
            (
                "3E11FA47-71CA-11E1-9E33-C80AA9429562|aaaaaaaa-71ca-11e1-9e33-c80aa9429562:1-99,\n"
                "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:11-18"
            ),
            18,
            "gtid:3e11fa47-71ca-11e1-9e33-c80aa9429562",
        ),
    ],
)
def test_a_position_is_what_the_server_itself_has_written(told: str, number: int, log: str | None) -> None:
    """PostgreSQL's LSN; of GTIDs the last one of its own domain or uuid."""
    found = position_of(told)

    assert found is not None
    assert (found.number, found.log) == (number, log)


@pytest.mark.parametrize("told", ["", "0|", "1|0-1-9", "3e11fa47-71ca-11e1-9e33-c80aa9429562|"])
def test_a_server_without_a_log_of_its_own_has_no_position(told: str) -> None:
    """Such as a replica that logs nothing."""
    assert position_of(told) is None


def test_each_server_is_asked_for_its_own_log() -> None:
    """MySQL knows no domains and MariaDB no uuid of its own, and each refuses the other's words."""
    assert "gtid_executed" in MYSQL.position()
    assert "gtid_binlog_pos" in MariaDB().position()
    assert "pg_current_wal_insert_lsn" in POSTGRESQL.position()


def test_a_slot_is_asked_for_by_its_name_as_digits() -> None:
    """Whatever it is called; without a name all of the database are."""
    name = "slot'; DROP TABLE x; --"

    assert name.encode().hex() in POSTGRESQL.slots(name)
    assert "DROP" not in POSTGRESQL.slots(name)
    assert "slot_name =" not in POSTGRESQL.slots(None)


@pytest.mark.parametrize(("database", "one_minute"), [("postgresql", "60"), ("mysql", "60000")])
def test_every_driver_gets_its_limits_in_its_own_unit(database: str, one_minute: str) -> None:
    """Without them it waits for ever for a server that has gone away."""
    limits = DIALECTS[database].timeouts(60)

    assert limits["socketTimeout"] == one_minute
    assert int(limits["connectTimeout"]) in {30, 30_000}
