"""`cdcm verify --source` against a database that does what a test says: what is wrong, and what only changed meanwhile.

The database is a stand-in with the real one's interface; integration/test_source_verify.py has real ones.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config, DatabaseConfig
from cdc_materializer.databases import Database
from cdc_materializer.dialects import Position, Wanted
from cdc_materializer.differences import hashed
from cdc_materializer.errors import SourceBehind
from cdc_materializer.lake import Lake
from cdc_materializer.line import Line
from cdc_materializer.proof_source import SourceProof
from cdc_materializer.report.models import TableVerify
from cdc_materializer.run import RunOptions, open_work
from cdc_materializer.session import beside
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_AT = 10_000


class _Things(Database):
    """A database with the one table of a shop, whose log is confirmed as far as it goes."""

    prices: dict[int, int]
    on_read: Callable[[], None]
    is_confirmed: bool

    def ask(self, query: str) -> list[dict[str, str | None]]:
        """The table's columns, whatever is asked."""
        assert "pg_attribute" in query
        kinds = {"id": "bigint", "name": "text", "price": "integer", "tags": "text[]"}
        return [{"name": name, "kind": kind} for name, kind in kinds.items()]

    def position(self) -> Position:
        """The same at all times."""
        return Position(_AT)

    def confirmed(self) -> int | None:
        """Everything, or nothing."""
        return _AT if self.is_confirmed else None

    def rows(self, wanted: Wanted, buckets: Sequence[int] | None = None) -> "DataFrame":
        """The rows as they are now, of all buckets at first; afterwards the world goes on."""
        assert list(wanted.columns) == ["c0", "c1", "c2"]
        assert buckets is None or 0 < len(buckets) < len(self.prices) + 3
        found = [(str(row), f"thing {row}", str(price)) for row, price in self.prices.items()]
        frame = self.spark.createDataFrame(found, "c0 string, c1 string, c2 string")
        self.on_read()
        return frame


def _things(shop: Shop, *, on_read: Callable[[], None] = lambda: None, is_confirmed: bool = True) -> _Things:
    config = DatabaseConfig.model_validate({"url": "jdbc:postgresql://db/shop", "user": "u", "wait": "2s"})
    found = _Things("shop", config, shop.spark)
    # What the connector was told of; the fourth row is held by the contract.
    more: dict[str, Any] = {"prices": {1: 11, 3: 30, 4: -1}, "on_read": on_read, "is_confirmed": is_confirmed}
    found.__dict__.update(more)
    return found


def _compare(shop: Shop, database: _Things) -> TableVerify:
    work = open_work(shop.config, RunOptions(tables=(shop.mirror,)))
    (table,) = work.tables
    lake = Lake(beside(shop.spark, shop.config), shop.config.catalog.name, read_only=True)
    line = Line("p", table, work.source, work.registry, work.contracts[shop.mirror], lake)
    mirror, raw = line.load_mirror(), lake.load(table.mirror.raw)
    assert mirror is not None
    assert raw is not None
    return SourceProof(line, database, [table], raw, mirror).compare(plain_keys=False)


def _counts(found: TableVerify) -> tuple[int, int, int, int]:
    return found.missing, found.unexpected, found.different, found.unsettled


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_held_and_deleted_rows_are_no_difference(spark: "SparkSession", lake_config: Config, deletes: str) -> None:
    """The held row is in the database and not in the mirror, the deleted one may be the other way round."""
    shop = Shop(lake_config, spark, f"source_{deletes}", deletes=deletes)
    found = _compare(shop, _things(shop))

    assert (found.equal, _counts(found), found.held) == (True, (0, 0, 0, 0), 1)
    assert (found.expected, found.found, found.position) == (2, 2, "0/2710")
    assert found.left_out == {"tags": "not in the mirror"}


def test_rows_that_no_message_explains_are_wrong(spark: "SparkSession", lake_config: Config) -> None:
    """One of each kind, told by hashed keys; what changed meanwhile is not among them."""
    shop = Shop(lake_config, spark, "source_wrong")
    shop.send(("c", 5, 50), ("c", 6, 60))
    shop.run()
    database = _things(shop)
    database.prices |= {1: 12, 6: 60, 7: 70}
    del database.prices[3]
    met: list[int] = []

    def go_on() -> None:
        met.append(len(met))
        if len(met) == 2:
            database.prices[5] = 51
            shop.send(("u", 5, 51))
            shop.run()

    database.__dict__["on_read"] = go_on
    database.prices[5] = 50
    found = _compare(shop, database)

    assert (found.equal, _counts(found), found.columns) == (False, (1, 1, 1, 0), {"price": 1})
    assert set(found.keys) == {hashed(f'{{"id":{row}}}') for row in (1, 3, 7)}


def test_a_row_that_changed_once_is_looked_at_again(spark: "SparkSession", lake_config: Config) -> None:
    """The database was read before the change, the mirror has it: the next look finds both alike."""
    shop = Shop(lake_config, spark, "source_once")
    database = _things(shop)
    reads: list[int] = []

    def go_on() -> None:
        reads.append(len(reads))
        if len(reads) < 3:
            database.prices[3] += 1
            shop.send(("u", 3, database.prices[3]))
            shop.run()

    database.__dict__["on_read"] = go_on
    found = _compare(shop, database)

    assert (found.equal, _counts(found), len(reads)) == (True, (0, 0, 0, 0), 3)


def test_a_row_that_always_changes_is_unsettled_and_never_wrong(spark: "SparkSession", lake_config: Config) -> None:
    """After four looks it is counted, and in neither verdict."""
    shop = Shop(lake_config, spark, "source_hot")
    database = _things(shop)

    def go_on() -> None:
        database.prices[3] += 1
        shop.send(("u", 3, database.prices[3]))
        shop.run()

    database.__dict__["on_read"] = go_on
    found = _compare(shop, database)

    assert (found.equal, _counts(found)) == (True, (0, 0, 0, 1))


def test_nothing_is_said_where_nothing_shows_how_far_the_mirror_is(spark: "SparkSession", lake_config: Config) -> None:
    """The wait ends with what to do."""
    shop = Shop(lake_config, spark, "source_behind")

    with pytest.raises(SourceBehind, match="Nothing came in 2 seconds"):
        _compare(shop, _things(shop, is_confirmed=False))
