"""The life of a shop in MariaDB: what every live test of that database does, in three parts and a start.

Rows that an ``ALTER TABLE`` changes without an event are touched afterwards, so that the log tells them too.
"""

from integration.chain.mariadb import MariaDB
from integration.chain.sql import sessions

#: Tables of the shop; each has a mirror.
TABLES = ("customers", "orders", "order_lines", "carts", "products", "types_zoo")

_SCHEMA = """
CREATE TABLE heartbeat (id int PRIMARY KEY);
CREATE TABLE customers (id int PRIMARY KEY, name varchar(100) NOT NULL, email varchar(100), since timestamp(6) NULL);
CREATE TABLE orders (id bigint UNSIGNED PRIMARY KEY, customer int, status enum('new', 'paid', 'shipped') NOT NULL,
    amount decimal(12, 2) NOT NULL, note mediumtext, doc json, placed datetime(6));
CREATE TABLE order_lines (orders bigint UNSIGNED, line int, sku varchar(20), qty smallint, PRIMARY KEY (orders, line));
CREATE TABLE carts (id int PRIMARY KEY, items text);
CREATE TABLE products (id int PRIMARY KEY, name varchar(20), stock int, price decimal(8, 2), weight float, old text);
CREATE TABLE types_zoo (id int PRIMARY KEY,
    c_bool boolean, c_int1 tinyint, c_int2 smallint, c_int3 mediumint, c_int4 int, c_int8 bigint,
    c_uint1 tinyint UNSIGNED, c_uint2 smallint UNSIGNED, c_uint3 mediumint UNSIGNED, c_uint4 int UNSIGNED,
    c_uint8 bigint UNSIGNED, c_decimal decimal(38, 10), c_udecimal decimal(10, 2) UNSIGNED,
    c_float float, c_double double,
    c_bit1 bit(1), c_bit12 bit(12), c_char char(5), c_varchar varchar(10), c_text text, c_long longtext,
    c_latin varchar(10) CHARACTER SET latin1, c_binary binary(4), c_varbinary varbinary(10), c_blob blob,
    c_enum enum('a', 'b c', 'ü'), c_set set('x', 'y', 'z'), c_json json, c_uuid uuid,
    c_date date, c_time time, c_time6 time(6), c_datetime datetime, c_datetime3 datetime(3), c_datetime6 datetime(6),
    c_timestamp timestamp NULL, c_timestamp6 timestamp(6) NULL, c_year year)
"""

_ZOO_PLAIN = """
true, -5, -3, -2, 123456, 9007199254740993, 250, 65000, 16000000, 4294967295, 18446744073709551615,
1234567890.0123456789, 1.50, 1.1, 0.1, b'1', b'000100100011', 'ab', 'äöü€😀',
'tab\\t newline\\n quote" back\\\\ end',
'{}', 'äöü', 'ab', x'00ff10', x'00ff', 'b c', 'x,z', '{"b": 1,  "a": [1.0, null]}',
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2026-03-29', '23:59:59', '-01:02:03.004005', '2026-03-29 02:30:00',
'1969-12-31 23:59:59.999', '2026-03-29 02:30:00.000001', '2026-03-29 02:30:00', '2026-03-29 02:30:00.000001', 2026
"""
_ZOO_EXTREME = """
false, -128, -32768, -8388608, -2147483648, -9223372036854775808, 0, 0, 0, 0, 0,
-9999999999999999999999999999.9999999999, 0, -3.4e38, 1.7e308, b'0', b'000000000000', '', '', '',
'', '', '', '', '', 'ü', '', 'null', '00000000-0000-0000-0000-000000000000',
'1000-01-01', '-838:59:59', '838:59:59.999999', '1000-01-01 00:00:00', '9999-12-31 23:59:59.999',
'1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '2038-01-19 03:14:07.999999', 1901
"""
_COLUMNS = 38
_ZOO = (_ZOO_PLAIN, _ZOO_EXTREME, ", ".join(["NULL"] * _COLUMNS))


def _zoo(first: int) -> str:
    """Three rows, with keys from ``first`` on."""
    rows = ", ".join(f"({first + number}, {values})" for number, values in enumerate(_ZOO))
    return f"INSERT INTO types_zoo VALUES {rows}"


def begin(server: MariaDB, database: str) -> None:
    """Make the database, with some rows in each table for the first snapshot."""
    server.run("mysql", f"CREATE DATABASE {database}")
    server.run(
        database,
        *_SCHEMA.split(";\n"),
        "INSERT INTO customers SELECT seq, CONCAT('Customer ', seq), CONCAT('c', seq, '@x'), '2026-01-01 10:00:00.5'"
        " FROM seq_1_to_20",
        "INSERT INTO orders SELECT seq, seq, 'new', seq * 1.25, REPEAT(MD5(seq), 400), JSON_OBJECT('n', seq),"
        " '2026-01-02 03:04:05.000006' FROM seq_1_to_20",
        "INSERT INTO order_lines SELECT o.seq, l.seq, CONCAT('sku-', l.seq), l.seq FROM seq_1_to_10 o, seq_1_to_3 l",
        "INSERT INTO carts SELECT seq, CONCAT('i', seq) FROM seq_1_to_10",
        "INSERT INTO products SELECT seq, CONCAT('p', seq), seq, seq * 0.5, seq * 1.5, 'old' FROM seq_1_to_10",
        _zoo(1),
    )


def change_rows(server: MariaDB, database: str) -> None:
    """Insert, update, delete, change keys, in single, multi-row and interleaved transactions."""
    server.run(
        database,
        "INSERT INTO customers SELECT seq, CONCAT('New ', seq), NULL, NULL FROM seq_21_to_30",
        "UPDATE customers SET name = CONCAT(name, '!') WHERE id % 2 = 0",
        "DELETE FROM customers WHERE id % 5 = 0",
        "BEGIN",  # a key that is deleted and inserted again within one transaction
        "DELETE FROM customers WHERE id = 2",
        "INSERT INTO customers VALUES (2, 'Again', 'again@x', '2026-01-03')",
        "COMMIT",
        "REPLACE INTO customers VALUES (3, 'Replaced', NULL, NULL)",
        "INSERT INTO customers (id, name) VALUES (4, 'x') ON DUPLICATE KEY UPDATE name = 'on duplicate'",
        "UPDATE orders SET status = 'paid', amount = amount + 1",
        "UPDATE orders SET id = id + 1000 WHERE id <= 3",
        "UPDATE orders SET id = 18446744073709551615 WHERE id = 4",
        "UPDATE order_lines SET line = line + 10 WHERE orders = 1",
        "UPDATE order_lines SET qty = qty * 2",
        "BEGIN",  # every table in one transaction, and part of it taken back
        "INSERT INTO carts VALUES (100, 'kept')",
        "SAVEPOINT s",
        "INSERT INTO carts VALUES (101, 'taken back')",
        "ROLLBACK TO s",
        "UPDATE products SET stock = stock - 1",
        "COMMIT",
        "BEGIN",
        "DELETE FROM customers",
        "ROLLBACK",
        _zoo(101),
        "UPDATE types_zoo a, types_zoo b SET a.c_text = 'moved', a.c_date = b.c_date, a.c_bit12 = b.c_bit12,"
        " a.c_time6 = b.c_time6, a.c_timestamp6 = b.c_timestamp6, a.c_uint8 = b.c_uint8"
        " WHERE a.id < 4 AND b.id = 104 - a.id",
    )
    _interleave(server, database)


def _interleave(server: MariaDB, database: str) -> None:
    """Three transactions at once that commit in another order than they began, on the same tables."""
    with sessions(server, database, 3) as (first, second, third):
        for session in (first, second, third):
            session.run("BEGIN")
        first.run("INSERT INTO carts VALUES (201, '1st')", "UPDATE customers SET name = '1st' WHERE id = 1")
        second.run("INSERT INTO carts VALUES (202, '2nd')", "UPDATE customers SET name = '2nd' WHERE id = 3")
        third.run("UPDATE orders SET note = 'third' WHERE id = 7", "DELETE FROM order_lines WHERE orders = 7")
        second.run("COMMIT")
        third.run("UPDATE customers SET name = CONCAT(name, ' third') WHERE id = 3", "COMMIT")
        first.run("UPDATE carts SET items = CONCAT(items, '+') WHERE id = 201", "COMMIT")


def change_tables(server: MariaDB, database: str) -> None:
    """Add, drop, rename and widen columns while rows change."""
    server.run(
        database,
        "ALTER TABLE products ADD COLUMN added varchar(10) DEFAULT 'n/a' AFTER id",
        "INSERT INTO products (id, name, stock) VALUES (11, 'eleven', 11)",
        "ALTER TABLE products DROP COLUMN old",
        "UPDATE products SET stock = stock + 1 WHERE id < 5",
        "ALTER TABLE products RENAME COLUMN name TO title",
        "ALTER TABLE products MODIFY stock bigint, MODIFY price decimal(14, 2), MODIFY weight double",
        "INSERT INTO products (id, title, stock, price, weight)"
        " VALUES (12, 'twelve', 9007199254740993, 999999999999.99, 1e300)",
        "ALTER TABLE products MODIFY title text",
        "DELETE FROM products WHERE id = 8",
        "ALTER TABLE orders MODIFY status enum('new', 'paid', 'shipped', 'lost') NOT NULL",
        "UPDATE orders SET status = 'lost' WHERE id = 9",
        # No event tells what DDL did to a row, so each is written once more; the binlog skips an update to the same.
        "UPDATE products SET stock = stock + 1",
    )


def empty_tables(server: MariaDB, database: str) -> None:
    """Truncate tables and go on with them."""
    server.run(
        database,
        "INSERT INTO carts VALUES (300, 'goes again')",
        "TRUNCATE carts",
        "TRUNCATE order_lines",
        "INSERT INTO carts VALUES (1, 'after'), (301, 'after')",
        "INSERT INTO order_lines VALUES (1, 1, 'after', 1)",
        "UPDATE carts SET items = 'later' WHERE id = 301",
    )
