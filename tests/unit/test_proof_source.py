"""What is held against a database, and when a mirror has all that the database had; without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.config import DatabaseConfig
from cdc_materializer.config.tables import TableConfig
from cdc_materializer.dialects import Form, Position, PostgreSQL, SourceColumn, Wanted
from cdc_materializer.errors import ConfigError, UsageError
from cdc_materializer.marker.marker import Marker
from cdc_materializer.masks import Mask, Masks
from cdc_materializer.offsets import Offsets
from cdc_materializer.proof.columns import ComparedTable, choose
from cdc_materializer.proof.databases import Database
from cdc_materializer.proof.proof import VerifyOptions
from cdc_materializer.proof.wait import SETTLE_SECONDS, Reached, siblings_of
from cdc_materializer.schema.schema import Column, TableSchema

POSTGRESQL = PostgreSQL()
#: Of the topic that is waited for, where nothing comes.
ENDS = Offsets({0: 5})
AT_57 = Position(57, "gtid:0")


def _chosen(columns: list[Column], source: dict[str, str], masks: Masks | None = None) -> ComparedTable:
    told = [SourceColumn(name, kind) for name, kind in source.items()]
    return choose(TableSchema(tuple(columns), ("id",)), told, POSTGRESQL, masks or Masks())


def _marker(position: str | None = None, logs: dict[str, int] | None = None) -> Marker:
    return Marker(
        pipeline="p",
        batch="b",
        topic="t",
        topic_id=None,
        offsets=Offsets({0: 1}),
        positions={0: position} if position is not None else {},
        source_snapshot=None,
        contract=None,
        counts={},
        logs=logs or {},
    )


def test_columns_of_one_side_are_left_out_and_told() -> None:
    """So are those whose type nothing can be said of."""
    mine = [Column("id", "int"), Column("gone", "string"), Column("tags", "array<string>")]
    found = _chosen(mine, {"id": "integer", "tags": "text[]", "later": "text"})

    assert [one.name for one in found.columns] == ["id"]
    assert found.left_out == {
        "gone": "not in the database",
        "tags": "nothing says how a text[] looks as array<string>",
        "later": "not in the mirror",
    }


def test_a_column_is_found_under_the_name_that_the_connector_made_of_it() -> None:
    """And under the one that it had before it was renamed."""
    mine = [
        Column("id", "int"),
        Column("unit_price", "int"),
        Column("_2nd", "int"),
        Column("new", "int", former=("old",)),
    ]
    found = _chosen(mine, {"id": "integer", "unit price": "integer", "2nd": "integer", "old": "integer"})

    assert [one.source for one in found.columns] == ["id", "unit price", "2nd", "old"]
    assert found.left_out == {}


def test_values_in_several_columns_are_left_out() -> None:
    """Neither of them alone is the database's."""
    mine = [Column("id", "int"), Column("a", "int"), Column("a__string", "string", beside="a")]

    assert set(_chosen(mine, {"id": "integer", "a": "text"}).left_out) == {"a", "a__string"}


def test_masks_that_can_be_made_again_are_compared() -> None:
    """Of text and whole numbers; what hides all, or the text of other types, is left out."""
    methods = {"a": Mask.HASH, "b": Mask.LAST4, "c": Mask.NULL, "d": Mask.HASH}
    mine = [Column("id", "int"), *[Column(name, "string") for name in "abcd"]]
    kinds = {"id": "integer", "a": "text", "b": "bigint", "c": "text", "d": "timestamp without time zone"}
    found = _chosen(mine, kinds, Masks(methods, key=b"k" * 16))

    assert {one.name: one.mask for one in found.columns} == {"id": None, "a": Mask.HASH, "b": Mask.LAST4}
    assert found.left_out == {"c": "masked (null)", "d": "masked (hash)"}


def test_a_key_that_cannot_be_compared_is_refused() -> None:
    """There would be nothing to tell rows apart by."""
    with pytest.raises(ConfigError, match=r"id \(not in the database\)"):
        _chosen([Column("id", "int")], {"other": "integer"})


def test_the_database_tells_buckets_only_of_keys_with_one_text() -> None:
    """A decimal may have needless zeros there, so its rows are told apart here."""
    whole = _chosen([Column("id", "int")], {"id": "integer"})
    decimal = _chosen([Column("id", "decimal(10,2)")], {"id": "numeric(10,2)"})

    assert (whole.has_buckets, decimal.has_buckets) == (True, False)
    assert decimal.columns[0].reading.form is Form.VALUE


def _after(reached: Reached, marker: Marker, seconds: float = SETTLE_SECONDS, ends: Offsets = ENDS) -> list[bool]:
    """What one look at a mirror shows, and another one so much later."""
    return [reached.by([marker], ends, now) for now in (10.0, 10.0 + seconds)]


@pytest.mark.parametrize(
    ("position", "shown"),
    [(f"{99:020d}/{150:020d}", True), (f"{100:020d}/{90:020d}", True), (f"{99:020d}/{99:020d}", False)],
)
def test_a_change_from_behind_a_position_shows_after_a_while_that_all_before_it_came(
    position: str, *, shown: bool
) -> None:
    """In PostgreSQL by the change's own place, or by that of the commit before it.

    Not at once: it may have come through another partition than what is on its way.
    """
    later = _marker(position)

    assert [Reached(Position(100)).by([_marker(), later], ENDS, 10.0), *_after(Reached(Position(100)), later)] == [
        False,
        False,
        shown,
    ]
    assert _after(Reached(Position(100)), later, SETTLE_SECONDS - 0.1) == [False, False]


def test_positions_from_before_a_restore_show_nothing() -> None:
    """The database went back, and that was accepted: what it sent before may be higher than what it will ever send."""
    old = f"{500:020d}/{500:020d}"
    before, after = (replace(_marker(position), epochs=({0: 7},)) for position in (old, f"~0001/{99:020d}/{101:020d}"))

    assert [_after(Reached(Position(100)), one)[1] for one in (_marker(old), before, after)] == [True, False, True]


def test_the_last_transaction_shows_it_only_once_nothing_comes_any_more() -> None:
    """Its rows may be on their way one by one, to any table; what comes before it never shows it."""
    last, later, earlier = (_marker(logs={"gtid:0": number}) for number in (57, 58, 56))
    reached = Reached(AT_57)

    assert [reached.by([last], ENDS, now) for now in (10.0, 14.0, 15.5)] == [False, False, True]
    assert _after(Reached(AT_57), later) == [False, True]
    assert _after(Reached(AT_57), earlier, 100) == [False, False]
    assert _after(Reached(AT_57), _marker(logs={"gtid:1": 99}), 100) == [False, False]


def test_each_message_that_comes_begins_the_while_anew() -> None:
    """In a mirror that the connector feeds, or in the topic that is waited for."""
    last = _marker(logs={"gtid:0": 57})
    moved = replace(last, offsets=Offsets({0: 2}))
    in_mirrors, in_topic = Reached(AT_57), Reached(AT_57)
    looks = [(10.0, last), (14.0, moved), (15.5, moved), (19.0, moved)]

    assert [in_mirrors.by([one], ENDS, now) for now, one in looks] == [False, False, False, True]
    ends = [(10.0, 5), (14.0, 6), (15.5, 6), (19.0, 6)]
    assert [in_topic.by([last], Offsets({0: end}), now) for now, end in ends] == [False, False, False, True]


def test_mirrors_are_asked_until_one_shows_it() -> None:
    """Each is a table to be loaded, every second."""
    reached, asked = Reached(Position(100)), []

    def markers() -> Iterator[Marker]:
        for position in (50, 150, 200):
            asked.append(position)
            yield _marker(f"{position:020d}/{position:020d}")

    assert [reached.by(markers(), ENDS, now) for now in (10.0, 15.0)] == [False, True]
    assert asked == [50, 150]


def test_slots_show_it_by_what_each_has_confirmed() -> None:
    """A quiet table's topic says nothing; the slot of its connector does, and of another's nobody knows better."""
    reached = Reached(Position(100))
    looks = [{"a": -1}, {"a": 99}, {"a": 100}, {"a": 100, "b": 7, "0": 8}]

    assert [reached.short(confirmed) for confirmed in looks] == [["a"], ["a"], [], ["0", "b"]]


def test_siblings_are_fed_by_the_same_connector() -> None:
    """Topics of the same prefix, from the same database."""
    topics = {"shop.public.a": "x", "shop.public.b": "x", "json.public.a": "x", "shop.public.c": "y"}
    tables = [TableConfig(topic=topic, source_database=name) for topic, name in topics.items()]

    assert [one.topic for one in siblings_of(tables[0], tables)] == ["shop.public.a", "shop.public.b"]


@pytest.mark.parametrize(("low", "high", "parts"), [("1", "100", 4), ("08:00:00", "10:00:00", 1), (None, None, 1)])
def test_only_whole_numbers_part_a_table_over_connections(
    low: str | None, high: str | None, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time of day is a whole number in the mirror and none in the database."""
    asked: list[Sequence[str]] = []

    def frame(_: Database, __: str, conditions: Sequence[str]) -> Any:  # noqa: ANN401 - a frame that is never used
        asked.append(conditions)
        return SimpleNamespace(drop=lambda _: None)

    monkeypatch.setattr(Database, "ask", lambda *_: [{"low": low, "high": high}])
    monkeypatch.setattr(Database, "_frame", frame)
    config = DatabaseConfig.model_validate({"url": "jdbc:postgresql://127.0.0.1/shop", "user": "u", "partitions": 4})
    spark: Any = None
    Database("shop", config, spark).rows(Wanted(("public", "t"), {"c0": "x"}, ("x",), "x"))

    assert [len(conditions) for conditions in asked] == [parts]


@pytest.mark.parametrize("asked", [{"ledger": True, "repair": True}, {"source": True, "repair": True}])
def test_a_repair_by_what_tells_no_rows_is_refused(asked: dict[str, Any]) -> None:
    """Whoever asks for it in Python would take the mirror for repaired."""
    with pytest.raises(UsageError, match="repair"):
        VerifyOptions(**asked)
