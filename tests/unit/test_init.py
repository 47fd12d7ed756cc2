"""`cdcm init`: what it writes from recorded topics, and what it leaves alone."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.cli import main
from cdc_materializer.config import load_config
from cdc_materializer.contract import lint, load_contract
from cdc_materializer.errors import EXIT_DONE, EXIT_SOURCE, EXIT_USAGE, SourceUnavailable, UsageError
from cdc_materializer.init.contract import is_personal
from cdc_materializer.init.init import Origin, initialise
from cdc_materializer.observed import rounded
from cdc_materializer.report.setup_models import InitReport
from cdc_materializer.testing import (
    MemoryRegistry,
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.demo_run import ROOT
from tests.unit.contracts import against_odcs

_RECORDED = ROOT / "tests" / "data" / "recorded"
_TOPIC = "shop.public.orders"
_ORDERS = {
    "id": "bigint",
    "customer_id": "int",
    "status": "string",
    "amount": "decimal(12,2)",
    "qty": "bigint",
    "note": "string",
    "placed_at": "timestamp_ntz",
    "due": "date",
    "tags": "array<string>",
    "doc": "string",
    "uid": "string",
}


def _types(root: Path, contract: str) -> dict[str, str | None]:
    return {column.name: column.type for column in load_contract(root / contract).columns}


def _sound(found: InitReport, root: Path) -> None:
    """The file is read, and every contract that it names is without a problem."""
    config = load_config(root / "pipeline.yaml")
    assert [str(table.mirror) for table in config.tables] == [topic.mirror for topic in found.topics if topic.mirror]
    for table in config.tables:
        assert table.contract is not None
        assert lint(table.contract, table=str(table.mirror)).valid


@pytest.mark.parametrize(("folder", "encoding"), [("pg-avro", "avro"), ("pg-json", "json")])
def test_recorded_topics_become_a_pipeline_that_can_be_followed(tmp_path: Path, folder: str, encoding: str) -> None:
    """Types, keys and what can never be null are those of the database, whatever the encoding."""
    found = initialise(Origin(files=_RECORDED / folder), tmp_path / "pipeline.yaml")

    _sound(found, tmp_path)
    assert {topic.encoding for topic in found.topics} == {encoding}
    assert _types(tmp_path, "contracts/orders.yaml") == _ORDERS
    lines = {topic.mirror: topic for topic in found.topics}["shop.order_lines"]
    assert lines.key == ["order_id", "line_no"]
    orders = load_contract(tmp_path / "contracts" / "orders.yaml")
    assert [column.name for column in orders.columns if column.required] == ["status", "amount"]
    assert [column.name for column in orders.columns if column.primary_key] == ["id"]


def test_a_file_s_name_takes_nothing_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names one would else have a secret said as a part of it; no topic of Kafka's can be called so."""
    monkeypatch.setenv("CDCM_CANARY", "hush")
    topic, id_ = "${CDCM_CANARY}.public.orders", {"id": {"type": "int64", "optional": False}}
    (tmp_path / "recorded").mkdir()
    messages, envelope = TopicBuilder(topic), debezium_envelope("c", None, after={"id": 1})
    key = debezium_json({"id": 1}, connect_key_schema(topic, id_))
    messages.add(key, debezium_json(envelope, connect_envelope_schema(topic, id_)))
    messages.write(tmp_path / "recorded")
    _record(tmp_path, {"id": "long"}, {"id": 1})
    found = initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    (table,) = load_config(tmp_path / "pipeline.yaml").tables
    assert table.topic == _TOPIC
    assert "its name is none that a Kafka topic can have" in str(found)
    assert "hush" not in str(found)


@pytest.mark.parametrize("folder", ["pg-avro", "pg-json"])
def test_what_is_drafted_is_valid_odcs(tmp_path: Path, folder: str) -> None:
    """Other tools can read it, by the schema of its version."""
    initialise(Origin(files=_RECORDED / folder), tmp_path / "pipeline.yaml")

    drafts = sorted((tmp_path / "contracts").glob("*.yaml"))
    assert drafts
    assert {path.name: against_odcs(path) for path in drafts} == {path.name: [] for path in drafts}


def test_rules_that_stand_as_comments_can_be_switched_on(tmp_path: Path) -> None:
    """Every example becomes a rule that `contract lint` accepts by taking its `# ` away; so do masks."""
    initialise(Origin(files=_RECORDED / "pg-avro"), tmp_path / "pipeline.yaml")

    for name, rules in {"orders": 9, "customers": 5}.items():
        path = tmp_path / "contracts" / f"{name}.yaml"
        drafted = path.read_text(encoding="utf-8")
        before = lint(path).files[0].rules
        mask = r"( +)# customProperties:\n +#   - property: mask\n +#     value: hash\n"
        on = re.sub(r"(?m)^( +)# ( *(- )?[a-zA-Z]+:)", r"\1\2", drafted)
        path.write_text(on, encoding="utf-8")
        switched = lint(path)
        assert switched.valid
        assert (before, switched.files[0].rules) == (2, rules)
        assert ("A mask keeps personal data" in drafted) == bool(re.search(mask, drafted))
        assert load_contract(path).hashes == bool(re.search(mask, drafted))


def _record(root: Path, columns: Mapping[str, Any], row: Mapping[str, Any], topic: str = _TOPIC) -> None:
    """Record one row of a table in Avro, with its schemas."""
    registry = MemoryRegistry()
    key, value = avro_key_schema(topic, {"id": "long"}), avro_envelope_schema(topic, columns)
    ids = registry.add(key), registry.add(value)
    (root / "recorded").mkdir(exist_ok=True)
    messages = TopicBuilder(topic)
    envelope = debezium_envelope("c", None, after=row)
    messages.add(confluent_avro(ids[0], key, {"id": 1}), confluent_avro(ids[1], value, envelope))
    messages.write(root / "recorded")
    registry.write(root / "recorded" / "schemas")


def test_names_and_words_of_the_source_cannot_end_a_comment_or_a_text(tmp_path: Path) -> None:
    """Column names that mean something in YAML, and documentation with quotes, environment variables and signs."""
    odd = ["yes", "No", "a: b", "#c", "it's", 'say "x"', "- d", "*e", "{f}", "é ü", "null", "1.5"]
    doc = "First: #1, 'quoted' \"twice\" ${HOME} \\ é"
    topic = "shop.public.t"
    value = connect_envelope_schema(
        topic,
        {
            "id": {"type": "int64", "optional": False, "doc": doc},
            **{n: {"type": "string", "optional": True} for n in odd},
        },
    )
    (tmp_path / "recorded").mkdir()
    messages = TopicBuilder(topic)
    key = debezium_json({"id": 1}, connect_key_schema(topic, {"id": {"type": "int64", "optional": False}}))
    messages.add(key, debezium_json(debezium_envelope("c", None, after=dict.fromkeys(["id", *odd])), value))
    messages.write(tmp_path / "recorded")

    found = initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    _sound(found, tmp_path)
    contract = load_contract(tmp_path / "contracts" / "t.yaml")
    assert [column.name for column in contract.columns] == ["id", *odd]
    assert contract.columns[0].description == doc


def test_a_file_that_is_there_is_never_touched_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the pipeline's file nor a contract; with --force they are replaced."""
    monkeypatch.chdir(tmp_path)
    _record(tmp_path, {"id": "long"}, {"id": 1})
    (tmp_path / "contracts").mkdir()
    mine = tmp_path / "contracts" / "orders.yaml"
    mine.write_text("mine", encoding="utf-8")

    assert main(["init", "--files", "recorded"]) == EXIT_USAGE
    assert "contracts/orders.yaml is there already; nothing was written." in capsys.readouterr().err
    assert not (tmp_path / "pipeline.yaml").exists()
    assert mine.read_text(encoding="utf-8") == "mine"

    assert main(["init", "--files", "recorded", "--force"]) == EXIT_DONE
    assert mine.read_text(encoding="utf-8") != "mine"
    assert main(["init", "--files", "recorded"]) == EXIT_USAGE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contracts", "pipeline.yaml", "recorded"]


def test_paths_of_the_file_start_from_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that the folder can be moved as a whole; what was written is in the document."""
    _record(tmp_path, {"id": "long"}, {"id": 1})

    assert main(["init", "--files", str(tmp_path / "recorded"), "-c", str(tmp_path / "p.yaml"), "--json"]) == EXIT_DONE
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == [str(tmp_path / "p.yaml"), str(tmp_path / "contracts" / "orders.yaml")]
    assert told["topics"][0]["columns"] == {"id": "bigint"}
    assert "files: recorded #" in (tmp_path / "p.yaml").read_text(encoding="utf-8")
    assert "files: recorded/schemas #" in (tmp_path / "p.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "option"), [("pipeline.yaml", ""), ("of us.yaml", " -c 'of us.yaml'"), ("a\nb.yaml", " -c 'a?b.yaml'")]
)
def test_commands_in_what_is_written_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, option: str
) -> None:
    """Where it is not the one that is looked for, each on a line of its own."""
    monkeypatch.chdir(tmp_path)
    _record(tmp_path, {"id": "long"}, {"id": 1})

    assert main(["init", "--files", "recorded", "-c", file]) == EXIT_DONE
    written = (tmp_path / file).read_text(encoding="utf-8").splitlines()
    assert f"# Check the set-up with:  cdcm doctor{option}" in written
    assert f"# Bring the mirrors up to the ends of the topics with:  cdcm run{option}" in written
    contract = (tmp_path / "contracts" / "orders.yaml").read_text(encoding="utf-8").splitlines()
    assert f"# Check it with:  cdcm contract lint{option}" in contract


_ROW_SCHEMA = {"type": "struct", "fields": [{"field": "id", "type": "int64"}], "optional": False, "name": "s.t.Value"}
_HEARTBEAT = {**_ROW_SCHEMA, "name": "io.debezium.connector.common.Heartbeat"}
_ENVELOPE = connect_envelope_schema(_TOPIC, {"id": {"type": "int64", "optional": False}})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "only tombstones"),
        (b"\x00\x00\x00\x00\x09\x02", "the registry does not know the schema"),
        (b"\x07", "begin like nothing that is known"),
        (b'{"op":"c","after":{"id":1}}', "write a contract"),
        (b'{"database":"d","table":"t","type":"insert","ts":1,"data":{}}', "write a contract"),
        (b'{"id":1}', "set `format: upsert`"),
        (debezium_json({"id": 1}, _ROW_SCHEMA), "its messages have no keys"),
        (debezium_json({"id": 1}, _HEARTBEAT), "change no row"),
        (
            debezium_json(debezium_envelope("c", None, after={"id": 1}), _ENVELOPE),
            "name the columns that identify a row",
        ),
    ],
)
def test_a_topic_that_cannot_be_mirrored_is_told_with_the_reason(
    tmp_path: Path, value: bytes | None, reason: str
) -> None:
    """It stands in the file as a comment, beside those that can; others are not looked at."""
    _record(tmp_path, {"id": "long"}, {"id": 1}, "shop.public.good")
    for topic in (_TOPIC, "__debezium-heartbeat.shop", "shop.transaction"):
        messages = TopicBuilder(topic)
        messages.add(None, value)
        messages.write(tmp_path / "recorded")

    found = initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    told = {topic.topic: topic.reason for topic in found.topics}
    assert list(told) == ["shop.public.good", _TOPIC]
    assert reason in (told[_TOPIC] or "")
    assert f"  # - topic: {_TOPIC}\n" in (tmp_path / "pipeline.yaml").read_text(encoding="utf-8")
    _sound(found, tmp_path)


def test_without_a_topic_that_can_be_mirrored_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with 2 and says why of each topic; a folder that is not there is the source's fault, 3."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / f"{_TOPIC}.jsonl").touch()

    assert main(["init", "--files", "recorded"]) == EXIT_USAGE
    assert "no messages yet" in capsys.readouterr().out
    assert not (tmp_path / "pipeline.yaml").exists()
    assert main(["init", "--files", "gone"]) == EXIT_SOURCE
    assert main(["init"]) == EXIT_USAGE
    assert "Nothing says where to look." in capsys.readouterr().err


def test_a_column_is_required_only_if_no_writer_lets_it_be_null(tmp_path: Path) -> None:
    """A row that an older writer wrote has NULL in a column that came later, and would be held."""
    first = avro_envelope_schema(_TOPIC, {"id": "long", "a": "string", "b": ["null", "string"]})
    later = avro_envelope_schema(_TOPIC, {"id": "long", "a": "string", "b": "string", "c": "string"})
    key = avro_key_schema(_TOPIC, {"id": "long"})
    registry = MemoryRegistry({1: key, 2: first, 3: later})
    messages = TopicBuilder(_TOPIC)
    for schema_id, schema, row in ((2, first, {"a": "x", "b": None}), (3, later, {"a": "x", "b": "y", "c": "z"})):
        envelope = debezium_envelope("c", None, after={"id": schema_id, **row})
        messages.add(confluent_avro(1, key, {"id": schema_id}), confluent_avro(schema_id, schema, envelope))
    (tmp_path / "recorded").mkdir()
    messages.write(tmp_path / "recorded")
    registry.write(tmp_path / "recorded" / "schemas")

    initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    columns = load_contract(tmp_path / "contracts" / "orders.yaml").columns
    assert [(column.name, column.required) for column in columns[1:]] == [("a", True), ("b", False), ("c", False)]


def test_an_integer_without_a_sign_is_called_so(tmp_path: Path) -> None:
    """By its type in the mirror alone a key would have a sign where no row stands beside it."""
    told = {"type": "int64", "optional": False, "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}
    topic, row = TopicBuilder("shop.public.counts"), {"id": 1, "n": 2}
    value = debezium_json(debezium_envelope("c", None, row), connect_envelope_schema("t", {"id": told, "n": told}))
    topic.add(debezium_json({"id": 1}, connect_key_schema("t", {"id": {"type": "int64", "optional": False}})), value)
    topic.write(tmp_path / "recorded")

    found = initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    _sound(found, tmp_path)
    columns = load_contract(tmp_path / "contracts" / "counts.yaml").columns
    assert [(one.name, one.type, one.is_unsigned) for one in columns] == [
        (name, "decimal(20,0)", True) for name in ("id", "n")
    ]


def test_two_topics_do_not_go_to_one_mirror(tmp_path: Path) -> None:
    """The second is left to the user, who knows a name for it."""
    _record(tmp_path, {"id": "long"}, {"id": 1}, "a.public.orders")
    _record(tmp_path, {"id": "long"}, {"id": 1}, "b.public.orders")

    found = initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    assert [topic.mirror for topic in found.topics] == ["public.orders", None]
    assert "as a.public.orders does" in (found.topics[1].reason or "")


@pytest.mark.parametrize(
    ("name", "personal"),
    [("email", True), ("e_mail", True), ("creditCard", True), ("IPAddress", True), ("phone_no", True)]
    + [(name, False) for name in ("name", "description", "shipping_id", "discard", "telephony_cost")],
)
def test_personal_data_is_told_by_whole_words(name: str, personal: bool) -> None:  # noqa: FBT001 - what is expected
    """`discard` is no card."""
    assert is_personal(name) is personal


@pytest.mark.parametrize("registry", ["http://[::1", "http://h:99x9", "ftp://h", "http://u:hush@h"])
def test_an_address_that_is_none_is_a_mistake_of_the_call(tmp_path: Path, registry: str) -> None:
    """Said before anything is looked at, and without what stands in it."""
    with pytest.raises(UsageError, match="registry's address") as caught:
        initialise(Origin(bootstrap="localhost:9092", registry=registry), tmp_path / "pipeline.yaml")

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("origin", "says"),
    [
        (Origin(files=Path("gone")), "Correct --files."),
        (Origin(bootstrap="localhost:1"), "Check --bootstrap and that the broker runs. "),
        (Origin(files=Path("recorded"), schemas=Path("gone")), "Correct --schemas."),
        (
            Origin(files=Path("recorded"), registry="http://localhost:1"),
            "Check --registry and that the ",
        ),
    ],
)
def test_what_cannot_be_read_is_told_by_the_options_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin, says: str
) -> None:
    """There is no file yet that has settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdc_materializer.source.kafka.KafkaSource._timeout_seconds", 0.5)
    _record(tmp_path, {"id": "long"}, {"id": 1})

    with pytest.raises(SourceUnavailable) as caught:
        initialise(origin, tmp_path / "pipeline.yaml")

    assert caught.value.do.startswith(says)


_SEEN_COLUMNS: dict[str, Any] = {
    "id": "long", "note": ["null", "string"], "code": ["null", "string"], "qty": ["null", "int"],
    "price": ["null", "double"], "state": ["null", "string"], "phone": ["null", "string"], "salary": ["null", "long"],
}  # fmt: skip


def _seen_row(number: int) -> dict[str, Any]:
    return {
        "id": number, "code": f"canary-{number:03}",
        "note": None if number % 4 == 0 else "canary-note"[: 6 + number % 3],
        "qty": 113 + number, "price": 0.037 * number, "state": ["canary-on", "canary-off"][number % 2],
        "phone": f"canary-{number}", "salary": 4711 + number,
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["avro", "json"])
def test_what_rows_show_stands_as_comments_without_one_value(tmp_path: Path, encoding: str) -> None:
    """Counts, lengths and rounded ranges, of the rows and not of deletes; rules that would hold, to be switched on."""
    registry, topic = MemoryRegistry(), TopicBuilder(_TOPIC)
    key, value = avro_key_schema(_TOPIC, {"id": "long"}), avro_envelope_schema(_TOPIC, _SEEN_COLUMNS)
    ids = registry.add(key), registry.add(value)
    kinds = {"long": "int64", "int": "int32", "double": "float64", "string": "string"}
    plain = {name: ({"type": kinds[ddl[1]], "optional": True} if isinstance(ddl, list) else {"type": kinds[ddl]})
             for name, ddl in _SEEN_COLUMNS.items()}  # fmt: skip
    blocks = connect_key_schema(_TOPIC, {"id": {"type": "int64"}}), connect_envelope_schema(_TOPIC, plain)
    for number in range(1, 31):
        row = _seen_row(number)
        more: list[tuple[str, Any, Any]] = [("u", row, row)] if number == 29 else []
        more += [("d", row, None)] if number == 30 else []
        for op, before, after in [("c", None, row), *more]:
            envelope = debezium_envelope(op, before, after=after)
            if encoding == "avro":
                topic.add(confluent_avro(ids[0], key, {"id": number}), confluent_avro(ids[1], value, envelope))
            else:
                topic.add(debezium_json({"id": number}, blocks[0]), debezium_json(envelope, blocks[1]))
    (tmp_path / "recorded").mkdir()
    topic.write(tmp_path / "recorded")
    registry.write(tmp_path / "recorded" / "schemas")

    initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    path = tmp_path / "contracts" / "orders.yaml"
    text = path.read_text(encoding="utf-8")
    seen = dict(re.findall(r"- name: (\w+)\n(?:(?! +- name).*\n)*? +# (Seen in .*)\n", text))
    assert seen == {
        "note": "Seen in 31 rows: NULL in 22.6%, 6 to 8 characters.",
        "code": "Seen in 31 rows: never NULL, 10 to 10 characters.",
        "qty": "Seen in 31 rows: never NULL, between 100 and 200.",
        "price": "Seen in 31 rows: never NULL, between 0.03 and 2.",
        "state": "Seen in 31 rows: never NULL, 9 to 10 characters, 2 different values.",
        "phone": "Seen in 31 rows: never NULL.",
        "salary": "Seen in 31 rows: never NULL.",
    }
    of_rows = text.replace(str(tmp_path), "")  # the folder's own name has numbers of its own: pytest-115
    assert not re.search(r"canary|47[1-4]\d|1\.11|11[4-9]|14[0-3]", of_rows)
    assert lint(path).files[0].rules == 0
    path.write_text(re.sub(r"(?m)^( +)# ( *(- )?[a-zA-Z]+:)", r"\1\2", text), encoding="utf-8")
    switched = load_contract(path)
    assert {column.name for column in switched.columns if column.required} == _SEEN_COLUMNS.keys() - {"id", "note"}
    assert {column.name for column in switched.columns if column.unique} == {"code", "qty", "phone", "salary"}


def test_a_number_of_any_length_is_counted_and_one_that_all_rows_have_is_not_told(tmp_path: Path) -> None:
    """Python cannot make a float of the one; rounding to one digit would leave the other as it is."""
    topic, columns = TopicBuilder(_TOPIC), {name: {"type": "int64"} for name in ("id", "qty", "price")}
    blocks = connect_key_schema(_TOPIC, {"id": columns["id"]}), connect_envelope_schema(_TOPIC, columns)
    for number in range(25):
        row = {"id": number, "qty": 10**400 if number == 3 else number, "price": 300}
        topic.add(debezium_json({"id": number}, blocks[0]), debezium_json(debezium_envelope("c", None, row), blocks[1]))
    (tmp_path / "recorded").mkdir()
    topic.write(tmp_path / "recorded")

    initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    text = (tmp_path / "contracts" / "orders.yaml").read_text(encoding="utf-8")
    assert "# Seen in 25 rows: never NULL, 1 different value.\n" in text
    assert "300" not in text.replace(str(tmp_path), "")


def test_a_few_rows_suggest_nothing(tmp_path: Path) -> None:
    """One row says that it was one row."""
    _record(tmp_path, {"id": "long", "note": ["null", "string"]}, {"id": 1, "note": "n"})

    initialise(Origin(files=tmp_path / "recorded"), tmp_path / "pipeline.yaml")

    text = (tmp_path / "contracts" / "orders.yaml").read_text(encoding="utf-8")
    assert "# Seen in 1 row: never NULL.\n" in text
    assert "# required: true" not in text


@pytest.mark.parametrize(
    ("number", "below", "above"),
    [("431", "400", "500"), ("-431", "-500", "-400"), ("0", "0", "0"), ("0.037", "0.03", "0.04"), ("7", "7", "7"),
     ("999", "900", "1000"), ("1E-20", "0.00000000000000000001", "0.00000000000000000001")],
)  # fmt: skip
def test_ranges_are_rounded_outwards_to_one_digit(number: str, below: str, above: str) -> None:
    """What is told of numbers is no number of a row, unless that has one digit."""
    found = rounded(Decimal(number), up=False), rounded(Decimal(number), up=True)

    assert (f"{found[0]:f}", f"{found[1]:f}") == (below, above)


@pytest.mark.parametrize(
    ("globs", "said"),
    [
        (("shop.public.oders",), "No topic matches `--topic shop.public.oders`. Did you mean shop.public.orders?"),
        (
            ("shop.*", "x*"),
            "No topic matches `--topic x*`. Topics of tables are shop.public.items, shop.public.orders.",
        ),
        (("__debezium-*",), "`--topic __debezium-*` matches only topics that by their names carry no table's changes."),
    ],
)
def test_a_topic_that_there_is_none_of_is_told_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], globs: tuple[str, ...], said: str
) -> None:
    """And nothing is written of the others."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name in ("shop.public.orders", "shop.public.items", "__debezium-heartbeat.shop"):
        (folder / f"{name}.jsonl").touch()
    asked = [word for glob in globs for word in ("--topic", glob)]

    assert main(["init", "--files", str(folder), *asked, "-c", str(tmp_path / "p.yaml")]) == EXIT_USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "p.yaml").exists()
