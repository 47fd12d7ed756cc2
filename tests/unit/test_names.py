"""Names are parsed at the door: what got through can neither leave the warehouse nor end a quoted identifier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.errors import DuplicateColumn, InvalidName
from cdc_materializer.lake.columns import REBUILT_PREFIX
from cdc_materializer.names import (
    COLUMN_LENGTH_MAX,
    TableName,
    check_columns,
    is_table_topic,
    nearest,
    quote,
    recovery,
    shown,
)


@pytest.mark.parametrize(
    "text", ["shop.orders", "a.b.c.d", "größe.café", "_x.__y", "s.order-lines", "1.2", "a." + "b" * 128]
)
def test_a_good_table_name_reads_back_as_it_was_written(text: str) -> None:
    """Parsing keeps the spelling: parts of word characters and dashes."""
    assert str(TableName.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        ".",
        "..",
        "../x.y",
        "a/b.c",
        "a..b",
        ".a.b",
        "a.b.",
        "a. b",
        "a.-b",
        "a.b\n",
        "a.b`",
        "a.b;drop",
        "a.b\x00",
        "a." + "b" * 129,
        "a.b%2e",
        "a.b\\c",
    ],
)
def test_a_name_that_could_leave_the_warehouse_is_refused(text: str) -> None:
    """Whatever is not two or more plain parts raises InvalidName."""
    with pytest.raises(InvalidName, match="cannot be used"):
        TableName.parse(text)


@pytest.mark.parametrize("ending", ["__raw", "__quarantine", "__history", "__RAW"])
def test_a_reserved_ending_is_refused_and_the_message_says_why(ending: str) -> None:
    """A mirror may not take the name of another mirror's sibling."""
    with pytest.raises(InvalidName, match="beside a mirror"):
        TableName.parse(f"shop.orders{ending}")


def test_the_tables_beside_a_mirror_are_named_after_it() -> None:
    """Raw, quarantine and history stand in the mirror's namespace."""
    mirror = TableName.parse("a.shop.orders")

    assert [str(mirror.raw), str(mirror.quarantine), str(mirror.history)] == [
        "a.shop.orders__raw",
        "a.shop.orders__quarantine",
        "a.shop.orders__history",
    ]


@pytest.mark.parametrize(
    ("table", "told", "never"),
    [
        (TableName.parse("shop.orders"), "the next run makes it again from raw", "replay"),
        (TableName.parse("shop.orders").raw, "the topic is landed again as far as it still goes", "from raw"),
        (TableName.parse("shop.orders").quarantine, "`cdcm replay shop.orders --publish`", "the next run makes it"),
        (TableName.parse("shop.orders").history, "begins anew with the next change", "the next run makes it"),
    ],
    ids=["mirror", "raw", "quarantine", "history"],
)
def test_what_to_do_about_a_table_without_progress_is_told_for_its_kind(
    table: TableName, told: str, never: str
) -> None:
    """Only a mirror comes back by itself: what is held, and what history has told, no run finds again in raw."""
    found = recovery(table)

    assert told in found
    assert never not in found
    assert found.endswith("another `mirror` name.")


def test_the_default_mirror_is_the_last_two_parts_of_the_topic() -> None:
    """The connector's prefix is left out."""
    assert str(TableName.from_topic("shop.public.orders")) == "public.orders"


@pytest.mark.parametrize("topic", ["orders", "", "shop.", "shop.public.orders__raw"])
def test_a_topic_that_gives_no_table_name_is_refused(topic: str) -> None:
    """Fewer than two parts, or a reserved ending, name no mirror."""
    with pytest.raises(InvalidName):
        TableName.from_topic(topic)


@given(st.text())
def test_every_text_is_a_safe_table_name_or_refused_in_few_printable_characters(text: str) -> None:
    """No text passes with a path or SQL sign in it, and no message carries more than 80 characters of it."""
    try:
        read = str(TableName.parse(text))
    except InvalidName as error:
        said = str(error)
    else:
        said = ""

        assert not set(read) & set("/\\`'\"; \n\x00")
        assert ".." not in read

    assert said.isprintable()
    assert len(said) < 400


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=255))
def test_a_quoted_identifier_ends_only_at_its_end(identifier: str) -> None:
    """Inside the backticks every backtick is doubled, and undoing it gives the identifier back."""
    quoted = quote(identifier)

    assert quoted[0] == quoted[-1] == "`"
    assert quoted[1:-1].replace("``", "") == identifier.replace("`", "")
    assert quoted[1:-1].replace("``", "`") == identifier


@pytest.mark.parametrize("identifier", ["", "a\x00b", "a\nb", "\x7f", "\ud800", "x" * 256])
def test_what_no_identifier_can_be_is_refused(identifier: str) -> None:
    """Empty, control characters, half surrogates and excess length raise InvalidName."""
    with pytest.raises(InvalidName):
        quote(identifier)


def test_columns_that_differ_only_in_case_are_refused_and_listed() -> None:
    """Spark ignores case, so two such columns would be one."""
    with pytest.raises(DuplicateColumn, match="`id`, `ID`") as caught:
        check_columns(["id", "name", "ID"])

    assert caught.value.code == "DUPLICATE_COLUMN"


@pytest.mark.parametrize("names", [["K", "\u212a"], ["straSe", "\u017ftrase"], ["i", "I"], ["ΟΔΟΣ", "οδος"]])
def test_case_is_ignored_as_java_ignores_it(names: list[str]) -> None:
    """The Kelvin sign, the long s and the final sigma are equal to their plain letters there."""
    with pytest.raises(DuplicateColumn):
        check_columns(names)


def test_columns_that_spark_keeps_apart_are_accepted() -> None:
    """`straße` and `strasse` are two columns, though Python's casefold makes them one."""
    check_columns(["straße", "strasse", "order", "a b", "`"])


@pytest.mark.parametrize(
    ("name", "keeper"), [("__cdc", "cdc_materializer"), ("__CDC_x", "cdc_materializer"), ("_pos", "Iceberg")]
)
def test_a_column_name_that_is_kept_is_refused(name: str, keeper: str) -> None:
    """Ours begin `__cdc`; Iceberg's metadata columns break a MERGE."""
    with pytest.raises(InvalidName, match=keeper):
        check_columns(["id", name])


@pytest.mark.parametrize(
    "topic", ["shop.public.orders", "shop.orders", "a.b.c.d", "shop.public.transaction", "s.d.message"]
)
def test_a_topic_of_a_table_is_one(topic: str) -> None:
    """Also where the table is called like one of Debezium's own topics."""
    assert is_table_topic(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "__debezium-heartbeat.pga",
        "__consumer_offsets",
        "__debezium-heartbeat.my.prefix",
        "debezium-heartbeat.pga",
        "pga.transaction",
        "pga.message",
        "shop.public.debezium_signal",
        "shop.public.dbz_signal",
        "shop.public.debezium_heartbeat",
        "pga.notifications",
        "debezium.debezium-notifications",
        "schemahistory.shop",
        "schema-changes.inventory",
        "pga",
        "connect-configs",
        "",
    ],
)
def test_a_topic_of_debeziums_own_is_not_taken_for_a_table(topic: str) -> None:
    """Heartbeats, transactions, messages, signals, notifications and schema changes are no tables."""
    assert not is_table_topic(topic)


def test_a_dotted_connector_prefix_is_known_by_the_tables_below_it() -> None:
    """`my.shop.transaction` is Debezium's beside `my.shop.public.orders`, and a table beside `my.shop.orders`."""
    assert not is_table_topic("my.shop.transaction", ["my.shop.public.orders"])
    assert not is_table_topic("my.shop", ["my.shop", "my.shop.public.orders"])
    assert is_table_topic("my.shop.transaction", ["my.shop.orders", "my.shop.transaction"])


def test_the_nearest_name_is_found_whatever_case_and_dashes() -> None:
    """A slip of the pen finds its name; something else finds none."""
    assert nearest("Record-Max", ["records_max", "readers"]) == "records_max"
    assert nearest("xyzzy", ["records_max", "readers"]) is None


def test_a_shown_name_is_clipped_and_printable() -> None:
    """Messages repeat at most 80 characters of a name."""
    assert shown("a\x1b[31m" + "b" * 100).startswith("a?[31mb")
    assert len(shown("b" * 100)) == 80


def test_all_names_that_cannot_be_used_are_told_at_once() -> None:
    """So that they are mended at once."""
    with pytest.raises(InvalidName) as caught:
        check_columns(["id", "_POS", "__cdc_op", "a\nb", "_file", ""])

    assert "`a?b`, `` (empty, too long, or with control characters)" in caught.value.what
    assert "`__cdc_op` (kept by cdc_materializer for its own columns)" in caught.value.what
    assert "`_POS`, `_file` (kept by Iceberg for its own columns)" in caught.value.what
    assert "`id`" not in caught.value.what


def test_names_of_every_kind_that_cannot_be_used_are_told_in_one_error() -> None:
    """Those that differ in case too: who has mended the ones is not told of the others by the next run."""
    with pytest.raises(DuplicateColumn) as caught:
        check_columns(["id", "ID", "_pos", "__cdc_op"])

    assert "`id`, `ID`" in caught.value.what
    assert "`_pos` (kept by Iceberg" in caught.value.what
    assert "`__cdc_op` (kept by cdc_materializer" in caught.value.what


@pytest.mark.parametrize(
    "names",
    [
        ("1st", "_1st"),
        ("a b", "a_x20b"),
        ("a.b", "a_x2Eb"),
        ("1 a", "_1_x20a"),
        ("größe-1", "größe_x2D1"),
        ("ࡰ", "_x870"),
        ("🙂", "_xD83D_xDE42"),
        ("a🙂\ud83d", "a_xD83D_xDE42_xD83D"),
    ],
)
def test_names_that_are_one_in_files_are_refused(names: tuple[str, ...]) -> None:
    """Values of the one would be read for the other's: Iceberg makes names of Avro's kind of them for Parquet."""
    with pytest.raises(InvalidName, match="one name in Parquet files"):
        check_columns(["id", *names])
    with pytest.raises(InvalidName, match="one name in Parquet files"):
        check_columns(["id", "part"], [("part", name) for name in names])


def test_names_that_files_keep_apart_are_taken() -> None:
    """In structs of their own too, and where only a capital tells a number from another."""
    check_columns(["id", "1st", "_2nd", "a b", "a_x20", "a_x2eb", "a.b"], [("part", "_1st"), ("other", "1st")])
    check_columns(["ä", "_xE4", "উৎস", "_x989"])


def test_half_a_character_is_told_as_one_that_no_name_has() -> None:
    """Of a column; what stands inside of one is refused where the schema is read."""
    with pytest.raises(InvalidName, match="control characters"):
        check_columns(["id", "a\ud800"], [("a", "b\ud800")])


@pytest.mark.parametrize("names", [("\u0130", "i\u0307"), ("\u0130", "I"), ("\u0131", "I"), ("\u212a", "k")])
def test_letters_that_case_makes_of_others_are_not_told_apart(names: tuple[str, str]) -> None:
    """Letter by letter, or by whole names: readers do either (`equalsIgnoreCase`, `toLowerCase`)."""
    with pytest.raises(DuplicateColumn):
        check_columns(names)


def test_a_column_that_others_are_called_after_is_shorter_than_a_name_may_be() -> None:
    """A column that is rebuilt with another type is called after it, and must still be a name."""
    check_columns(["a" * COLUMN_LENGTH_MAX])
    with pytest.raises(InvalidName, match="too long"):
        check_columns(["a" * (COLUMN_LENGTH_MAX + 1)])
    assert quote(REBUILT_PREFIX + "a" * COLUMN_LENGTH_MAX + "__decimal_38_38")
