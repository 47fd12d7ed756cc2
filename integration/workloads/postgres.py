"""The life of a shop in PostgreSQL: what every live test of that database does, in three parts and a start.

Rows that an ``ALTER TABLE`` changes without an event are touched afterwards, so that the log tells them too.
"""

from integration.chain.postgres import Postgres
from integration.chain.sql import sessions

#: Tables of the shop; each has a mirror.
TABLES = ("customers", "orders", "order_lines", "payments", "carts", "products", "types_zoo", "points")

_SCHEMA = """
CREATE EXTENSION hstore;
CREATE SCHEMA shop;
CREATE TYPE shop.order_status AS ENUM ('new', 'paid', 'shipped');
CREATE DOMAIN shop.email AS text CHECK (VALUE LIKE '%@%');
CREATE TABLE shop.heartbeat (id int PRIMARY KEY);
CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL, email shop.email, since timestamptz);
CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int, status shop.order_status NOT NULL DEFAULT 'new',
    amount numeric(12, 2) NOT NULL, note text, doc jsonb, tags text[], placed timestamp(6));
ALTER TABLE shop.orders ALTER note SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL,
    ALTER tags SET STORAGE EXTERNAL;
CREATE TABLE shop.order_lines (orders bigint, line int, sku text, qty smallint NOT NULL, PRIMARY KEY (orders, line));
CREATE TABLE shop.payments (id bigint PRIMARY KEY, amount money, memo text);
ALTER TABLE shop.payments REPLICA IDENTITY FULL, ALTER memo SET STORAGE EXTERNAL;
CREATE TABLE shop.carts (id int PRIMARY KEY, items text);
CREATE TABLE shop.products (id int PRIMARY KEY, name varchar(20), stock int, price numeric(8, 2),
    weight real, old text);
CREATE TABLE shop.types_zoo (id int PRIMARY KEY,
    c_bool boolean, c_int2 smallint, c_int4 int, c_int8 bigint, c_oid oid, c_float4 real, c_float8 double precision,
    c_numeric numeric(38, 10), c_numeric_any numeric, c_money money,
    c_char char(5), c_varchar varchar(10), c_text text, c_bytea bytea, c_uuid uuid, c_enum shop.order_status,
    c_domain shop.email, c_json json, c_jsonb jsonb, c_xml xml, c_inet inet, c_cidr cidr, c_macaddr macaddr,
    c_bit1 bit(1), c_bit12 bit(12), c_varbit bit varying(20), c_tsvector tsvector, c_hstore hstore,
    c_date date, c_time time, c_time3 time(3), c_timetz timetz,
    c_ts timestamp, c_ts3 timestamp(3), c_tstz timestamptz,
    c_interval interval, c_int4range int4range, c_tstzrange tstzrange,
    c_ints int[], c_texts text[], c_uuids uuid[], c_dates date[], c_numerics numeric(10, 2)[]);
CREATE TABLE shop.points (id int PRIMARY KEY, place point)
"""

_ZOO_PLAIN = """
true, -5, 123456, 9007199254740993, 4294967295, 1.1, 0.1,
1234567890.0123456789, 1.50, '$1,234.56',
'ab', 'äöü€😀', E'tab\\t newline\\n quote" back\\\\ nul-free', '\\x00ff10',
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'paid',
'a@b', '{"b": 1,  "a": [1.0, null]}', '{"b": 1, "a": 12345678901234567890.12}', '<a>t</a>', '10.1.2.3', '10.1.0.0/16',
'08:00:2b:01:02:03', B'1', B'000100100011', B'101', 'a fat cat', 'k=>v, n=>NULL',
'2026-03-29', '23:59:59.123456', '01:02:03.004', '11:51:30.123789+02',
'2026-03-29 02:30:00.000001', '1969-12-31 23:59:59.999',
'2026-03-29 02:30:00.5+02', 'P1Y2M3DT4H5M6.789S', '[1,5)', '[2026-01-01 00:00+00,)',
'{1,NULL,3}', '{a,NULL,"x,\\"y\\"",""}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '{2026-01-01}', '{1.50,NULL}'
"""
_ZOO_EXTREME = """
false, -32768, -2147483648, -9223372036854775808, 0, '-Infinity', 'NaN', -9999999999999999999999999999.9999999999,
-123456789012345678901234.000001, '-$0.01', '', '', '', '\\x', '00000000-0000-0000-0000-000000000000', 'new',
'@', 'null', '{}', '<a/>', '::1', '::/0', '00:00:00:00:00:00', B'0', B'000000000000', B'', '', '',
'0001-01-01', '24:00:00', '00:00:00', '00:00:00+15', '9999-12-31 23:59:59.999999', '0001-01-01 00:00:00',
'0001-01-01 00:00:00+00', 'P0D', 'empty', '(,)',
'{}', '{}', '{}', '{}', '{}'
"""
_ZOO_SPECIAL = """
NULL, NULL, NULL, NULL, NULL, 'Infinity', '-Infinity', NULL, 100, NULL,
NULL, NULL, '__debezium', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
'infinity', NULL, NULL, NULL, 'infinity', '-infinity', 'infinity', 'P-1Y2M-3DT-4H', NULL, NULL,
NULL, NULL, NULL, NULL, NULL
"""
_ZOO_OUTSIDE = """
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0.000, NULL,
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
'0044-03-15 BC', NULL, NULL, NULL, '10000-01-01', '0001-12-31 BC', '10000-01-01 00:00+00', NULL, NULL, NULL,
NULL, NULL, NULL, NULL, NULL
"""
_ZOO = (_ZOO_PLAIN, _ZOO_EXTREME, _ZOO_SPECIAL, _ZOO_OUTSIDE)
#: So long that PostgreSQL keeps it out of line, and sends it only when it changed.
_LONG = "repeat(md5({}::text), 400)"


def _zoo(first: int) -> str:
    """Four rows, with keys from ``first`` on."""
    rows = ", ".join(f"({first + number}, {values})" for number, values in enumerate(_ZOO))
    return f"INSERT INTO shop.types_zoo VALUES {rows}"


def begin(server: Postgres, database: str) -> None:
    """Make the database, with some rows in each table for the first snapshot."""
    server.run("postgres", f"CREATE DATABASE {database}")
    server.run(
        database,
        *_SCHEMA.split(";\n"),
        "INSERT INTO shop.customers SELECT n, 'Customer ' || n, 'c' || n || '@example.test', '2026-01-01 10:00+00'"
        " FROM generate_series(1, 20) n",
        f"INSERT INTO shop.orders SELECT n, n, 'new', n * 1.25, {_LONG.format('n')},"
        " jsonb_build_object('n', n), array_fill('t'::text, ARRAY[n]), '2026-01-02 03:04:05.000006'"
        " FROM generate_series(1, 20) n",
        "INSERT INTO shop.order_lines SELECT n, l, 'sku-' || l, l"
        " FROM generate_series(1, 10) n, generate_series(1, 3) l",
        f"INSERT INTO shop.payments SELECT n, n, {_LONG.format('n')} FROM generate_series(1, 5) n",
        "INSERT INTO shop.carts SELECT n, 'i' || n FROM generate_series(1, 10) n",
        "INSERT INTO shop.products SELECT n, 'p' || n, n, n * 0.5, n * 1.5, 'old' FROM generate_series(1, 10) n",
        # Debezium's snapshot, other than its stream, takes the year 44 BC for 44: see docs/integration.md.
        _zoo(1).replace("'0044-03-15 BC'", "NULL"),
        "INSERT INTO shop.points VALUES (1, '(1.5,-2.25)'), (2, NULL), (3, '(0,0)')",
    )


def change_rows(server: Postgres, database: str) -> None:
    """Insert, update, delete, change keys, in single, multi-row and interleaved transactions."""
    server.run(
        database,
        "INSERT INTO shop.customers SELECT n, 'New ' || n, NULL FROM generate_series(21, 30) n",
        "UPDATE shop.customers SET name = name || '!' WHERE id % 2 = 0",
        "DELETE FROM shop.customers WHERE id % 5 = 0",
        "BEGIN",  # a key that is deleted and inserted again within one transaction
        "DELETE FROM shop.customers WHERE id = 2",
        "INSERT INTO shop.customers VALUES (2, 'Again', 'again@x', '2026-01-03')",
        "COMMIT",
        # Columns out of line that did not change are not sent: by a plain update, and by one of the key.
        "UPDATE shop.orders SET status = 'paid', amount = amount + 1",
        "UPDATE shop.orders SET id = id + 1000 WHERE id <= 3",
        "UPDATE shop.orders SET id = id + 1000, note = 'short' WHERE id = 4",
        f'UPDATE shop.orders SET tags = ARRAY[{_LONG.format("id")}, NULL], doc = \'{{"é": "😀"}}\' WHERE id > 15',
        "UPDATE shop.orders SET status = 'shipped' WHERE id > 10",
        "UPDATE shop.order_lines SET line = line + 10 WHERE orders = 1",
        "UPDATE shop.order_lines SET qty = qty * 2",
        "UPDATE shop.payments SET amount = '$7.77' WHERE id < 3",
        "UPDATE shop.payments SET id = 50 WHERE id = 5",
        "BEGIN",  # every table in one transaction, and part of it taken back
        "INSERT INTO shop.carts VALUES (100, 'kept')",
        "SAVEPOINT s",
        "INSERT INTO shop.carts VALUES (101, 'taken back')",
        "ROLLBACK TO s",
        "UPDATE shop.products SET stock = stock - 1",
        "INSERT INTO shop.payments VALUES (60, '$1.00', 'with cart')",
        "COMMIT",
        "BEGIN",
        "DELETE FROM shop.customers",
        "ROLLBACK",
        _zoo(101),
        "INSERT INTO shop.points VALUES (4, '(4,4)')",
        "UPDATE shop.points SET place = '(-1e300,1e-300)' WHERE id = 3",
        f"UPDATE shop.types_zoo z SET ({_zoo_columns()}) ="
        f" (SELECT {_zoo_columns()} FROM shop.types_zoo WHERE id = 104 - z.id) WHERE id < 4",
    )
    _interleave(server, database)


def _zoo_columns() -> str:
    table = _SCHEMA.partition("CREATE TABLE shop.types_zoo")[2]
    return ", ".join(word for word in table.replace("\n", " ").split() if word.startswith("c_"))


def _interleave(server: Postgres, database: str) -> None:
    """Three transactions at once that commit in another order than they began, on the same tables."""
    with sessions(server, database, 3) as (first, second, third):
        for session in (first, second, third):
            session.run("BEGIN")
        first.run(
            "INSERT INTO shop.carts VALUES (201, 'first')", "UPDATE shop.customers SET name = 'first' WHERE id = 1"
        )
        second.run(
            "INSERT INTO shop.carts VALUES (202, 'second')", "UPDATE shop.customers SET name = 'second' WHERE id = 3"
        )
        third.run("UPDATE shop.orders SET note = 'third' WHERE id = 7", "DELETE FROM shop.order_lines WHERE orders = 7")
        second.run("COMMIT")
        third.run("UPDATE shop.customers SET name = name || ' third' WHERE id = 3", "COMMIT")
        first.run("UPDATE shop.carts SET items = items || '+' WHERE id = 201", "COMMIT")


def change_tables(server: Postgres, database: str) -> None:
    """Add, drop, rename and widen columns while rows change."""
    server.run(
        database,
        "ALTER TABLE shop.products ADD COLUMN added text DEFAULT 'n/a'",
        "INSERT INTO shop.products (id, name, stock) VALUES (11, 'eleven', 11)",
        "ALTER TABLE shop.products DROP COLUMN old",
        "UPDATE shop.products SET stock = stock + 1 WHERE id < 5",
        "ALTER TABLE shop.products RENAME COLUMN name TO title",
        "ALTER TABLE shop.products ALTER stock TYPE bigint, ALTER price TYPE numeric(14, 2), ALTER weight TYPE float8",
        "INSERT INTO shop.products (id, title, stock, price, weight)"
        " VALUES (12, 'twelve', 9007199254740993, 999999999999.99, 1e300)",
        "BEGIN",
        "ALTER TABLE shop.products ADD COLUMN fleeting int",
        "UPDATE shop.products SET fleeting = 1 WHERE id = 6",
        "ALTER TABLE shop.products DROP COLUMN fleeting",
        "UPDATE shop.products SET stock = 0 WHERE id = 7",
        "COMMIT",
        "ALTER TABLE shop.products ALTER title TYPE text",
        "DELETE FROM shop.products WHERE id = 8",
        "ALTER TYPE shop.order_status ADD VALUE 'lost'",
        "UPDATE shop.orders SET status = 'lost' WHERE id = 9",
        # No event tells what DDL did to a row, so each row is written once more.
        "UPDATE shop.products SET id = id",
    )


def empty_tables(server: Postgres, database: str) -> None:
    """Truncate two tables in one statement, one of them filled again in the same transaction."""
    server.run(
        database,
        "BEGIN",
        "INSERT INTO shop.carts VALUES (300, 'goes again')",
        "TRUNCATE shop.carts, shop.order_lines",
        "INSERT INTO shop.carts VALUES (1, 'after'), (301, 'after')",
        "COMMIT",
        "INSERT INTO shop.order_lines VALUES (1, 1, 'after', 1)",
        "UPDATE shop.carts SET items = 'later' WHERE id = 301",
    )
