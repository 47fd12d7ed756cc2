"""What `cdcm verify` finds of what another program did to a mirror or to raw, and what it puts right."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer.config import Config
from cdc_materializer.differences import hashed
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_BUG
from cdc_materializer.lake.lake import Lake
from cdc_materializer.lake.stage import Stage
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG, Marker
from cdc_materializer.moments.moments import Moment, as_of
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import FOREIGN, TWICE
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import connect_envelope_schema, connect_key_schema, debezium_envelope, debezium_json
from tests.spark.harms import HARMS, WARNS, add, change, double, remove
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import KEY, Shop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    TURNS,
    *WARNS,
    *IMPORTS_GREAT_EXPECTATIONS,
]


@pytest.fixture
def shop(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop of the test's own, with a table that PyIceberg writes too."""
    name = request.node.name.removeprefix("test_").replace("[", "_").replace("]", "").replace(" ", "_")
    return Shop(lake_config, spark, name[:60], properties={"format-version": "2"})


@pytest.mark.parametrize(("harm", "found"), HARMS)
def test_what_another_engine_did_is_found_and_repaired(
    shop: Shop, harm: Callable[[Shop], None], found: tuple[int, int, int]
) -> None:
    """Row by row; no other row is written, and the marker stays where it is."""
    harm(shop)

    proof = shop.verify()
    assert (proof.missing, proof.unexpected, proof.different) == found
    assert (proof.equal, proof.error, proof.repaired_snapshot) == (False, None, None)
    assert (len(proof.keys), proof.buckets) == (1, 1)

    before = _load(shop)
    repaired = shop.verify(repair=True)
    assert (repaired.equal, repaired.error) == (False, None)
    assert shop.rows() == {1: 11, 3: 30}
    after = _load(shop)
    assert (after.offsets, after.positions) == (before.offsets, before.positions)
    assert after.counts == {"read": 0, "repaired": 1}
    assert shop.refs() == {"main", MARKER_TAG, GENESIS_TAG}
    assert shop.verify(repair=True).repaired_snapshot is None, "nothing is left to do"
    assert shop.is_proven()
    shop.send(("u", 3, 31), ("c", 9, 90))
    shop.run()
    assert shop.rows() == {1: 11, 3: 31, 9: 90}
    assert shop.is_proven()


def test_rows_that_are_kept_as_deleted_are_repaired(spark: "SparkSession", lake_config: Config) -> None:
    """Where another program has taken one away, given it other last values or let it live, or has deleted one so."""
    two = {"format-version": "2"}
    shop = Shop(lake_config, spark, "soft_repair", properties=two, deletes="soft", ledger=True)
    shop.send(("d", 1, None), ("c", 5, 50), ("d", 5, None))
    shop.run()
    sound = {1: (11, True), 2: (20, True), 3: (30, False), 5: (50, True)}
    assert shop.lives() == sound

    change(shop)
    remove(shop, 2)
    for row, deleted in ((3, "true"), (5, "false")):
        spark.sql(f"UPDATE lake.{shop.mirror} SET __cdc.deleted = {deleted} WHERE id = {row}")

    assert shop.lives() == {1: (12, True), 3: (30, True), 5: (50, False)}
    proof = shop.verify(repair=True)
    assert (proof.missing, proof.unexpected, proof.different, proof.error) == (1, 0, 3, None)
    assert shop.lives() == sound
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()
    shop.send(("c", 2, 21), ("d", 3, None))
    shop.run()
    assert shop.lives() == sound | {2: (21, False), 3: (30, True)}
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()


@pytest.mark.parametrize("harm", [change, remove, double, add], ids=["changed", "removed", "doubled", "added"])
def test_the_ledger_tells_what_another_engine_did(shop_with_ledger: Shop, harm: Callable[[Shop], None]) -> None:
    """By one scan of the mirror; batches that come later do not hide it, and a repair begins the ledger anew."""
    shop = shop_with_ledger
    assert shop.verify(ledger=True).equal
    shop.send(("u", 1, 12), ("d", 3, None), ("c", 3, 33), ("c", 6, 60), ("c", 7, 70))
    shop.run()
    sound = shop.verify(ledger=True)
    assert (sound.equal, sound.expected, sound.found, sound.buckets) == (True, 4, 4, 0)

    harm(shop)

    found = shop.verify(ledger=True)
    assert (found.equal, found.error, found.method, found.buckets) == (False, None, "ledger", 1)
    shop.send(("u", 7, 71))
    shop.run()
    assert not shop.verify(ledger=True).equal
    assert shop.verify(repair=True).error is None
    assert shop.verify(ledger=True).equal
    shop.send(("u", 1, 13))
    shop.run()
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()


@pytest.fixture
def shop_with_ledger(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop whose mirror keeps a ledger."""
    test, _, parameter = request.node.name.removeprefix("test_").removesuffix("]").partition("[")
    name = f"ledger_{parameter or test[:40]}"
    return Shop(lake_config, spark, name, properties={"format-version": "2"}, ledger=True)


def test_a_row_that_is_overwritten_after_another_engine_changed_it_stays_told(shop_with_ledger: Shop) -> None:
    """The mirror is right again, and the ledger says that something happened, until it is sealed anew."""
    shop = shop_with_ledger
    change(shop)
    shop.send(("u", 1, 14))
    shop.run()

    assert shop.is_proven()
    assert not shop.verify(ledger=True).equal
    assert shop.verify(repair=True).equal
    assert shop.verify(ledger=True).equal


def test_a_batch_whose_rows_are_written_otherwise_than_decided_is_not_published(
    shop_with_ledger: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a ledger is kept of is read back, value by value; the counts of rows are right here."""
    shop = shop_with_ledger
    shop.send(("u", 1, 12), ("c", 9, 90), ("d", 3, None))
    append = Stage.append

    def off_by_one(self: Stage, rows: "DataFrame", expected: int | None = None) -> None:
        of_mirror = str(self.base.name) == shop.mirror
        append(self, rows.withColumn("price", F.col("price") + 1) if of_mirror else rows, expected)

    with monkeypatch.context() as patched:
        patched.setattr(Stage, "append", off_by_one)
        report = run_once(shop.config, shop.spark)
    told = report.tables[0].error
    assert report.exit_code == EXIT_BUG
    assert told is not None
    assert "were written are not those that the batch decided" in told.message
    assert shop.rows() == {1: 11, 3: 30}

    shop.run()
    assert shop.rows() == {1: 12, 9: 90}
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()


def test_a_mirror_without_a_ledger_says_how_to_get_one(shop: Shop) -> None:
    """One that has rows already gets it when they were proven."""
    found = shop.verify(ledger=True)

    assert found.error is not None
    assert (found.error.code, "--repair" in found.error.message) == ("UsageError", True)
    shop.configure(ledger=True)
    assert shop.verify(repair=True).equal
    assert shop.verify(ledger=True).equal


def _load(shop: Shop) -> Marker:
    table = Lake(shop.spark, "lake", read_only=True).load(TableName.parse(shop.mirror))
    assert table is not None
    assert table.marker is not None
    return table.marker


def test_a_key_is_told_by_its_hash_unless_it_is_asked_for(shop: Shop) -> None:
    """The same hash for the same key, so that two reports can be compared; the key itself is data."""
    change(shop)
    key = json.dumps({"id": 1}, separators=(",", ":"))

    assert shop.verify().keys == [hashed(key)]
    assert shop.verify(plain_keys=True).keys == [key]


def test_nothing_is_repaired_that_quarantine_would_be_wrong_about(shop: Shop) -> None:
    """Under another contract other rows are held: a replay rebuilds quarantine as well, a repair does not."""
    shop.judge("2", 20)

    refused = shop.verify(repair=True)

    assert refused.error is not None
    assert (refused.error.code, "replay" in refused.error.message) == ("UsageError", True)
    assert shop.rows() == {1: 11, 3: 30}


def test_a_row_is_repaired_whose_key_a_delete_that_names_none_was_filled_with(shop: Shop) -> None:
    """Such a delete is held under no key (REPLICA IDENTITY USING INDEX), and says nothing of the row whose key is 0."""
    schema = connect_envelope_schema("t", {**KEY, "code": {"type": "string", "optional": False}})
    key = debezium_json({"id": 0}, connect_key_schema("t", KEY))
    shown, index = {"id": 0, "code": "x"}, {"id": 0, "code": "b"}
    shop.topic.add(key, debezium_json(debezium_envelope("c", None, shown, lsn=200), schema))
    shop.topic.add(key, debezium_json(debezium_envelope("d", index, None, lsn=201), schema))
    shop.topic.write(shop.folder)
    shop.run()
    assert shop.held()[7] == "open"
    remove(shop, 0)

    repaired = shop.verify(repair=True)

    assert (repaired.missing, repaired.error) == (1, None)
    assert shop.rows().keys() == {0, 1, 3}
    assert shop.held()[7] == "open"
    assert shop.is_proven()


def test_nothing_is_repaired_that_would_break_a_rule_about_the_table(shop: Shop) -> None:
    """A repair is audited like any batch: readers see none of it, and the wrong rows stay until the rule is mended."""
    rule = "{{name: one-row, metric: rowCount, mustBe: {rows}}}"
    shop.judge("1", 0, of_table=rule.format(rows=1))
    change(shop)
    before = _load(shop), shop.held()

    refused = shop.verify(repair=True)

    assert refused.error is not None
    assert (refused.error.code, "one-row" in refused.error.message) == ("CONTRACT", True)
    assert (refused.equal, refused.repaired_snapshot, shop.rows()) == (False, None, {1: 12, 3: 30})
    assert (_load(shop), shop.held()) == before
    shop.judge("1", 0, of_table=rule.format(rows=2))
    assert shop.verify(repair=True).error is None
    assert (shop.rows(), shop.refs()) == ({1: 11, 3: 30}, {"main", MARKER_TAG, GENESIS_TAG})


def test_what_a_batch_that_stopped_would_have_held_is_nothing_of_the_mirrors(shop: Shop) -> None:
    """Quarantine has it already, and readers see the state before: that is repaired, and nothing else is rebuilt."""
    contract = shop.folder / "contract.yaml"
    limit = "physicalType: table\n    customProperties: [{property: max_quarantined, value: 50%}]\n"
    contract.write_text(contract.read_text(encoding="utf-8").replace("physicalType: table\n", limit), encoding="utf-8")
    shop.send(("u", 1, -5), ("u", 3, -6))
    assert run_once(shop.config, shop.spark).exit_code == EXIT_BLOCKED
    assert {7, 6} <= shop.held().keys()

    rebuilt = shop.replay()
    change(shop)
    repaired = shop.verify(repair=True)

    assert (rebuilt.equal, rebuilt.held_live) == (True, rebuilt.held_rebuilt)
    assert (repaired.different, repaired.error) == (1, None)
    assert shop.rows() == {1: 11, 3: 30}


def test_a_difference_says_that_another_contract_has_judged(shop: Shop) -> None:
    """Also where it judged a batch before the newest; what another program did to a rebuilt mirror is its own."""
    shop.judge("2", 20)
    edited = shop.verify()
    shop.send(("c", 9, 90))
    shop.run()
    later = shop.verify()
    assert shop.replay(publish=True).published
    equal = shop.verify()
    shop.spark.sql(f"DELETE FROM lake.{shop.mirror} WHERE id = 9")
    other = shop.verify()

    found = [(one.unexpected, one.missing, one.judged_otherwise) for one in (edited, later, equal, other)]
    assert found == [(1, 0, True), (1, 0, True), (0, 0, False), (0, 1, False)]


def test_what_a_former_encoding_held_is_missing_until_it_is_released(shop: Shop) -> None:
    """Messages are read by the settings of today; nothing but a release reads them again."""
    shop.configure(encoding="avro")
    shop.send(("c", 9, 90))
    shop.run()
    held = shop.verify()
    shop.configure(encoding="auto")
    readable = shop.verify()

    done = release_held(shop.config, shop.mirror, Wanted(code="UNDECODABLE"), shop.spark)

    assert (held.equal, readable.equal, readable.missing) == (False, False, 1)
    assert (done.tried, done.released) == (1, 1)
    assert shop.rows() == {1: 11, 3: 30, 9: 90}
    assert shop.verify().equal


@pytest.mark.parametrize("ledger", [False, True])
def test_a_mirror_that_is_gone_is_not_equal(shop: Shop, *, ledger: bool) -> None:
    """Raw tells what it held; a run makes it again of that."""
    shop.spark.sql(f"DROP TABLE lake.{shop.mirror}")

    lost = shop.verify(ledger=ledger)
    shop.run()

    assert lost.error is not None
    assert (lost.equal, lost.error.code, "is not there" in lost.error.message) == (False, "LakeUnavailable", True)
    assert shop.is_proven()


@pytest.mark.parametrize("repair", [False, True])
def test_a_column_that_another_engine_dropped_is_told(shop_with_ledger: Shop, *, repair: bool) -> None:
    """Neither side of the comparison has it, and no ledger is made without it either."""
    known = _load(shop_with_ledger).ledger
    shop_with_ledger.spark.sql(f"ALTER TABLE lake.{shop_with_ledger.mirror} DROP COLUMN price")

    proof = shop_with_ledger.verify(repair=repair)

    assert not proof.equal
    assert proof.error is not None
    assert "price" in proof.error.message
    assert _load(shop_with_ledger).ledger == known


def test_a_message_that_is_twice_in_raw_is_found_and_nothing_repaired(shop: Shop) -> None:
    """What the mirror is held against is not what was landed, then."""
    raw = f"lake.{shop.mirror}__raw"
    shop.spark.sql(f"INSERT INTO {raw} SELECT * FROM {raw} WHERE offset = 2")

    found = shop.verify(repair=True)

    assert found.error is not None
    assert (found.error.code, found.repaired_snapshot) == (TWICE, None)


@pytest.mark.parametrize("offset", [100, 6], ids=["behind what was landed", "in a hole"])
def test_a_foreign_message_in_raw_is_found(shop: Shop, offset: int) -> None:
    """By its place; where the offsets have a hole, by the commit that brought it."""
    shop.topic.skip()
    shop.send(("u", 1, 12))
    shop.run()
    assert shop.is_proven()
    raw = f"lake.{shop.mirror}__raw"
    rest = "timestamp, timestamp_type, key, value, headers, key_schema_id, value_schema_id, batch_id"
    columns = f"topic, partition, CAST({offset} AS BIGINT) AS offset, {rest}, key_schema_name, value_schema_name"
    shop.spark.sql(f"INSERT INTO {raw} SELECT {columns} FROM {raw} WHERE offset = 2")

    found = shop.verify(repair=True)

    assert found.error is not None
    assert (found.error.code, found.equal, found.repaired_snapshot) == (FOREIGN, False, None)
    told = as_of(shop.config, shop.mirror, Moment(time=datetime.now(UTC)), shop.spark)
    assert (told.exact, told.notes[0].startswith("Another program has written messages")) == (False, True)
