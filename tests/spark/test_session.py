"""The session that commands build for themselves, on a real Spark."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdc_materializer import jars
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import UsageError
from cdc_materializer.session import session
from cdc_materializer.session.session import adopt_session, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def jvm_arguments(spark: "SparkSession") -> Callable[[], list[str]]:
    """Ask the JVM for the options it runs with."""
    jvm: Any = spark.sparkContext._jvm
    return lambda: list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())


def test_a_table_written_in_one_session_is_in_the_catalog(
    spark: "SparkSession", namespace: str, warehouse: Path
) -> None:
    """The catalog of the configuration is there and its tables are in the configured warehouse."""
    spark.sql(f"CREATE TABLE lake.{namespace}.t (id INT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"INSERT INTO lake.{namespace}.t VALUES (7)")

    assert [row.id for row in spark.table(f"lake.{namespace}.t").collect()] == [7]
    assert list((warehouse / namespace / "t" / "data").glob("*.parquet"))


def test_iceberg_extensions_are_loaded(spark: "SparkSession", namespace: str) -> None:
    """Statements that only Iceberg's extensions know, such as branches, work."""
    spark.sql(f"CREATE TABLE lake.{namespace}.t (id INT) USING iceberg")
    spark.sql(f"INSERT INTO lake.{namespace}.t VALUES (7)")
    spark.sql(f"ALTER TABLE lake.{namespace}.t CREATE BRANCH stage")

    assert {row.name for row in spark.table(f"lake.{namespace}.t.refs").collect()} == {"main", "stage"}


def test_times_are_utc_and_wrong_casts_are_errors(spark: "SparkSession") -> None:
    """A timestamp without a zone is read as UTC, and ANSI mode refuses what would silently become NULL."""
    # Not in the text of the query: Spark would work it out while planning and raise another error.
    words = spark.createDataFrame([("seven",)], "word STRING")

    assert spark.sql("SELECT unix_timestamp(TIMESTAMP '1970-01-02 00:00:00') AS s").collect()[0].s == 86_400
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        words.selectExpr("CAST(word AS INT)").collect()


def test_a_query_that_fails_is_told_to_no_logger(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failed cast names the value; and while PySpark asks for its logger, those of other threads are of its class."""
    asked = list[str]()
    monkeypatch.setattr("pyspark.logger.PySparkLogger.getLogger", asked.append)
    words = spark.createDataFrame([("seven",)], "word STRING")

    for failing in (words.selectExpr("CAST(word AS INT)"), spark.sql("SELECT CAST(word AS INT) FROM {w}", w=words)):
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            failing.collect()

    assert asked == []
    assert "seven" not in "".join(capfd.readouterr())


def test_kafka_and_avro_sources_are_on_the_class_path(spark: "SparkSession") -> None:
    """The classes behind `format("kafka")` and `from_avro` can be loaded."""
    jvm: Any = spark.sparkContext._jvm
    wanted = ("org.apache.spark.sql.kafka010.KafkaSourceProvider", "org.apache.spark.sql.avro.AvroDataToCatalyst")

    assert [jvm.java.lang.Class.forName(name).getName() for name in wanted] == list(wanted)


def test_a_small_session_starts_light(spark: "SparkSession", jvm_arguments: Callable[[], list[str]]) -> None:
    """The quick compiler and the serial collector really reach the JVM, and no web server is started."""
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx4g"} <= set(jvm_arguments())
    assert spark.sparkContext.uiWebUrl is None


def test_nothing_is_left_where_a_command_was_called(spark: "SparkSession") -> None:
    """Looking into Spark's own catalog, which makes its folder, leaves nothing in the current folder."""
    before = set(Path.cwd().iterdir())
    spark.sql("SHOW TABLES IN spark_catalog.default").collect()
    spark.catalog.tableExists("spark_catalog.default.nothing")

    assert set(Path.cwd().iterdir()) == before
    assert Path.cwd() / "spark-warehouse" not in before


def test_the_catalog_is_not_on_the_command_line(jvm_arguments: Callable[[], list[str]]) -> None:
    """No catalog property reaches the command line, where other users of the machine could read a password."""
    assert not [word for word in jvm_arguments() if "spark.sql.catalog." in word]


def test_a_second_session_is_refused(spark: "SparkSession", lake_config: Config) -> None:
    """A process that already runs Spark is told to pass its session instead of getting one with other settings."""
    assert spark.sparkContext.applicationId
    with pytest.raises(UsageError, match="run_once"):
        open_session(lake_config, small=False)


def test_libraries_are_those_that_were_verified(spark: "SparkSession") -> None:
    """Iceberg is loaded from the resolved libraries, not from something that was on the class path before."""
    jvm: Any = spark.sparkContext._jvm
    loaded = jvm.java.lang.Class.forName("org.apache.iceberg.Table").getProtectionDomain().getCodeSource().getLocation()

    assert Path(loaded.getPath()) in jars.resolve()


def test_a_callers_session_stays_as_it_is(spark: "SparkSession", lake_config: Config) -> None:
    """Beside a caller's session ours has its own time zone and views; the caller's keeps what it had."""
    caller = spark.newSession()
    caller.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    beside = adopt_session(caller, lake_config)
    beside.range(1).createOrReplaceTempView("ours")

    assert beside.conf.get("spark.sql.session.timeZone") == "UTC"
    assert caller.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert not caller.catalog.tableExists("ours")


def test_batches_have_settings_that_queries_of_users_have_not(spark: "SparkSession", lake_config: Config) -> None:
    """Whatever the caller's Spark says; but where pipeline.yaml names a property, its value stays."""
    stages, compressed = "spark.sql.codegen.wholeStage", "spark.sql.inMemoryColumnarStorage.compressed"
    own = lake_config.model_copy(update={"spark": {compressed: "true"}})
    batches, queries, told = (
        session.beside(spark, lake_config),
        session.beside(spark, lake_config, asks=True),
        session.beside(spark, own),
    )

    assert (batches.conf.get(stages), batches.conf.get(compressed)) == ("false", "false")
    assert queries.conf.get(compressed) == "true"
    assert (told.conf.get(stages), told.conf.get(compressed)) == ("false", "true")
    assert spark.conf.get(compressed) == "true"


def test_a_callers_session_gets_our_catalog(spark: "SparkSession", namespace: str, tmp_path: Path) -> None:
    """The catalog of the configuration is added beside the caller's, whatever the caller's is."""
    (tmp_path / "recorded").mkdir()
    path = tmp_path / "pipeline.yaml"
    catalog = "{name: second, type: jdbc, uri: 'jdbc:sqlite:second/catalog.db', warehouse: second/warehouse}"
    path.write_text(
        f"name: x\nsource: {{files: recorded}}\ntables: [{{topic: shop.orders}}]\ncatalog: {catalog}\n",
        encoding="utf-8",
    )
    beside = adopt_session(spark, load_config(path))
    beside.sql(f"CREATE NAMESPACE second.{namespace}")

    assert [row.namespace for row in beside.sql("SHOW NAMESPACES IN second").collect()] == [namespace]
    assert (tmp_path / "second" / "catalog.db").is_file()


def test_a_callers_session_without_iceberg_is_refused(lake_config: Config) -> None:
    """Extensions cannot be added to a running Spark, so the answer says how to start one with them."""
    plain = SimpleNamespace(conf=SimpleNamespace(get=lambda _name, default: default))

    with pytest.raises(UsageError, match=r"without Iceberg\. Start it with spark\.sql\.extensions="):
        adopt_session(cast("SparkSession", plain), lake_config)
