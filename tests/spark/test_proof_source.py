"""`cdcm verify --source` against a database that does what a test says: what is wrong, and what only changed meanwhile.

The database is a stand-in with the real one's interface; integration/test_source_verify.py has real ones.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, DatabaseConfig, load_config
from cdc_materializer.dialects import BUCKETS, Position
from cdc_materializer.dialects import Wanted as WantedRows
from cdc_materializer.differences import hashed
from cdc_materializer.errors import SourceBehind
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.proof.databases import Database
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.proof.source import SourceProof
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.report.models import TableVerify
from cdc_materializer.run.run import RunOptions, open_work
from cdc_materializer.session.session import beside
from cdc_materializer.testing import TopicBuilder, debezium_envelope, debezium_json
from tests.spark.harms import HARMS, WARNS
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    TURNS,
    *WARNS,
    *IMPORTS_GREAT_EXPECTATIONS,
]

_AT = 10_000


class _Things(Database):
    """A database with the one table of a shop, whose log is confirmed as far as it goes."""

    prices: dict[int, int]
    on_read: Callable[[], None]
    is_confirmed: bool

    def ask(self, query: str, seconds: int = 60) -> list[dict[str, str | None]]:
        """The table's columns, whatever is asked."""
        assert seconds
        assert "pg_attribute" in query
        kinds = {"id": "bigint", "name": "text", "price": "integer", "tags": "text[]"}
        return [{"name": name, "kind": kind} for name, kind in kinds.items()]

    def position(self) -> Position:
        """The same at all times."""
        return Position(_AT)

    def slots(self) -> dict[str, int]:
        """Everything is confirmed, or not quite."""
        return {"slot_shop": _AT if self.is_confirmed else _AT - 1}

    def rows(self, wanted: WantedRows, buckets: Sequence[int] | None = None) -> "DataFrame":
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


@pytest.mark.parametrize(("harm", "kinds"), HARMS)
def test_what_another_engine_did_to_a_mirror_is_found_by_its_database(
    spark: "SparkSession",
    lake_config: Config,
    request: pytest.FixtureRequest,
    harm: Callable[[Shop], None],
    kinds: tuple[int, int, int],
) -> None:
    """A row that is there twice too, and no other row; once it is repaired, both are equal."""
    name = "source_" + request.node.callspec.id.replace(" ", "_")
    shop = Shop(lake_config, spark, name, properties={"format-version": "2"})
    database = _things(shop)
    assert _compare(shop, database).equal
    harm(shop)

    found = _compare(shop, database)

    wrong = {(0, 0, 1): 1, (1, 0, 0): 3, (0, 1, 0): 3 if "doubled" in name else 9}[kinds]
    assert (found.equal, _counts(found), found.buckets) == (False, (*kinds, 0), 1)
    assert found.keys == [hashed(f'{{"id":{wrong}}}')]
    assert found.columns == ({"price": 1} if wrong == 1 else {})
    assert shop.verify(repair=True).error is None
    repaired = _compare(shop, database)
    assert (repaired.equal, _counts(repaired), repaired.found) == (True, (0, 0, 0, 0), 2)


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
    """The wait ends with what to do, and names the slots that are behind."""
    shop = Shop(lake_config, spark, "source_behind")

    with pytest.raises(SourceBehind, match=r"Nothing came in 2 seconds.* have not confirmed it: slot_shop\."):
        _compare(shop, _things(shop, is_confirmed=False))


def test_a_wait_that_ends_between_two_looks_leaves_what_the_first_has_shown(
    spark: "SparkSession", lake_config: Config
) -> None:
    """All looks at a table share one time: what was not settled in it is counted, and the rest of it stands."""
    shop = Shop(lake_config, spark, "source_late")
    database = _things(shop)
    reads: list[int] = []

    def go_on() -> None:
        reads.append(len(reads))
        if len(reads) < 3:
            database.prices[3] += 1
            shop.send(("u", 3, database.prices[3]))
            shop.run()
        database.__dict__["is_confirmed"] = len(reads) < 3

    database.__dict__["on_read"] = go_on
    database.prices[1] = 12
    found = _compare(shop, database)

    assert (found.equal, _counts(found), len(reads)) == (False, (0, 0, 1, 1), 3)


def _bucket(row: int) -> int:
    return int(hashlib.md5(str(row).encode()).hexdigest()[:2], 16) % BUCKETS  # noqa: S324 - no secret


def _wipes(shop: Shop, times: int) -> Callable[[], None]:
    """A message without a key comes at each of the first looks."""
    left = [None] * times

    def go_on() -> None:
        if left:
            left.pop()
            shop.topic.add(None, debezium_json(debezium_envelope("t", None, None, lsn=900)))
            shop.topic.write(shop.folder)
            shop.run()

    return go_on


def test_nothing_is_said_where_a_message_of_no_row_came_each_time(spark: "SparkSession", lake_config: Config) -> None:
    """Any row may have been meant, the wrong one too; it must not pass for equal."""
    shop = Shop(lake_config, spark, "source_wiped", truncate="ignore")
    database = _things(shop, on_read=_wipes(shop, 9))
    database.prices[1] = 12

    with pytest.raises(SourceBehind, match=r"messages came that name no row, such as a truncate's.* 1 differing keys"):
        _compare(shop, database)


def test_a_message_of_no_row_that_came_once_hides_nothing(spark: "SparkSession", lake_config: Config) -> None:
    """The next look, at which none comes, tells the wrong row."""
    shop = Shop(lake_config, spark, "source_wiped_once", truncate="ignore")
    database = _things(shop, on_read=_wipes(shop, 2))
    database.prices[1] = 12
    found = _compare(shop, database)

    assert (found.equal, _counts(found)) == (False, (0, 0, 1, 0))


@pytest.mark.parametrize("at_read", [1, 2])
def test_a_row_that_is_released_meanwhile_is_no_difference(
    spark: "SparkSession", lake_config: Config, at_read: int
) -> None:
    """No message tells of a release: the row was held when the database was read, and is in the mirror by now."""
    shop = Shop(lake_config, spark, f"source_released_{at_read}")
    database = _things(shop)
    reads: list[int] = []

    def go_on() -> None:
        reads.append(len(reads))
        if len(reads) == at_read:
            shop.judge("2", -5)
            assert release_held(shop.config, shop.mirror, Wanted(), spark).released == 1

    database.__dict__["on_read"] = go_on
    # A wrong row in its bucket, so that it is looked at row by row.
    wrong = next(row for row in range(5, 9999) if _bucket(row) == _bucket(4))
    database.prices[wrong] = 10
    found = _compare(shop, database)

    assert (_counts(found), found.keys) == ((1, 0, 0, 0), [hashed(f'{{"id":{wrong}}}')])


def test_a_table_without_a_mirror_is_never_told_equal(spark: "SparkSession", lake_config: Config) -> None:
    """Its connector may never have sent it; and a table of no database is one that was not compared."""
    folder = lake_config.root / "source_none"
    TopicBuilder("shop.public.things").write(folder)
    tables = [
        {"topic": "shop.public.things", "mirror": "replays.source_none", "source_database": "shop"},
        {"topic": "shop.public.things", "mirror": "replays.source_unnamed"},
    ]
    path = lake_config.root / "source_none.yaml"
    databases = {"shop": {"url": "jdbc:postgresql://db/shop", "user": "u"}}
    content = {"name": "none", "source": {"files": folder.name}, "databases": databases, "tables": tables}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    none, unnamed = verify_tables(load_config(path), spark, VerifyOptions(source=True)).tables

    assert none.error is not None
    assert unnamed.error is not None
    assert (none.equal, none.method, none.error.code) == (False, "source", "SourceBehind")
    assert none.error.message.startswith("There is no mirror replays.source_none yet, so nothing of its table")
    assert (unnamed.equal, unnamed.method, unnamed.error.code) == (False, "source", "ConfigError")
