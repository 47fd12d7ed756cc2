"""pipeline.yaml becomes a complete configuration: absolute, with its variables, and with its secrets kept."""

import re
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from cdc_materializer.config import (
    CatalogConfig,
    PipelineFile,
    SourceConfig,
    TableConfig,
    config_json_schema,
    reveal,
)
from cdc_materializer.config.values import Settings
from cdc_materializer.names import TableName
from cdc_materializer.source.kafka_properties import OURS, librdkafka_properties
from tests.unit.pipelines import SMALL, load


def test_a_small_file_is_completed_from_its_folder(folder: Path) -> None:
    """Without a catalog it is SQLite in `lake` beside the file; paths are absolute; the topic names the mirror."""
    config = load(folder, SMALL)

    assert (config.path, config.root) == (folder / "pipeline.yaml", folder)
    assert config.source.files == folder / "recorded"
    assert config.registry is None
    assert config.catalog.name == "lake"
    assert config.catalog.properties == {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:file:{folder}/lake/catalog.db",
        "warehouse": f"file://{folder}/lake/warehouse",
        "jdbc.schema-version": "V1",
    }
    assert config.tables[0].mirror == TableName.parse("public.orders")
    assert config.tables[0].records_max == 500_000
    assert config.tables[0].position_regression_tolerance == timedelta(hours=1)


def test_the_designs_example_is_understood(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of the file of design section 4.2, with a secret from the environment."""
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2: ${NOT_AGAIN}")
    config = load(
        folder,
        """
name: shop
source:
  kafka: {bootstrap.servers: "localhost:9092", sasl.password: "${BROKER_PASSWORD}", enable.ssl.x: true, retries: 5}
registry: {url: "http://localhost:8081", basic_auth: {user: u, password: p}, headers: {X-A: b}, tls: {ca: ca.pem}}
catalog:
  name: lake
  type: jdbc
  uri: jdbc:sqlite:lake/catalog.db
  warehouse: lake/warehouse
spark:
  spark.master: local[*]
defaults: {}
tables:
  - topic: shop.public.orders
    mirror: shop.orders
    contract: contracts/orders.yaml
""",
    )

    assert config.source.kafka is not None
    assert reveal(config.source.kafka) == {
        "bootstrap.servers": "localhost:9092",
        "sasl.password": "hunter2: ${NOT_AGAIN}",
        "enable.ssl.x": "true",
        "retries": "5",
    }
    assert config.registry is not None
    assert config.registry.tls is not None
    assert config.registry.tls.ca == folder / "ca.pem"
    assert config.catalog == load(folder, SMALL).catalog
    assert config.tables[0].mirror == TableName.parse("shop.orders")
    assert config.tables[0].contract == folder / "contracts/orders.yaml"


def test_files_of_a_kafka_client_are_relative_to_the_file(folder: Path) -> None:
    """As all paths in it; what is no file of the user's stays as it is, and a secret one."""
    given = "ssl.ca.location: a/ca.pem, ssl.key.location: ../key.pem, ssl.keystore.location: /k.p12, a.location: b"
    source = "{kafka: {bootstrap.servers: b, https.ca.location: probe, ssl.crl.location: '', " + given + "}}"
    kafka = load(folder, SMALL.replace("{files: recorded}", source)).source.kafka

    assert kafka is not None
    assert reveal(kafka) == {
        "bootstrap.servers": "b",
        "https.ca.location": "probe",
        "ssl.crl.location": "",
        "ssl.ca.location": str(folder / "a" / "ca.pem"),
        "ssl.key.location": str(folder.parent / "key.pem"),
        "ssl.keystore.location": "/k.p12",
        "a.location": "b",
    }
    assert isinstance(kafka["ssl.key.location"], SecretStr)


def test_what_the_program_decides_of_a_kafka_client_is_told() -> None:
    """In the description of the setting that leaves it out."""
    told = SourceConfig.model_fields["kafka"].description or ""
    given = dict.fromkeys(re.findall(r"`([a-z.]+)`", told), "x")

    assert given.keys() - {"bootstrap.servers"} == OURS
    assert librdkafka_properties(given) == {"bootstrap.servers": "x"}


@given(secret=st.text(st.characters(categories=("L", "N")), min_size=12, max_size=30))
@settings(max_examples=25)
def test_a_secret_never_shows(folder: Path, secret: str) -> None:
    """Neither repr, str, dump nor JSON has it; only `reveal` gives it back."""
    secret = "SECRET" + secret
    config = load(
        folder,
        f"""
name: shop
source: {{kafka: {{bootstrap.servers: b, sasl.jaas.config: {secret}, ssl.key.password: {secret}}}}}
registry: {{url: "http://r", basic_auth: {{user: u, password: {secret}}}, headers: {{Authorization: {secret}}}}}
catalog: {{type: rest, uri: "http://c", credential: {secret}, TOKEN: {secret}, x: "http://u:{secret}@h"}}
masks: {{key: 0123-{secret}}}
spark: {{spark.hadoop.fs.s3a.secret.key: {secret}, spark.url: "jdbc:x?user=u&password={secret}"}}
tables: [{{topic: a.b.c}}]
""",
    )

    for shown in (repr(config), str(config), repr(config.model_dump()), config.model_dump_json()):
        assert secret not in shown
    assert list(reveal(config.catalog.properties).values()).count(secret) == 2
    assert reveal(config.spark)["spark.hadoop.fs.s3a.secret.key"] == secret


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("-Djavax.net.ssl.trustStorePassword=changeit", True),
        ("-Xmx1g -Djavax.net.ssl.keyStorePassword=changeit -Dx=1", True),
        ("-Daws.accessKeyId=AK -Daws.secretKey=changeit", True),
        ("-Daws.secretAccessKey=changeit", True),
        ("jdbc:x?sslkeypassphrase=changeit", True),
        ("AccountName=a;AccountKey=changeit", True),
        ("-Djavax.net.ssl.trustStore=/etc/store.jks -Dmap.key=id", False),
        ("-Dtokenizer=words -Dpassword.file", False),
    ],
)
def test_a_value_that_holds_a_password_is_a_secret_under_any_name(folder: Path, value: str, *, is_secret: bool) -> None:
    """A list of options has those of others in it, under names in which words are written together."""
    config = load(folder, f"{SMALL}\nspark: {{spark.mine: '{value}'}}")

    assert isinstance(config.spark["spark.mine"], SecretStr) is is_secret


def test_variables_are_replaced_in_every_text_and_only_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value cannot become structure; `$${` stays a plain `${`; numbers can come from the environment too."""
    monkeypatch.setenv("TOPIC", "a.b.c")
    monkeypatch.setenv("MAX", "7")
    monkeypatch.setenv("EVIL", "x, y: [z]\nname: other")
    config = load(
        folder,
        "name: ${TOPIC}\nsource: {kafka: {bootstrap.servers: '${EVIL}', p: 'a$${b}$c${TOPIC}'}}\n"
        "tables: [{topic: '${TOPIC}', records_max: '${MAX}'}]",
    )

    assert config.name == "a.b.c"
    assert config.source.kafka == {"bootstrap.servers": "x, y: [z]\nname: other", "p": "a${b}$ca.b.c"}
    assert config.tables[0].records_max == 7


def test_defaults_hold_where_a_table_does_not_say_otherwise(folder: Path) -> None:
    """Maps are merged key by key, and a setting without a value falls back to its own default."""
    config = load(
        folder,
        """
name: shop
source: {files: recorded}
defaults: {truncate: stop, records_max: 5, special_values: clamp, properties: {a: 1, b: 2}, contract: c.yaml}
tables:
  - {topic: a.b.c}
  - {topic: a.b.d, truncate: ignore, records_max: , special_values: null, properties: {b: 3}, contract: ~}
""",
    )
    first, second = config.tables

    assert (first.truncate, first.records_max, first.special_values) == ("stop", 5, "clamp")
    assert (first.properties, first.contract) == ({"a": "1", "b": "2"}, folder / "c.yaml")
    assert (second.truncate, second.records_max, second.special_values) == ("ignore", 500_000, "null")
    assert (second.properties, second.contract) == ({"a": "1", "b": "3"}, None)


def test_a_setting_without_a_value_is_as_if_it_was_not_there(folder: Path) -> None:
    """With `defaults` or without; so `null`, as some write the setting of that name, is what it is by itself."""
    config = load(folder, f"{SMALL}").tables
    (table,) = load(folder, SMALL.replace("topic: ", "special_values: null, key: , topic: ")).tables

    assert (table.special_values, table) == ("null", config[0])


def test_yaml_keeps_what_the_file_says(folder: Path) -> None:
    """Only true, false, null and whole numbers are not text: no `no` that is false, no time that is a number."""
    written = "{a: no, b: 1.10, c: 0123, d: '5', e: 12:30:45, f: 2026-01-01, g: True, h: 1_000, i: 0x1F, j: +1, k: 1e3}"
    config = load(folder, f"{SMALL}catalog: {written}")

    assert [reveal(config.catalog.properties)[name] for name in "abcdefghijk"] == [
        "no", "1.10", "0123", "5", "12:30:45", "2026-01-01", "true", "1_000", "0x1F", "+1", "1e3",
    ]  # fmt: skip


def test_yaml_anchors_and_merge_keys_work(folder: Path) -> None:
    """They are part of YAML and people use them."""
    config = load(folder, SMALL.replace("[{topic", "[{topic: a.b.c, <<: &x {strict: true}}, {<<: *x, topic"))

    assert [table.strict for table in config.tables] == [True, True]


@pytest.mark.parametrize(
    ("written", "uri", "warehouse"),
    [
        ("{uri: 'jdbc:sqlite:x/c.db'}", "jdbc:sqlite:file:ROOT/x/c.db", "file://ROOT/lake/warehouse"),
        ("{uri: 'jdbc:sqlite:file:c.db', warehouse: ../w}", "jdbc:sqlite:file:ROOT/c.db", "file://PARENT/w"),
        ("{uri: 'jdbc:sqlite:/a/c.db', warehouse: /w}", "jdbc:sqlite:file:/a/c.db", "file:///w"),
        ("{uri: 'jdbc:sqlite:file:///a/c.db?x=1', warehouse: 's3://b/w'}", "jdbc:sqlite:file:/a/c.db?x=1", "s3://b/w"),
        (
            "{uri: 'jdbc:sqlite:a#b%c.db', type: jdbc}",
            "jdbc:sqlite:file:ROOT/a%23b%25c.db",
            "file://ROOT/lake/warehouse",
        ),
        ("{uri: 'http://c', warehouse: w}", "http://c", "w"),
        ("{warehouse: w}", "jdbc:sqlite:file:ROOT/lake/catalog.db", "file://ROOT/w"),
    ],
)
def test_a_local_catalog_is_made_absolute_and_a_remote_one_passed_on(
    folder: Path, written: str, uri: str, warehouse: str
) -> None:
    """Relative to the file's folder; warehouses on disk get the scheme that readers need; a server's name stays."""
    properties = load(folder, f"{SMALL}catalog: {written}").catalog.properties

    for name, value in {"uri": uri, "warehouse": warehouse}.items():
        assert properties[name] == value.replace("ROOT", str(folder)).replace("PARENT", str(folder.parent))


def test_the_file_of_a_sqlite_catalog_is_known(folder: Path) -> None:
    """Whatever signs its name has; other catalogs have none."""
    assert (
        load(folder, f"{SMALL}catalog: {{uri: 'jdbc:sqlite:a#b%c d.db'}}").catalog.sqlite_path == folder / "a#b%c d.db"
    )
    assert load(folder, f"{SMALL}catalog: {{type: rest, uri: 'http://c'}}").catalog.sqlite_path is None


def test_any_catalog_property_is_passed_on(folder: Path) -> None:
    """Also those that nobody here has heard of."""
    catalog = load(folder, f"{SMALL}catalog: {{name: prod, type: glue, glue.id: 12, s3.secret-access-key: x}}").catalog

    assert catalog.name == "prod"
    assert reveal(catalog.properties) == {"type": "glue", "glue.id": "12", "s3.secret-access-key": "x"}
    assert isinstance(catalog.properties["s3.secret-access-key"], SecretStr)


def test_models_can_be_made_in_code() -> None:
    """A library's user has no file."""
    table = TableConfig(topic="a.b.c", mirror=TableName.parse("x.y"), readers=("spark",))
    catalog = CatalogConfig(name="lake", properties={"type": "rest", "uri": "http://c"})

    assert str(table.mirror) == "x.y"
    assert catalog.properties["uri"] == "http://c"


def test_the_json_schema_takes_what_the_reader_takes() -> None:
    """It is a valid draft 2020-12 schema, has no unknown keys, and leaves out what is not available yet."""
    schema = config_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    table = {
        "topic": "a.b.c",
        "mirror": "x.y",
        "key": "id",
        "special_values": None,
        "position_regression_tolerance": "2d",
    }
    good = {"name": "n", "source": {"kafka": {"a.b": True}}, "catalog": {"name": "l", "x": 1}, "tables": [table]}

    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "nmae": "x"})
    assert not validator.is_valid({**good, "tables": [{**table, "format": "maxwel"}]})
    assert validator.is_valid(
        {**good, "tables": [{**table, "incompatible_schema": "new_column", "renames": {"a": "b"}}]}
    )
    assert not validator.is_valid({**good, "tables": [{**table, "renames": ["a"]}]})
    assert not validator.is_valid({**good, "tables": [{"mirror": "x.y"}]})
    assert schema["$defs"]["TableSettings"]["properties"]["position_regression_tolerance"]["default"] == "1h"


def test_every_setting_is_described() -> None:
    """The reference and editors show these sentences; each begins like one and ends like one."""
    models: list[type[Settings]] = [PipelineFile, *_models(Settings)]
    undescribed = [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if not re.fullmatch(r"[A-Z].*\.", field.description or "")
    ]

    assert not undescribed


def _models(base: type[Settings]) -> list[type[Settings]]:
    return [model for child in base.__subclasses__() for model in (child, *_models(child))]
