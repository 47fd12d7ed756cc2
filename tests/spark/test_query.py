"""Answers over mirrors as they are, and as they would be after a run; nothing is written either way."""

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import UsageError
from cdc_materializer.names import TableName, quote
from cdc_materializer.query.fresh import read, read_fresh
from cdc_materializer.query.query import run_query, told_rows
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import TopicBuilder, debezium_envelope
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


@pytest.fixture
def asked(lake_config: Config) -> tuple[Config, TopicBuilder]:
    """A pipeline of one table, and its topic, which has nothing in it yet."""
    space = f"asked_{next(_numbers)}"
    path = lake_config.root / f"{space}.yaml"
    table = {"topic": "asked.public.orders", "mirror": f"{space}.orders", "contract": f"{space}.contract.yaml"}
    path.write_text(yaml.safe_dump({"name": "tests", "source": {"files": space}, "tables": [table]}))
    contract: dict[str, Any] = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "o", "name": "O"}
    contract |= {"version": "1.0.0", "status": "active"}
    columns = [
        {"name": "id", "logicalType": "integer", "physicalType": "bigint", "primaryKey": True},
        {
            "name": "total",
            "logicalType": "number",
            "physicalType": "decimal(12,2)",
            "logicalTypeOptions": {"minimum": 0},
        },
        {"name": "note", "logicalType": "string", "physicalType": "string"},
    ]
    contract["schema"] = [{"name": "orders", "properties": columns}]
    (lake_config.root / f"{space}.contract.yaml").write_text(yaml.safe_dump(contract))
    return load_config(path), TopicBuilder("asked.public.orders")


def _send(
    config: Config,
    topic: TopicBuilder,
    op: str,
    key: int | None,
    row: dict[str, Any] | None,
    partition: int = 0,
    table: str = "orders",
) -> None:
    before = {"id": key} if row is None and key is not None else None
    envelope = debezium_envelope(op, before, row, lsn=100 + len(topic.messages), table=table)
    told = json.dumps({"id": key}).encode() if key is not None else None
    topic.add(told, json.dumps(envelope).encode(), partition=partition)
    folder = config.source.files
    assert folder is not None
    folder.mkdir(exist_ok=True)
    topic.write(folder)


def test_a_fresh_mirror_may_have_any_name(spark: "SparkSession", asked: tuple[Config, TopicBuilder]) -> None:
    """Also one that Spark takes in backticks alone."""
    config, topic = asked
    mirror = TableName.parse(f"{config.tables[0].mirror}-2")
    text = config.path.read_text(encoding="utf-8")
    config.path.write_text(text.replace(f"mirror: {config.tables[0].mirror}", f"mirror: {mirror}"), encoding="utf-8")
    config = load_config(config.path)
    _send(config, topic, "c", 1, {"id": 1, "total": "10.50", "note": None})
    assert run_once(config, spark).exit_code == 0
    _send(config, topic, "c", 2, {"id": 2, "total": "10.50", "note": None})
    place = ".".join(map(quote, (*mirror.namespace, mirror.name)))

    found = run_query(config, f"SELECT {quote(mirror.name)}.id FROM {place} ORDER BY 1", 10, fresh=True, spark=spark)

    assert found.rows == [[1], [2]]


def test_a_fresh_answer_is_that_of_a_mirror_after_the_next_run(
    spark: "SparkSession", asked: tuple[Config, TopicBuilder]
) -> None:
    """What a run would hold is not in it, and asking changes nothing."""
    config, topic = asked
    name = str(config.tables[0].mirror)
    for key in (1, 2, 3):
        _send(config, topic, "c", key, {"id": key, "total": "10.50", "note": f"it's {key}"})
    assert run_once(config, spark).exit_code == 0
    _send(config, topic, "u", 1, {"id": 1, "total": "20.00", "note": None})
    _send(config, topic, "d", 2, None)
    _send(config, topic, "c", 4, {"id": 4, "total": "4.25", "note": "d"})
    _send(config, topic, "u", 3, {"id": 3, "total": "-1.00", "note": "bad"})
    wanted = f"SELECT o.id, o.total, note FROM {name} o ORDER BY 1"

    published = run_query(config, wanted, 10, fresh=False, spark=spark)
    fresh = run_query(config, wanted, 10, fresh=True, spark=spark)
    rows = read(config, name, spark).drop("__cdc")
    told = read_fresh(config, name, spark)
    again = run_query(config, f"SELECT count(*), sum({name}.total) FROM {name}", 1, fresh=False, spark=spark)

    assert published.rows == [[1, "10.50", "it's 1"], [2, "10.50", "it's 2"], [3, "10.50", "it's 3"]]
    assert [column.type for column in fresh.columns] == ["bigint", "decimal(12,2)", "string"]
    assert fresh.rows == [[1, "20.00", None], [3, "10.50", "it's 3"], [4, "4.25", "d"]]
    assert [(one.table, one.messages, one.held) for one in fresh.fresh] == [(name, 4, 1)]
    assert sorted(row["id"] for row in rows.collect()) == [1, 3, 4]
    assert sorted(row["id"] for row in told.rows.collect()) == [1, 3, 4]
    assert (told.messages, told.held, told.newest) == (4, 1, fresh.fresh[0].newest)
    assert told.newest is not None
    assert again.rows == [[3, "31.50"]]
    assert run_query(config, wanted, 2, fresh=False, spark=spark).more
    times = "SELECT TIMESTAMP_NTZ '2026-01-02 03:04:05.000006', TIMESTAMP '0001-02-03 00:00:00.5Z', DATE '2026-01-02'"
    assert run_query(config, times, 1, fresh=False, spark=spark).rows == [
        ["2026-01-02T03:04:05.000006", "0001-02-03T00:00:00.500000Z", "2026-01-02"]
    ]

    assert run_once(config, spark).exit_code == 0
    assert run_query(config, wanted, 10, fresh=False, spark=spark).rows == fresh.rows
    assert run_query(config, wanted, 10, fresh=True, spark=spark).fresh[0].messages == 0
    with pytest.raises(UsageError, match=f"reads {name} in a way that has no fresh rows"):
        run_query(config, f"SELECT * FROM {name} JOIN IDENTIFIER('{name}') USING (id)", 1, fresh=True, spark=spark)
    with pytest.raises(UsageError, match="cannot be answered"):
        run_query(config, f"DELETE FROM {name}", 10, fresh=False, spark=spark)
    with pytest.raises(
        UsageError, match=r"name `pric` cannot be resolved\. Did you mean .*`total`.*\. It is one SELECT"
    ):
        run_query(config, f"SELECT pric FROM {name}", 10, fresh=False, spark=spark)
    (file, *_) = run_query(config, f"SELECT file_path FROM {name}.files", 1, fresh=False, spark=spark).rows[0]
    with pytest.raises(UsageError, match="cannot be answered"):
        run_query(config, f"SELECT * FROM parquet.`{file}`", 1, fresh=False, spark=spark)


@pytest.mark.parametrize("several", [False, True], ids=["partition", "topic"])
def test_a_fresh_answer_has_what_was_added_since_the_last_run(
    spark: "SparkSession", asked: tuple[Config, TopicBuilder], *, several: bool
) -> None:
    """A partition of the topic that neither table has read, or a topic of a glob, whose name may come first."""
    config, topic = asked
    name = str(config.tables[0].mirror)
    added = TopicBuilder("asked.public.another", first_offset=5) if several else topic
    if several:
        (table,) = config.tables
        config = config.model_copy(update={"tables": [table.model_copy(update={"topic": "asked.public.*"})]})
    _send(config, topic, "c", 1, {"id": 1, "total": "1.00", "note": "a"})
    assert run_once(config, spark).exit_code == 0
    _send(config, topic, "c", 2, {"id": 2, "total": "2.00", "note": "b"})
    _send(config, added, "c", 3, {"id": 3, "total": "3.00", "note": "c"}, partition=0 if several else 1)
    wanted = f"SELECT id, total, note FROM {name} ORDER BY 1"

    fresh = run_query(config, wanted, 10, fresh=True, spark=spark)

    assert fresh.rows == [[1, "1.00", "a"], [2, "2.00", "b"], [3, "3.00", "c"]]
    assert [(one.messages, one.held) for one in fresh.fresh] == [(2, 0)]
    assert run_once(config, spark).exit_code == 0
    assert run_query(config, wanted, 10, fresh=False, spark=spark).rows == fresh.rows


def test_a_fresh_answer_leaves_out_the_deleted_rows_that_a_mirror_keeps(
    spark: "SparkSession", asked: tuple[Config, TopicBuilder]
) -> None:
    """Whether messages wait or not; `__cdc.deleted` is there either way, as a query of the mirror names it."""
    config, topic = asked
    (table,) = config.tables
    name = str(table.mirror)
    config = config.model_copy(update={"tables": [table.model_copy(update={"deletes": "soft"})]})
    for key in (1, 2):
        _send(config, topic, "c", key, {"id": key, "total": "1.00", "note": "a"})
    _send(config, topic, "d", 1, None)
    assert run_once(config, spark).exit_code == 0
    wanted = f"SELECT id, __cdc.deleted FROM {name} WHERE id > 0 ORDER BY 1"

    assert run_query(config, wanted, 10, fresh=True, spark=spark).rows == [[2, False]]
    published = read(config, name, spark, fresh=False)
    assert sorted(row["id"] for row in published.collect()) == [1, 2]

    _send(config, topic, "c", 3, {"id": 3, "total": "3.00", "note": "c"})

    live = wanted.replace("id > 0", "NOT __cdc.deleted")
    fresh = run_query(config, live, 10, fresh=True, spark=spark)
    assert fresh.rows == [[2, False], [3, False]]
    assert read(config, name, spark).select("__cdc.*").columns == published.select("__cdc.*").columns


@pytest.mark.parametrize(
    ("deletes", "other", "left"),
    [("hard", "orders", [4]), ("soft", "orders", [4]), ("hard", "parts", [2, 4]), ("soft", "parts", [2, 4])],
    ids=["hard", "soft", "routed", "soft and routed"],
)
def test_a_fresh_answer_has_no_row_that_a_truncate_ends(
    spark: "SparkSession", asked: tuple[Config, TopicBuilder], deletes: str, other: str, left: list[int]
) -> None:
    """Before a run has read it: none of its own source table, and those of the other; what came behind it stays."""
    config, topic = asked
    (table,) = config.tables
    name = str(table.mirror)
    config = config.model_copy(update={"tables": [table.model_copy(update={"deletes": deletes})]})
    for key, source in ((1, "orders"), (2, other), (3, "orders")):
        _send(config, topic, "c", key, {"id": key, "total": "1.00", "note": "a"}, table=source)
    _send(config, topic, "d", 3, None)
    assert run_once(config, spark).exit_code == 0
    _send(config, topic, "t", None, None)
    _send(config, topic, "c", 4, {"id": 4, "total": "4.00", "note": "d"})

    told = read_fresh(config, name, spark)
    fresh = sorted(told.rows.collect())

    assert [row["id"] for row in fresh] == left
    assert (told.messages, told.held) == (2, 0)
    assert run_once(config, spark).exit_code == 0
    mirror = spark.table(f"lake.{name}")
    live = mirror.where("NOT __cdc.deleted") if deletes == "soft" else mirror
    assert sorted(live.collect()) == fresh


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("map(DATE'2026-01-02', 1)", {"2026-01-02": 1}),
        ("map(TIMESTAMP'2026-01-02 03:04:05.000006Z', 1.5)", {"2026-01-02T03:04:05.000006Z": "1.5"}),
        ("array(map(TIMESTAMP_NTZ'2026-01-02 03:04:05', NULL))", [{"2026-01-02T03:04:05.000000": None}]),
        ("map('a', map(X'01ff', struct(TIME'10:00:00' AS t)))", {"a": {"Af8=": {"t": "10:00:00"}}}),
        ("struct(map(struct('x' AS a, 1.50 AS b), 1) AS m)", {"m": {'{"a":"x","b":"1.50"}': 1}}),
        ("map(INTERVAL 1 DAY, TIME'10:00:00.000001')", {"INTERVAL '1' DAY": "10:00:00.000001"}),
        ("map('it\"s', 1, 'b', 2)", {'it"s': 1, "b": 2}),
        ("CAST(NULL AS MAP<DATE, INT>)", None),
        ("TIME'10:00:00'", "10:00:00"),
    ],
)
def test_keys_of_maps_are_told_as_values_are(spark: "SparkSession", value: str, told: object) -> None:
    """Spark writes days and microseconds since 1970 in the place of dates and times, and addresses for bytes."""
    assert told_rows(spark.sql(f"SELECT {value}"))[1] == [[told]]


def test_decimals_inside_of_other_values_keep_their_digits(spark: "SparkSession") -> None:
    """As texts, wherever they stand; what stands beside them is told as it is."""
    number = "CAST('12345678901234567890.1234567800' AS DECIMAL(38,10))"
    query = f"""
        SELECT array({number}, NULL) AS a, map({number}, array({number})) AS m,
            named_struct('x.y', {number}, '`decimal(1,2)', 1.5D, 't', DATE '2026-01-02') AS s,
            struct(one.n, other.n) AS twice, CAST(NULL AS STRUCT<n: DECIMAL(3,2)>) AS nothing
        FROM (SELECT {number} AS n) AS one, (SELECT 1.50 AS n) AS other
    """
    digits = "12345678901234567890.1234567800"

    columns, rows = told_rows(spark.sql(query))

    assert columns[3].type == "struct<`n`:decimal(38,10),`n`:decimal(3,2)>"
    assert rows[0][:3] == [
        [digits, None],
        {digits: [digits]},
        {"x.y": digits, "`decimal(1,2)": 1.5, "t": "2026-01-02"},
    ]
    assert rows[0][3]["n"] == "1.50"
    assert rows[0][4] is None
