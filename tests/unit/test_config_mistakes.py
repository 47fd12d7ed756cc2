"""What is wrong in pipeline.yaml is named with its place, and no message repeats a value."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_materializer.config import load_config
from cdc_materializer.errors import ConfigError
from tests.unit.pipelines import SMALL, load, refusal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff\xfe", "pipeline.yaml is not UTF-8 text (byte 0). Save it as UTF-8."),
        (b"a" * ((1 << 20) + 1), "pipeline.yaml is larger than 1048576 bytes. Name a pipeline.yaml with -c."),
        (
            "a: \x07",
            "pipeline.yaml is not valid YAML: it has a character that may not be in it. Correct it in the file.",
        ),
        (
            "a: [1, 2\nb: 3",
            "pipeline.yaml, line 2 is not valid YAML: expected ',' or ']', but got ':'. Correct it in the file.",
        ),
        (
            "a: 1\nb: 2\na: 3",
            "pipeline.yaml, line 3 is not valid YAML: the key `a` is there twice. Correct it in the file.",
        ),
        (
            "a: !!python/object:os.system x",
            (
                "pipeline.yaml, line 1 is not valid YAML: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object:os.system'. Correct it in the file."
            ),
        ),
        ("[\n" * 2000, "pipeline.yaml nests too deeply. Correct it in the file."),
        ("a: !!int x", "pipeline.yaml is not valid YAML: a value does not fit its kind. Correct it in the file."),
        (
            "[1]",
            "pipeline.yaml is a list, not a map of settings. Begin it with `name:`, `source:` and `tables:`.",
        ),
        ("", "pipeline.yaml is empty. Begin it with `name:`, `source:` and `tables:`."),
        ("a: &a [*a]", "pipeline.yaml has too many values, or nests too deeply. Use fewer YAML aliases."),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_the_line(folder: Path, text: str | bytes, said: str) -> None:
    """One sentence says what is wrong where, and one what to do."""
    assert refusal(folder, text) == said


def test_a_file_that_grows_through_aliases_is_refused(folder: Path) -> None:
    """A few lines that stand for millions of values do not fill the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]

    assert "too many values" in refusal(folder, "\n".join(lines))


def test_a_missing_file_says_what_to_do(folder: Path) -> None:
    """A command writes one, and an option names one."""
    said = r"no configuration file nowhere\.yaml\. `cdcm init --bootstrap \S+` writes .*`cdcm init --files .* with -c\."
    with pytest.raises(ConfigError, match=said):
        load_config(Path("nowhere.yaml"))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("name: shop\n", ""), "pipeline.yaml, name is missing. Add it to the file."),
        (("name: shop", "nam: shop"), "pipeline.yaml has the unknown key `nam`. Did you mean `name`?"),
        (("name: shop", "name: [x]"), "pipeline.yaml, name must be text, not a list. Correct it in the file."),
        (
            ("name: shop", "name: ' '"),
            (
                "pipeline.yaml, name must begin with a letter or digit and have at most 128 letters, "
                "digits and `_ . : / -`. Correct it in the file."
            ),
        ),
        (("files: recorded", "fils: x"), "pipeline.yaml, source has the unknown key `fils`. Did you mean `files`?"),
        (
            ("files: recorded", ""),
            "pipeline.yaml, source must have exactly one of `kafka` and `files`. Correct it in the file.",
        ),
        (
            ("{files: recorded}", "x"),
            "pipeline.yaml, source must be a map of settings, not text. Correct it in the file.",
        ),
        (
            ("files: recorded", "kafka: {a: b}"),
            (
                "pipeline.yaml, source has no `bootstrap.servers` under `kafka`. Add it, like "
                "`bootstrap.servers: localhost:9092`."
            ),
        ),
        (
            ("files: recorded", "kafka: {a: [b]}"),
            (
                "pipeline.yaml, source.kafka has a list as the value of `a`, where one value "
                "belongs. Correct it in the file."
            ),
        ),
        (
            ("files: recorded", "kafka: {a: }"),
            (
                "pipeline.yaml, source.kafka has nothing as the value of `a`, where one value "
                "belongs. Correct it in the file."
            ),
        ),
        (("tables: [{topic: shop.public.orders}]", ""), "pipeline.yaml, tables is missing. Add it to the file."),
        (
            ("[{topic: shop.public.orders}]", ""),
            "pipeline.yaml, tables is empty: there is nothing to mirror. Add an entry, like `- topic: ",
        ),
        (
            ("{topic: shop.public.orders}", ""),
            "pipeline.yaml, tables is empty: there is nothing to mirror. Add an entry, like `- topic: ",
        ),
        (
            ("tables", "spark: {executor.memory: 4g}\ntables"),
            (
                "pipeline.yaml, spark has `executor.memory`, and names of Spark's properties begin `spark.`. Write "
                "`spark.executor.memory`; Hadoop's own stand behind `spark.hadoop.`."
            ),
        ),
        (
            ("topic: shop.public.orders", "mirror: a.b"),
            "pipeline.yaml, tables[0].topic is missing. Add it to the file.",
        ),
        (
            ("shop.public.orders", "orders"),
            (
                "pipeline.yaml, tables[0] has a topic that gives no name for a mirror: The table name "
                "`orders` cannot be used: it needs two or more parts with a dot between them, each of letters, digits, "
                "`_` and `-` (not first) and at most 128 characters. Add its `mirror`."
            ),
        ),
        (
            ("shop.public.orders", "a/b.c"),
            (
                "pipeline.yaml, tables[0].topic is no name that a Kafka topic can have. Use letters, "
                "digits, `.`, `_` and `-`, or a glob of them."
            ),
        ),
        (("}]", ", delets: hard}]"), "pipeline.yaml, tables[0] has the unknown key `delets`. Did you mean `deletes`?"),
        (
            ("}]", ", deletes: Hard}]"),
            "pipeline.yaml, tables[0].deletes must be `hard` or `soft`, not other text. Did you mean `hard`?",
        ),
        (
            ("}]", ", deletes: 5}]"),
            "pipeline.yaml, tables[0].deletes must be `hard` or `soft`, not a number. Correct it in the file.",
        ),
        (
            ("}]", ", records_max: many}]"),
            "pipeline.yaml, tables[0].records_max must be a whole number, not text. Correct it in the file.",
        ),
        (
            ("}]", ", records_max: 0}]"),
            "pipeline.yaml, tables[0].records_max must be 1 or more. Correct it in the file.",
        ),
        (
            ("}]", ", strict: 7}]"),
            "pipeline.yaml, tables[0].strict must be true or false, not a number. Correct it in the file.",
        ),
        (("}]", ", readers: [ducdb]}]"), "pipeline.yaml, tables[0].readers[0] must be "),
        (
            ("}]", ", position_regression_tolerance: 90}]"),
            (
                "pipeline.yaml, tables[0].position_regression_tolerance must be a time "
                "like `30s`, `15m`, `1h` or `2d`, not a number of another form. Correct it in the file."
            ),
        ),
        (
            ("}]", ", partitioned_by: 'day(c)'}]"),
            "pipeline.yaml, tables[0].partitioned_by has something that is no Iceberg transform. Write a column, or ",
        ),
        (
            ("}]", ", key: [id, id]}]"),
            "pipeline.yaml, tables[0].key must name each column once, and none may be empty. ",
        ),
        (
            ("}]", ", properties: {format-version: 1}}]"),
            "pipeline.yaml, tables[0].properties has a `format-version` that rows cannot be deleted from. Use 2 or 3.",
        ),
        (
            ("}]", ", properties: {write.merge.mode: merge-on-reed}}]"),
            "pipeline.yaml, tables[0].properties has a `write.merge.mode` that Iceberg does not know. Use copy",
        ),
        (
            ("}]", ", properties: {commit.retry.num-retries: 4}}]"),
            "pipeline.yaml, tables[0].properties has Iceberg try commits again by itself (`commit.retry.num-retries`).",
        ),
        (
            ("tables", "defaults: {mirror: x.y}\ntables"),
            "pipeline.yaml, defaults has the unknown key `mirror`. The keys known ",
        ),
        (
            ("tables", "catalog: {uri: 'ftp://x'}\ntables"),
            "pipeline.yaml, catalog has no `type`, and its `uri` does not tell it.",
        ),
        (("tables", "catalog: {uri: 'jdbc:postgresql://h/d'}\ntables"), "pipeline.yaml, catalog has no `warehouse`. "),
        (
            ("tables", "catalog: {type: foo}\ntables"),
            "pipeline.yaml, catalog has the unknown `type` `foo`. Known are jdbc, rest, ",
        ),
        (
            ("tables", "catalog: {type: glu}\ntables"),
            "pipeline.yaml, catalog has the unknown `type` `glu`. Did you mean `glue`?",
        ),
        (
            ("tables", "catalog: {type: Rest}\ntables"),
            "pipeline.yaml, catalog has no `uri`. Add the address of the REST ",
        ),
        (
            ("tables", "catalog: {uri: 'jdbc:sqlite::memory:'}\ntables"),
            "pipeline.yaml, catalog keeps its catalog in memory, ",
        ),
        (
            ("tables", "catalog: {name: 'a b'}\ntables"),
            "pipeline.yaml, catalog.name must be letters, digits and `_`, no digit ",
        ),
        (
            ("tables", "catalog: {cache-enabled: true}\ntables"),
            "pipeline.yaml, catalog.properties has `cache-enabled`, ",
        ),
        (("tables", "registry: {}\ntables"), "pipeline.yaml, registry must have exactly one of `url` and `files`. "),
        (
            ("tables", "registry: {url: 'localhost:8081'}\ntables"),
            "pipeline.yaml, registry.url must be an address that begins ",
        ),
        (
            ("tables", "registry: {url: 'http://u:p@h'}\ntables"),
            "pipeline.yaml, registry.url has a user or a password in it. ",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(folder: Path, change: tuple[str, str], said: str) -> None:
    """The message has the path in the file, what may stand there and the kind of what does, never the value."""
    assert refusal(folder, SMALL.replace(*change, 1)).startswith(said)


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql://u:hunter2@db/shop", "jdbc:mysql://db/shop?password=hunter2", "jdbc:oracle:thin:@db"]
)
def test_the_address_of_a_database_has_no_secret_in_it(folder: Path, url: str) -> None:
    """Nor is it one that nothing here can read; what stands there is not repeated."""
    said = refusal(folder, f"{SMALL}databases: {{shop: {{url: '{url}', user: x}}}}\n")

    assert said.startswith("pipeline.yaml, databases.shop.url ")
    assert "hunter2" not in said


def test_a_database_that_a_table_names_stands_in_the_file(folder: Path) -> None:
    """Under `databases`, by that name."""
    table = "{topic: shop.public.orders, source_database: shp}"
    said = refusal(folder, SMALL.replace("{topic: shop.public.orders}", table))

    assert said.startswith(
        "pipeline.yaml has tables of the `source_database` `shp`, which stands not under `databases`"
    )


@pytest.mark.parametrize("name", ["orders", "a.b.c", "a."])
def test_a_source_table_has_two_names(folder: Path, name: str) -> None:
    """Of its schema or database, and its own."""
    table = f"{{topic: shop.public.orders, source_table: {name}}}"

    assert "must be two names with a dot between them" in refusal(
        folder, SMALL.replace("{topic: shop.public.orders}", table)
    )


def test_a_source_table_is_one_of_a_database(folder: Path) -> None:
    """Without one nothing would be read from it."""
    table = "{topic: shop.public.orders, source_table: public.orders}"
    message = refusal(folder, SMALL.replace("{topic: shop.public.orders}", table))

    assert "tables[0] has `source_table` and no `source_database`" in message


def test_a_format_that_there_is_none_of_is_refused(folder: Path) -> None:
    """It is a file's name: the message says which there are, and which one is meant."""
    message = refusal(folder, SMALL.replace("}]", ", format: debezum}]"))

    assert "tables[0].format is `debezum`, which is no format. Did you mean `debezium`? Formats are: " in message


def test_without_a_prefix_added_fields_have_to_be_named(folder: Path) -> None:
    """Some fields of Debezium's are called as columns are."""
    text = SMALL.replace("}]", ", format: debezium-flat, added_fields_prefix: ''}]")

    assert "has an empty `added_fields_prefix` alone. List the transform's `add.fields`" in refusal(folder, text)


@pytest.mark.parametrize("name", ["", "data", "Metadata"])
def test_a_before_image_has_a_name_of_its_own(folder: Path, name: str) -> None:
    """Another part of DMS's messages is none."""
    text = SMALL.replace("}]", f", format: dms, before_image: '{name}'}}]")

    assert "before_image must be a name, and none of the other parts of a message" in refusal(folder, text)


def test_a_wrong_value_is_never_repeated(folder: Path) -> None:
    """A secret in the wrong place stays out of the message."""
    for text in (
        SMALL.replace("{files: recorded}", "hunter2"),
        SMALL.replace("}]", ", deletes: hunter2}]"),
        SMALL.replace("}]", ", records_max: hunter2}]"),
        SMALL.replace("}]", ", position_regression_tolerance: hunter2}]"),
        SMALL + "registry: {url: 'hunter2'}",
        SMALL + "registry: {url: 'http://r', headers: {a: [hunter2]}}",
        SMALL + "catalog: {uri: 'hunter2://x'}",
    ):
        assert "hunter2" not in refusal(folder, text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "${CDCM_UNSET}",
            "tables[0].contract takes the environment variable CDCM_UNSET, which is not set. Set CDCM_UNSET, or",
        ),
        ("${A-B}", "tables[0].contract has a `${` without the name of an environment variable and `}` after it."),
        ("${HOME", "tables[0].contract has a `${` without the name of an environment variable and `}` after it."),
        ("${}", "tables[0].contract has a `${` without the name of an environment variable and `}` after it."),
    ],
)
def test_a_variable_that_is_not_there_is_named(folder: Path, value: str, said: str) -> None:
    """The message has the variable and the place."""
    assert refusal(folder, SMALL.replace("}]", f", contract: '{value}'}}]")).startswith(f"pipeline.yaml, {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("files: recorded", "files: '${CDCM_EMPTY}'"), "source.files is empty, where a path belongs. "),
        (("}]", ", contract: '${CDCM_EMPTY}'}]"), "tables[0].contract is empty, where a path belongs. "),
        (("tables", "registry: {files: ' '}\ntables"), "registry.files is empty, where a path belongs. "),
        (("tables", "catalog: {uri: '${CDCM_EMPTY}'}\ntables"), "catalog has an empty `uri`. "),
        (("tables", "catalog: {type: hadoop, warehouse: ''}\ntables"), "catalog has an empty `warehouse`. "),
        (
            ("tables", "registry: {url: 'http://r', headers: {Authorization: '${CDCM_EMPTY}'}}\ntables"),
            "registry.headers.Authorization is empty, where a secret belongs. ",
        ),
        (
            ("tables", "databases: {d: {url: 'jdbc:mysql://h/', user: u, password: '${CDCM_EMPTY}'}}\ntables"),
            "databases.d.password is empty, where a secret belongs. ",
        ),
        (
            ("files: recorded", "kafka: {bootstrap.servers: b, security.protocol: SASL_SSL, sasl.password: ''}"),
            "source has an empty `sasl.password` under `kafka`. ",
        ),
        (
            ("tables", "catalog: {uri: 'http://c', token: '${CDCM_EMPTY}'}\ntables"),
            "catalog has an empty `token`. ",
        ),
    ],
)
def test_what_an_empty_variable_leaves_empty_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], said: str
) -> None:
    """As a path it would be the folder of the file, as a secret a wrong one or none."""
    monkeypatch.setenv("CDCM_EMPTY", "")
    do = "Give it a value, or leave it out; an environment variable that it takes may be empty."

    assert refusal(folder, SMALL.replace(*change, 1)) == f"pipeline.yaml, {said}{do}"


@pytest.mark.parametrize(
    "change",
    [
        ("files: recorded", "kafka: {bootstrap.servers: b, security.protocol: plaintext, sasl.password: ''}"),
        ("tables", "registry: {url: 'http://r', basic_auth: {user: key, password: ''}}\ntables"),
    ],
)
def test_a_login_may_be_empty_where_none_is_asked_for(folder: Path, change: tuple[str, str]) -> None:
    """One file for brokers with and without a login has its names in both; a key for a user needs no password."""
    (folder / "pipeline.yaml").write_text(SMALL.replace(*change, 1), encoding="utf-8")

    assert load_config(folder / "pipeline.yaml").tables


def test_an_entry_that_is_there_twice_is_named_as_such(folder: Path) -> None:
    """It is one topic, and not two that share a mirror."""
    table = "{topic: shop.public.orders}"
    said = refusal(folder, SMALL.replace(table, f"{table}, {table}"))

    assert said.startswith("The topic shop.public.orders has two entries in `tables:`, both of the mirror")


@pytest.mark.parametrize("second", ["deletes: soft", "mirror: shop.all"])
def test_a_glob_that_is_there_twice_is_named_with_both_entries(folder: Path, second: str) -> None:
    """The second would be given no topic, and its settings to no table."""
    table = "{topic: shop.public.orders}"
    said = refusal(folder, SMALL.replace(table, f"{{topic: 'a.*'}}, {table}, {{topic: 'a.*', {second}}}"))

    assert said.startswith("The glob a.* has two entries, tables[0] and tables[2]. Leave one of them out: ")


def test_a_mistake_in_the_defaults_is_named_there(folder: Path) -> None:
    """Not in the table that it would be merged into."""
    said = refusal(folder, SMALL.replace("tables", "defaults: {truncate: never}\ntables"))

    assert said.startswith("pipeline.yaml, defaults.truncate must be `apply`, `ignore` or `stop`")


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_text_as_a_file_is_read_or_refused_in_one_line(folder: Path, text: str) -> None:
    """Whatever stands in the file: a Config, or one printable message."""
    try:
        load(folder, text.encode("utf-8", "surrogatepass"))
    except ConfigError as error:
        said = str(error)
    else:
        said = ""

    assert "\n" not in said


@pytest.mark.parametrize(
    ("format_", "setting", "own"),
    [
        ("debezium", "before_image: old", "dms"),
        ("maxwell", "before_image: old", "dms"),
        ("debezium", "added_fields: [op]", "debezium-flat"),
        ("dms", "added_fields_prefix: x_", "debezium-flat"),
        ("maxwell", "snapshot_sweep: true", "debezium` or `format: debezium-flat"),
    ],
)
def test_a_setting_that_the_format_passes_over_is_refused(folder: Path, format_: str, setting: str, own: str) -> None:
    """It would do nothing, and whoever wrote it wants something."""
    name = setting.partition(":")[0]
    message = refusal(folder, SMALL.replace("}]", f", format: {format_}, {setting}}}]"))

    assert f"tables[0] has `{name}`, which is read for `format: {own}` and not for `{format_}`" in message


def test_what_is_said_for_all_tables_holds_for_those_whose_format_reads_it(folder: Path) -> None:
    """So one pipeline can have tables of several formats; a table whose format is told by its messages may need it."""
    tables = "tables:\n" + "".join(
        f"- {{topic: a.b{at}, format: {name}}}\n" for at, name in enumerate(("debezium", "dms", "auto"))
    )
    text = f"{SMALL[: SMALL.index('tables:')]}defaults: {{before_image: old}}\n{tables}"

    assert [table.before_image for table in load(folder, text).tables] == [None, "old", "old"]
