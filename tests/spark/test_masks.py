"""Masked columns: what is behind a mask is in the raw table and nowhere else, whatever is done with the table."""

import hashlib
import hmac
import itertools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.changes.masking import masked
from cdc_materializer.cli import main
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_USAGE, ContractInvalid
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.masks import Mask
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.query.fresh import read
from cdc_materializer.query.query import run_query
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.run.run import run_once
from cdc_materializer.session.session import beside
from tests.cases.case import Case
from tests.cases.recording import Recorder
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

MAIL, CARD = "canary.ann@example.test", "4111-1111-1111-1111"
KEY = "the key of canaries, long enough"
_numbers = itertools.count()
_CASE: dict[str, Any] = {
    "key": {"id": "int64"},
    "columns": {"id": "int64", "mail": "optional string", "card": "optional string"},
    "messages": [],
}
_FORMS = (
    *(["report", "--format", form] for form in ("terminal", "json", "html", "markdown")),
    ["status", "--json"],
    ["quarantine", "list", "--status", "all", "--json"],
    ["quarantine", "show", "TABLE", "0/1", "--json"],
)


def _contract(
    path: Path, masks: dict[str, Any], rules: dict[str, Any], names: tuple[str, ...] = ("mail", "card")
) -> None:
    columns = [
        {
            "name": name,
            "physicalType": "text",
            "customProperties": [{"property": how, "value": value} for how, value in masks.get(name, {}).items()],
            **rules.get(name, {}),
        }
        for name in names
    ]
    key = {"name": "id", "physicalType": "bigint", "primaryKey": True}
    schema = [{"name": "canaries", "properties": [key, *columns]}]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "canaries", "version": "1.0.0", "status": "active"}
    path.write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")


def _config(root: Path, space: str) -> Config:
    entry = {"topic": f"{space}.t.canaries", "mirror": f"{space}.canaries", "contract": f"{space}.contract.yaml"}
    (root / f"{space}.key").write_text(KEY + "\n", encoding="utf-8")
    masks = {"masks": {"key_file": f"{space}.key"}}
    path = root / f"{space}.yaml"
    path.write_text(
        yaml.safe_dump({"name": "c", "source": {"files": space}, **masks, "tables": [{**entry, "history": True}]}),
        encoding="utf-8",
    )
    return load_config(path)


def _said(config: Config, name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What commands write, and what the snapshots of mirror and quarantine say of themselves."""
    told = []
    for words in _FORMS:
        assert main([*[name if word == "TABLE" else word for word in words], "-c", str(config.path)]) == 0
        shown = capsys.readouterr()
        told += [shown.out, shown.err]
    lake, mirror = open_tables(config.catalog), config.tables[0].mirror
    return told + [str(dict(line.summary)) for part in (mirror, mirror.quarantine) for line in lake.lines_of(part)]


def _hash(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def test_a_hash_is_hmac_sha_256_and_equal_numbers_have_one(spark: "SparkSession", lake_config: Config) -> None:
    """Anyone with the key can make the same text; a number has the same in every integer and decimal type."""
    values = {
        "int": ("7", "7"), "bigint": ("7", "7"), "decimal(12,2)": ("7.00", "7"), "decimal(38,10)": ("-0.5", "-0.5"),
        "decimal(20,0)": ("700", "700"), "string": ("é\n", "é\n"), "boolean": ("true", "true"),
        "date": ("2026-11-21", "2026-11-21"), "timestamp": ("2026-11-21T10:00:00Z", "2026-11-21 10:00:00"),
        "array<int>": ("[1,2]", "[1,2]"), "binary": ("abc", "abc"),
    }  # fmt: skip
    session = beside(spark, lake_config)
    typed = {ddl: F.lit(text).cast(ddl) for ddl, (text, _) in values.items() if "<" not in ddl}
    typed["array<int>"] = F.array(F.lit(1), F.lit(2))
    for key in (KEY.encode(), b"k" * 100):
        columns = [masked(value, ddl, Mask.HASH, key).alias(ddl) for ddl, value in typed.items()]
        found = session.range(1).select(*columns).collect()[0].asDict()

        assert found == {
            ddl: hmac.new(key, text.encode(), hashlib.sha256).hexdigest() for ddl, (_, text) in values.items()
        }


@TURNS
def test_tables_are_joined_by_hashes_of_one_number_in_types_of_several(
    spark: "SparkSession", lake_config: Config
) -> None:
    """A whole number, a decimal with places and a text that a contract calls a number have one hash in all mirrors."""
    space, numbers = f"masked_{next(_numbers)}", [7, -12, 0, 700, 4_111_111_111]
    kinds = {
        "ints": ("optional int64", "bigint", ""),
        "decimals": ("optional decimal(12,2)", "numeric(12,2)", ".00"),
        "texts": ("optional string", "numeric(20,4)", ".0"),
    }
    entries = []
    for name, (sent, declared, places) in kinds.items():
        case = {"key": {"id": "int64"}, "columns": {"id": "int64", "card": sent}, "messages": []}
        recorder = Recorder(Case(name, 994, case, (), None), f"{space}.t.{name}")
        for row, number in enumerate(numbers):
            recorder.add({"op": "c", "after": {"id": row, "card": f"{number}{places}" if places else number}})
        recorder.add({"op": "c", "after": {"id": 9, "card": None}})
        recorder.write(lake_config.root / space)
        contract = lake_config.root / f"{space}.{name}.yaml"
        _contract(contract, {"card": {"mask": "hash"}}, {"card": {"physicalType": declared}}, ("card",))
        entries.append({"topic": f"{space}.t.{name}", "mirror": f"{space}.{name}", "contract": contract.name})
    path = lake_config.root / f"{space}.yaml"
    path.write_text(yaml.safe_dump({"name": "c", "source": {"files": space}, "masks": {"key": KEY}, "tables": entries}))
    assert run_once(load_config(path), spark).exit_code == 0

    ints, decimals, texts = (spark.table(f"lake.{space}.{name}").select("id", "card") for name in kinds)
    joined = ints.join(decimals.withColumnRenamed("id", "second"), "card").join(
        texts.withColumnRenamed("id", "third"), "card"
    )

    found = {row["card"]: (row["id"], row["second"], row["third"]) for row in joined.collect()}
    assert found == {_hash(str(number)): (row, row, row) for row, number in enumerate(numbers)}


def test_last4_never_shows_more_than_half(spark: "SparkSession") -> None:
    """Of fewer than eight characters nothing is shown, and nothing of how many there were."""
    texts = ["", "1234", "1234567", "12345678", "éèêëéèêë", "1234567\n8", "4111-1111-1111-1111", None]
    rows = spark.range(1).select(F.explode(F.array(*[F.lit(text) for text in texts])).alias("v"))

    found = [row[0] for row in rows.select(masked(F.col("v"), "string", Mask.LAST4, None)).collect()]

    assert found == ["****", "****", "****", "****5678", "****éèêë", "****67\n8", "****1111", None]


@TURNS
def test_what_is_behind_a_mask_is_in_raw_alone(
    spark: "SparkSession",
    lake_config: Config,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A table that had no masks is refused until it is rebuilt; then no table, report, log, plan or summary tells."""
    space = f"masked_{next(_numbers)}"
    recorder = Recorder(Case("canaries", 991, _CASE, (), None), f"{space}.t.canaries")
    contract = lake_config.root / f"{space}.contract.yaml"
    hidden = {"mail": {"mask": "hash"}, "card": {"mask": "last4"}}
    row = {"mail": MAIL, "card": CARD}
    recorder.add({"op": "c", "after": {"id": 1, "mail": "b@c.d", "card": "12"}})
    recorder.write(lake_config.root / space)
    _contract(contract, {}, {})
    config = _config(lake_config.root, space)
    (name,) = [str(table.mirror) for table in config.tables]
    assert run_once(config, spark).exit_code == 0

    _contract(contract, hidden, {"mail": {"logicalTypeOptions": {"maxLength": 9}}})
    recorder.add({"op": "c", "after": {"id": 2, **row}})
    recorder.add({"op": "u", "after": {"id": 1, "mail": "b@c.d", "card": CARD}})
    recorder.add({"op": "u", "after": {"id": 1, "mail": "__debezium_unavailable_value", "card": CARD}})
    recorder.write(lake_config.root / space)
    refused = run_once(config, spark)
    assert refused.exit_code == EXIT_USAGE
    assert "card, mail" in str(refused.tables[0].error)
    assert "cdcm replay" in str(refused.tables[0].error)
    assert spark.table(f"lake.{name}__raw").count() == 4

    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        replayed = replay_tables(config, (name,), ReplayOptions(publish=True), spark)
        assert replayed.tables[0].error is None, replayed.tables[0].error
        spark.sql(f"DROP TABLE lake.{name}__history")
        held = run_once(config, spark)
        assert held.tables[0].violations == {"CONTRACT": 1}
        verified = verify_tables(config, spark)
        assert verified.tables[0].equal
        told += [replayed.to_json(), held.to_json(), verified.to_json()]
        explained = why(config, name, Asked(key="1"), spark)
        masks = [one.masked for one in explained.messages]
        told.append(explained.to_json())
        tables = {part: spark.table(f"lake.{name}{part}") for part in ("", "__quarantine", "__history", "__raw")}
        found = {part: str(rows.collect()) for part, rows in tables.items()}
        _contract(contract, hidden, {"card": {"quality": [_blocking()]}})
        recorder.add({"op": "c", "after": {"id": 3, **row}})
        recorder.write(lake_config.root / space)
        blocked = run_once(config, spark)
        told += _said(config, name, capsys)
    told += [blocked.to_json(), caplog.text, *[found[part] for part in ("", "__quarantine", "__history")]]

    assert blocked.exit_code == EXIT_BLOCKED
    mirrored = [row.asDict() for row in spark.table(f"lake.{name}").select("id", "mail", "card").collect()]
    assert mirrored == [{"id": 1, "mail": _hash("b@c.d"), "card": "****1111"}]
    assert masks == [{"mail": "hash", "card": "last4"}, {"card": "last4"}, {}]
    secrets = (MAIL, "canary.ann", CARD, "b@c.d", KEY, KEY.encode().hex())
    assert [secret for secret in secrets for text in told if secret in text] == []
    assert MAIL in found["__raw"]


@TURNS
def test_a_number_that_a_mask_makes_text_is_rebuilt_as_text(spark: "SparkSession", lake_config: Config) -> None:
    """Nothing is published until then; the replay that masks it gives its column the type."""
    space = f"masked_{next(_numbers)}"
    case = {**_CASE, "columns": {**_CASE["columns"], "card": "optional int64"}}
    recorder = Recorder(Case("numbers", 992, case, (), None), f"{space}.t.canaries")
    contract, number = lake_config.root / f"{space}.contract.yaml", {"card": {"physicalType": "bigint"}}
    recorder.add({"op": "c", "after": {"id": 1, "mail": MAIL, "card": 4_111_111_111_111_111}})
    recorder.write(lake_config.root / space)
    _contract(contract, {}, number)
    config = _config(lake_config.root, space)
    (name,) = [str(table.mirror) for table in config.tables]
    assert run_once(config, spark).exit_code == 0
    _contract(contract, {"card": {"mask": "last4"}}, number)
    recorder.add({"op": "c", "after": {"id": 2, "mail": MAIL, "card": None}})
    recorder.write(lake_config.root / space)

    refused = run_once(config, spark)
    replayed = replay_tables(config, (name,), ReplayOptions(publish=True), spark).tables[0]
    gone_on = run_once(config, spark)

    assert refused.exit_code == EXIT_USAGE
    assert f"`cdcm replay {name} --publish` rebuilds it" in str(refused.tables[0].error)
    assert [(one.column, one.old, one.new) for one in replayed.types] == [("card", "bigint", "string")]
    assert (replayed.error, gone_on.exit_code) == (None, 0)
    assert {row["id"]: row["card"] for row in spark.table(f"lake.{name}").collect()} == {1: "****1111", 2: None}
    assert verify_tables(config, spark).equal


def _before_a_mask(spark: "SparkSession", lake_config: Config, what: str) -> tuple[Config, Path, str, Recorder]:
    """A mirror of one row whose card is masked and whose mail is not: pipeline, contract, name and topic."""
    space = f"masked_{next(_numbers)}"
    recorder = Recorder(Case(what, 993, _CASE, (), None), f"{space}.t.canaries")
    contract = lake_config.root / f"{space}.contract.yaml"
    recorder.add({"op": "c", "after": {"id": 1, "mail": MAIL, "card": CARD}})
    recorder.write(lake_config.root / space)
    _contract(contract, {"card": {"mask": "redact"}}, {})
    config = _config(lake_config.root, space)
    (name,) = [str(table.mirror) for table in config.tables]
    assert run_once(config, spark).exit_code == 0
    return config, contract, name, recorder


def test_a_rollback_shows_nothing_that_the_contract_hides(spark: "SparkSession", lake_config: Config) -> None:
    """What a replay that brought a mask has replaced is kept without it, and comes back only where that may be seen."""
    config, contract, name, _ = _before_a_mask(spark, lake_config, "kept")
    _contract(contract, {"mail": {"mask": "redact"}}, {})
    assert replay_tables(config, (name,), ReplayOptions(publish=True), spark).tables[0].error is None

    first = spark.table(f"lake.{name}.snapshots").sort("committed_at").collect()[1]["snapshot_id"]
    states = [f" VERSION AS OF {first}", " VERSION AS OF 'cdcm-before-replay'", f".snapshot_id_{first}", ".changes"]
    for state in [*states, ".all_files"]:
        with pytest.raises(ContractInvalid, match=r"did not mask mail in snapshot \d+ as the contract says now"):
            run_query(config, f"SELECT * FROM {name}{state}", 9, spark=spark)
    newest = run_query(config, f"SELECT mail FROM {name} VERSION AS OF 'main'", 9, spark=spark)
    refused = roll_back(config, (name,), spark).tables[0]

    assert newest.rows == [["***"]]
    assert refused.error is not None
    assert "not masked as the contract says: mail." in refused.error.message
    assert [row["mail"] for row in spark.table(f"lake.{name}").collect()] == ["***"]
    _contract(contract, {}, {})
    assert roll_back(config, (name,), spark).tables[0].rolled_back
    assert [(row["mail"], row["card"]) for row in spark.table(f"lake.{name}").collect()] == [(MAIL, "***")]


def test_what_was_published_before_a_mask_is_not_asked_for(spark: "SparkSession", lake_config: Config) -> None:
    """Until it is rebuilt; whether a message waits or not, and the history neither."""
    config, contract, name, _ = _before_a_mask(spark, lake_config, "asked")
    assert run_query(config, f"SELECT mail, card FROM {name}", 1, spark=spark).rows == [[MAIL, "***"]]

    _contract(contract, {"mail": {"mask": "redact"}, "card": {"mask": "redact"}}, {})

    unseen = itertools.product((f"IDENTIFIER('{name}')", f"IDENTIFIER('lake.' || '{name}__history')"), (False, True))
    for shown, fresh in ((name, False), (name, True), (f"lake.{name}__history", False), *unseen):
        with pytest.raises(ContractInvalid, match="masked otherwise than the contract says: mail"):
            run_query(config, f"SELECT * FROM {shown}", 1, fresh=fresh, spark=spark)
    for fresh in (False, True):
        with pytest.raises(ContractInvalid, match="masked otherwise than the contract says: mail"):
            read(config, name, spark, fresh=fresh)


def test_a_history_from_before_a_mask_is_not_asked_for(spark: "SparkSession", lake_config: Config) -> None:
    """Not behind the replay that masks the mirror, nor behind the batches that follow it; one that begins anew is."""
    config, contract, name, recorder = _before_a_mask(spark, lake_config, "published")
    query = f"SELECT after.mail FROM {name}__history"
    assert run_query(config, query, 1, spark=spark).rows == [[MAIL]]
    _contract(contract, {"mail": {"mask": "redact"}}, {})
    assert replay_tables(config, (name,), ReplayOptions(publish=True), spark).tables[0].error is None

    for number in (8, 9):
        with pytest.raises(ContractInvalid, match=r"__history has rows from before mail was masked"):
            run_query(config, query, 9, spark=spark)
        recorder.add({"op": "c", "after": {"id": number, "mail": MAIL, "card": CARD}})
        recorder.write(config.root / name.split(".")[0])
        assert run_once(config, spark).exit_code == 0
    spark.sql(f"DROP TABLE lake.{name}__history")
    recorder.add({"op": "c", "after": {"id": 10, "mail": MAIL, "card": CARD}})
    recorder.write(config.root / name.split(".")[0])
    assert run_once(config, spark).exit_code == 0

    assert run_query(config, query, 9, spark=spark).rows == [["***"]]


@TURNS
def test_a_table_whose_contract_cannot_be_followed_lands_and_shows_nothing(
    spark: "SparkSession",
    lake_config: Config,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other tables go on; once the contract is mended, so does it, with what has landed, masked."""
    space = f"masked_{next(_numbers)}"
    topics = [f"{space}.t.{name}" for name in ("canaries", "orders")]
    recorders = [Recorder(Case("canaries", 993, _CASE, (), None), topic) for topic in topics]
    contract = lake_config.root / f"{space}.contract.yaml"
    _contract(contract, {"mail": {"mask": "hash"}, "card": {"mask": "last4"}}, {})
    config = _config(lake_config.root, space)
    (masked_one,) = config.tables
    plain = TableConfig.model_validate({"topic": topics[1], "mirror": f"{space}.orders"})
    config = config.model_copy(update={"tables": [masked_one, plain]})
    hidden, shown = str(masked_one.mirror), str(plain.mirror)

    def send(number: int) -> None:
        for recorder in recorders:
            recorder.add({"op": "c", "after": {"id": number, "mail": MAIL, "card": CARD}})
            recorder.write(lake_config.root / space)

    def count(name: str) -> int:
        return spark.table(f"lake.{name}").count()

    send(1)
    assert run_once(config, spark).exit_code == 0
    whole = contract.read_text(encoding="utf-8")
    contract.write_text(whole.replace("customProperties", "customPropertys"), encoding="utf-8")
    send(2)
    with caplog.at_level(logging.DEBUG):
        report = run_once(config, spark)
        send(3)
        again = run_once(config, spark)
        answer = run_query(config, f"SELECT count(*) FROM {shown}", 1, fresh=True, spark=spark)
        for fresh in (False, True):
            with pytest.raises(ContractInvalid):
                run_query(config, f"SELECT * FROM {hidden}", 1, fresh=fresh, spark=spark)
    told = [report.to_json(), again.to_json(), caplog.text, *capsys.readouterr()]

    assert [report.exit_code, again.exit_code] == [EXIT_USAGE, EXIT_USAGE]
    assert [run.error.code if run.error else None for run in again.tables] == ["ContractInvalid", None]
    assert f"{contract.name}:" in str(again.tables[0].error)
    assert [count(f"{hidden}__raw"), count(hidden), count(shown), answer.rows[0][0]] == [3, 1, 3, 3]
    assert [secret for secret in (MAIL, CARD, KEY) for text in told if secret in text] == []

    contract.write_text(whole, encoding="utf-8")
    assert run_once(config, spark).exit_code == 0
    rows = spark.table(f"lake.{hidden}").select("id", "mail", "card").collect()
    assert {row["id"]: (row["mail"], row["card"]) for row in rows} == dict.fromkeys(
        (1, 2, 3), (_hash(MAIL), "****1111")
    )


def _blocking() -> dict[str, Any]:
    implementation = {"type": "expect_column_values_to_be_null"}
    block = {"customProperties": [{"property": "action", "value": "block"}]}
    return {"type": "custom", "engine": "greatExpectations", "implementation": implementation, **block}


def test_the_key_of_hashes_is_in_no_plan_that_spark_shows(spark: "SparkSession", lake_config: Config) -> None:
    """In a plan the key is a literal; Spark's own redaction takes it out of every text of one."""
    from cdc_materializer.changes.masking import pads

    config = lake_config.model_copy(update={"masks": {"key": KEY}})
    session = beside(spark, config)
    plan = session.range(1).select(masked(F.col("id").cast("string"), "string", Mask.HASH, KEY.encode()))

    text = plan._jdf.queryExecution().toString()

    assert "sha2" in text
    assert [pad for pad in pads(KEY.encode()) if pad.hex() in text.lower()] == []
