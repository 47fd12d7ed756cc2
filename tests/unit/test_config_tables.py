"""A table's settings: names and transforms that are safe, a format that suits its readers, globs made into topics."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.config import TableConfig, find_tables, resolve_tables
from cdc_materializer.errors import ConfigError, InvalidName, TopicMissing
from tests.unit.pipelines import SMALL, load, refusal


def _table(folder: Path, settings: str) -> TableConfig:
    return load(folder, SMALL.replace("orders}", f"orders, {settings}}}")).tables[0]


@pytest.mark.parametrize(
    "mirror", ["../x.y", "a/b.c", "/etc.passwd", "shop.orders__raw", "a.b`; DROP TABLE c", "..", "a..b"]
)
def test_a_mirror_that_tries_to_leave_the_warehouse_is_refused(folder: Path, mirror: str) -> None:
    """One clear sentence names the entry and the rule."""
    message = refusal(folder, SMALL.replace("}]", f", mirror: '{mirror}'}}]"))

    assert message.startswith(
        f"pipeline.yaml, tables[0].mirror cannot be followed: The table name `{mirror}` cannot be used"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15m", 900), ("1h", 3600), ("2d", 172_800), ("0s", 0), ("999999999d", 86_399_999_913_600)],
)
def test_a_duration_is_a_number_and_a_unit(folder: Path, text: str, seconds: int) -> None:
    """Seconds, minutes, hours and days."""
    assert _table(folder, f"position_regression_tolerance: {text}").position_regression_tolerance == timedelta(
        seconds=seconds
    )


@pytest.mark.parametrize(
    ("text", "placeholders"), [("old", ("old",)), ("[old, 'hex:5f5F']", ("old", "hex:5f5F"))], ids=["one", "several"]
)
def test_a_placeholder_may_have_been_another_one(folder: Path, text: str, placeholders: tuple[str, ...]) -> None:
    """One alone needs no brackets."""
    assert _table(folder, f"unavailable_value: {text}").unavailable_value == placeholders


@pytest.mark.parametrize("text", ["[]", "''", "[a, a]", "[a, '']", "'hex:5'", "[a, 'hex:zz']", "'hex:'"])
def test_a_placeholder_that_is_none_is_refused(folder: Path, text: str) -> None:
    """Before a message is read by it."""
    message = refusal(folder, SMALL.replace("orders}", f"orders, unavailable_value: {text}}}"))

    assert message.startswith("pipeline.yaml, tables[0].unavailable_value ")


@pytest.mark.parametrize(
    ("readers", "version", "mode"),
    [
        ([], "3", "merge-on-read"),
        (["spark", "duckdb", "databricks", "trino", "snowflake"], "3", "merge-on-read"),
        (["spark", "daft"], "2", "merge-on-read"),
        (["clickhouse"], "2", "merge-on-read"),
        (["databricks", "presto"], "2", "copy-on-write"),
    ],
)
def test_the_format_suits_all_readers(readers: list[Any], version: str, mode: str) -> None:
    """Deletion vectors, unless a reader cannot take them; then position deletes, unless another cannot take those."""
    assert TableConfig(topic="a.b", readers=tuple(readers)).format_properties() == {
        "format-version": version,
        "write.delete.mode": mode,
        "write.update.mode": mode,
        "write.merge.mode": mode,
        "write.parquet.row-group-size-bytes": "8388608",
    }


@pytest.mark.parametrize(
    ("readers", "properties", "unable"),
    [
        ("[spark, athena]", "{format-version: 3}", "athena"),
        ("[databricks, daft]", "{write.merge.mode: merge-on-read}", "databricks"),
        ("[daft, presto]", "{format-version: 3, write.delete.mode: copy-on-write}", "daft, presto"),
    ],
)
def test_a_format_that_a_reader_cannot_read_is_refused(
    folder: Path, readers: str, properties: str, unable: str
) -> None:
    """Whoever names a reader wants it to read, so the error says which one could not."""
    with pytest.raises(ConfigError, match=rf"which {unable} cannot read"):
        _table(folder, f"readers: {readers}, properties: {properties}")


def test_a_reader_takes_properties_that_it_can_read(folder: Path) -> None:
    """Format 2 written anew is what every engine reads."""
    modes = ", ".join(f"write.{name}.mode: copy-on-write" for name in ("delete", "update", "merge"))
    table = _table(folder, f"readers: [databricks, athena], properties: {{format-version: 2, {modes}}}")

    assert table.format_properties()["write.merge.mode"] == "copy-on-write"


def test_table_properties_win_over_what_readers_ask_for(folder: Path) -> None:
    """Who sets a property knows why; no table property is a secret, as every reader sees them."""
    properties = _table(folder, "properties: {format-version: 2, write.key: x}").format_properties()

    assert (properties["format-version"], properties["write.key"]) == ("2", "x")


@pytest.mark.parametrize(
    "written",
    [
        "partitioned_by: [c]",
        "partitioned_by: 'days(c)'",
        "partitioned_by: ['bucket(16, c)', 'truncate(8,d)']",
        "sorted_by: c",
        "sorted_by: ['c desc', 'bucket(4, d) ASC NULLS LAST', 'e nulls first']",
    ],
)
def test_iceberg_transforms_are_accepted(folder: Path, written: str) -> None:
    """One may stand without brackets."""
    table = _table(folder, written)

    assert table.partitioned_by or table.sorted_by


@pytest.mark.parametrize(
    "text", ["", "c;d", "c) STORED AS (x", "bucket(0, c)", "bucket(c)", "void(c)", "`c`", "c desc", "c\n"]
)
def test_what_is_no_transform_cannot_reach_sql(folder: Path, text: str) -> None:
    """Names are parsed, not only quoted."""
    quoted = '"' + text.replace("\n", "\\n") + '"'

    assert "no Iceberg transform" in refusal(folder, SMALL.replace("}]", f", partitioned_by: [{quoted}]}}]"))


def _resolved(tables: list[dict[str, Any]], topics: list[str]) -> list[tuple[str, str]]:
    resolved = resolve_tables([TableConfig(**table) for table in tables], topics)
    return [(table.topic, str(table.mirror)) for table in resolved]


def test_a_glob_becomes_its_topics() -> None:
    """In order of name, without topics that are no tables, and without those that have an entry of their own."""
    topics = ["s.p.b", "s.p.a", "s.q.c", "s.transaction", "__debezium-heartbeat.s", "s.p.debezium_signal", "S.P.x"]

    assert _resolved([{"topic": "s.p.*"}, {"topic": "s.p.b", "mirror": "x.y"}], topics) == [
        ("s.p.a", "p.a"),
        ("s.p.b", "x.y"),
    ]
    assert _resolved([{"topic": "s.*"}], topics) == [("s.p.a", "p.a"), ("s.p.b", "p.b"), ("s.q.c", "q.c")]


def test_a_globs_settings_hold_for_each_of_its_topics() -> None:
    """And the first of two globs takes a topic."""
    tables = [TableConfig(topic="s.p.a*", strict=True), TableConfig(topic="s.p.*")]

    assert [table.strict for table in resolve_tables(tables, ["s.p.a1", "s.p.b1"])] == [True, False]


def test_an_exact_topic_need_not_exist_yet() -> None:
    """Whether it does is the source's to say."""
    assert _resolved([{"topic": "s.p.a"}], []) == [("s.p.a", "p.a")]


def test_a_glob_that_matches_nothing_is_an_error() -> None:
    """A run that silently mirrors nothing would look like success."""
    with pytest.raises(TopicMissing, match=r"matches `s\.x\.\*`; the source has 1 such topics"):
        _resolved([{"topic": "s.x.*"}], ["s.p.a", "s.transaction"])


def test_a_glob_with_a_mirror_is_one_table_of_all_its_topics() -> None:
    """Without those that have an entry of their own; and no table where none is left."""
    several = TableConfig(topic="s.p.*", mirror="x.y")
    (found,) = resolve_tables([several], ["s.p.b", "s.p.a", "s.q.c"])

    assert (found.topics, str(found.mirror)) == (("s.p.a", "s.p.b"), "x.y")
    assert several.topics == ()
    assert _resolved([{"topic": "s.p.a"}, {"topic": "s.p.*", "mirror": "x.y"}], ["s.p.a"]) == [("s.p.a", "p.a")]
    assert _resolved([{"topic": "s.p.a"}, {"topic": "t.*", "mirror": "x.y"}], []) == [("s.p.a", "p.a"), ("t.*", "x.y")]


@pytest.mark.parametrize("settings", ["topic: s.p.a", "topic: 's.*.*', mirror: x.y", "topic: 's.[ab]', mirror: x.y"])
def test_a_shard_needs_a_glob_that_names_it_and_one_mirror(folder: Path, settings: str) -> None:
    """Otherwise nothing says what the server is called."""
    message = refusal(folder, SMALL.replace("topic: shop.public.orders", f"{settings}, shard: server"))

    assert "has `shard` and not both a `topic` with one `*` and a `mirror`" in message


@pytest.mark.parametrize("more", ["shard: __cdc", "shard: id, key: [id]", "shard: a, snapshot_sweep: true"])
def test_a_shard_is_a_column_of_its_own(folder: Path, more: str) -> None:
    """No key column of the rows and none of ours; and what a mirror of several servers cannot do is refused."""
    message = refusal(folder, SMALL.replace("topic: shop.public.orders", f"topic: 's_*.p.a', mirror: x.y, {more}"))

    assert "`shard`" in message


@pytest.mark.parametrize(
    ("tables", "topics"),
    [
        ([{"topic": "s.p.a"}, {"topic": "t.p.a"}], []),
        ([{"topic": "s.p.a", "mirror": "x.y"}, {"topic": "s.p.b", "mirror": "X.y"}], []),
        ([{"topic": "s.p.*", "mirror": "x.y"}, {"topic": "t.a", "mirror": "x.y"}], ["s.p.a", "s.p.b"]),
        ([{"topic": "?.p.a"}], ["s.p.a", "t.p.a"]),
    ],
)
def test_two_topics_for_one_mirror_are_refused(tables: list[dict[str, Any]], topics: list[str]) -> None:
    """Names that differ only in case would share a folder on some file systems."""
    with pytest.raises(ConfigError, match="would both go to the mirror"):
        _resolved(tables, topics)


@pytest.mark.parametrize(
    ("tables", "topics", "kept", "mirrors", "refused"),
    [
        (["s.p.a", "t.*"], ["s.p.a"], None, ["p.a"], {"t.*": TopicMissing}),
        (["s.p.*"], ["s.p.a", "s.p.a__raw"], None, ["p.a"], {"s.p.a__raw": InvalidName}),
        (["s.p.*"], ["s.p.A", "s.p.a", "s.p.b"], "s.p.a", ["p.a", "p.b"], {"s.p.A": ConfigError}),
        (["s.p.*"], ["s.p.A", "s.p.a", "s.p.b"], None, ["p.b"], {"s.p.A": ConfigError, "s.p.a": ConfigError}),
        (["t.p.a", "s.p.*"], ["s.p.a", "s.p.b", "t.p.a"], "s.p.a", ["p.a", "p.b"], {"s.p.a": ConfigError}),
    ],
)
def test_a_topic_that_no_table_can_be_made_of_leaves_the_others(
    tables: list[str], topics: list[str], kept: str | None, mirrors: list[str], refused: dict[str, type]
) -> None:
    """Of two for one mirror the one stays that the file names, or else the mirror's own; where there is none, none."""
    found = find_tables([TableConfig(topic=topic) for topic in tables], topics, lambda table: table.topic == kept)

    assert [str(table.mirror) for table in found.tables] == mirrors
    assert {one.topic: type(one.error) for one in found.refused} == refused


def test_two_topics_for_one_mirror_are_refused_when_the_file_is_read(folder: Path) -> None:
    """Without asking the source, where no glob is involved."""
    assert "would both go to the mirror `p.a`" in refusal(
        folder, SMALL.replace("shop.public.orders", "s.p.a}, {topic: t.p.a")
    )
