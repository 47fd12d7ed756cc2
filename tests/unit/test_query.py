"""Which tables a query names, and the query with views in their places."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from cdc_materializer.names import TableName
from cdc_materializer.report.query_models import Freshness, QueryColumn, QueryReport
from cdc_materializer.report.terminal import render
from cdc_materializer.table_names import named_in, renamed, view_names

TABLES: list[tuple[str, ...]] = [("shop", "orders"), ("shop", "order items")]
VIEWS: dict[tuple[str, ...], str] = {("shop", "orders"): "orders", ("shop", "order items"): "order items"}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT * FROM shop.orders", "SELECT * FROM `orders`"),
        ("select Shop.Orders.id from LAKE.shop . orders o", "select `orders`.`id` from `orders` o"),
        ("SELECT 1 FROM `shop`.`order items`", "SELECT 1 FROM `order items`"),
        ("SELECT 'shop.orders', \"it's shop.orders\" FROM t", None),
        ("SELECT 1 -- shop.orders\n/* shop.orders */ FROM shop.orders__raw", None),
        ("SELECT 'a\\'shop.orders' FROM x.shop.orders", None),
        ("SELECT `shop.orders` FROM shop", None),
        ("SELECT 1 FROM shop/* a */ . -- b\n /**/orders", "SELECT 1 FROM `orders`"),
        ("SELECT r'\\', R\"\\\" FROM shop.orders WHERE '' = ''", "SELECT r'\\', R\"\\\" FROM `orders` WHERE '' = ''"),
        (
            "WITH a AS (SELECT id FROM shop.orders) SELECT * FROM a",
            "WITH a AS (SELECT id FROM `orders`) SELECT * FROM a",
        ),
    ],
)
def test_views_take_the_places_of_tables(query: str, wanted: str | None) -> None:
    """By their full names, quoted or not, in any case; texts, comments, and longer names stay."""
    assert renamed(query, VIEWS, "lake") == (query if wanted is None else wanted)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT orders FROM shop.orders WHERE orders.id = 1", "orders"),
        ("WITH o AS (SELECT 1) SELECT * FROM shop.orders", "orders"),
        ("WITH Orders AS (SELECT * FROM shop.orders) SELECT (SELECT count(*) FROM shop.orders)", "shop_orders"),
        ("with `orders` (a) as (SELECT 1), shop_orders AS (SELECT 2) SELECT * FROM shop.orders", "shop_orders_2"),
    ],
)
def test_a_view_is_called_like_nothing_that_a_query_names_itself(query: str, wanted: str) -> None:
    """A part of the query that is called like the table would stand in the view's place."""
    assert view_names([TableName.parse("shop.orders")], query) == {("shop", "orders"): wanted}


@pytest.mark.parametrize(
    "names", [["a.orders", "b.orders", "x.a_orders"], ["a.b_c", "a_b.c", "z.b_c", "z.c", "y.a_b_c"]]
)
def test_each_table_has_a_view_of_its_own(names: list[str]) -> None:
    """Whatever the names of others add up to."""
    found = view_names([TableName.parse(name) for name in names], "SELECT 1")

    assert len({view.casefold() for view in found.values()}) == len(names)


def test_each_table_is_named_once() -> None:
    """In the order of the query."""
    query = "SELECT * FROM shop.`order items` JOIN lake.shop.orders USING (id) WHERE shop.orders.id > 1"

    assert named_in(query, TABLES, "lake") == [("shop", "order items"), ("shop", "orders")]


def test_values_and_names_move_no_cursor_and_colour_nothing() -> None:
    """Neither escape sequences in a row's values, inside of others too, nor those and markup in a column's name."""
    evil = "\x1b[31m\x9b2J"
    report = QueryReport(
        pipeline="p",
        columns=[QueryColumn(name=f"[red]{evil}", type="string"), QueryColumn(name="tags", type="array<string>")],
        rows=[[f"a{evil}", [evil]]],
    )
    console = Console(width=90, file=io.StringIO(), record=True)
    console.print(render(report, now=datetime(2026, 1, 2, tzinfo=UTC)))
    shown = console.export_text()

    assert shown.replace("\n", "").isprintable()
    assert "[red]\N{REPLACEMENT CHARACTER}[31m" in shown
    assert "a\N{REPLACEMENT CHARACTER}[31m" in shown


def test_an_answer_is_shown_with_what_is_new_in_it() -> None:
    """NULL is not the text NULL, and what would be held is told."""
    newest = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    report = QueryReport(
        pipeline="p",
        columns=[QueryColumn(name="id", type="int"), QueryColumn(name="note", type="string")],
        rows=[[1, "a"], [2, None]],
        more=True,
        fresh=[Freshness(table="shop.orders", messages=3, held=1, newest=newest), Freshness(table="shop.items")],
    )
    console = Console(width=90, file=io.StringIO(), record=True)
    console.print(render(report, now=newest))
    shown = console.export_text()

    assert [line.split() for line in shown.splitlines()[3:5]] == [["1", "a"], ["2", "NULL"]]
    assert "The first 2 rows." in shown
    assert "3 messages not published yet, 1 of them would be held, up to 2026-01-02 03:04:05 UTC." in " ".join(
        shown.split()
    )
    assert "shop.items: as published, and nothing newer." in shown
