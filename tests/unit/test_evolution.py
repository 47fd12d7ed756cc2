"""How a table's columns follow what its writers send: types together, columns beside others, names, comments."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.decode.columns import column_type
from cdc_materializer.decode.wire import parse_avro
from cdc_materializer.errors import DuplicateColumn, SchemaRefused
from cdc_materializer.merge import evolve_table
from cdc_materializer.names import TableName
from cdc_materializer.schema.schema import Column, Evolution, TableSchema, plan_schema, renamed
from cdc_materializer.schema.types import fields_of, merge_types, outgrown, struct_ddl, type_word, widest
from tests.unit.pipelines import SMALL, load, refusal

BESIDE = Evolution(new_columns=True)
_ORDERS = TableName.parse("shop.orders")


def table(*columns: str, key: str = "id") -> TableSchema:
    """A schema from `name type` texts."""
    parts = [text.split(" ", 1) for text in columns]
    return TableSchema(tuple(Column(name, kind) for name, kind in parts), (key,))


# --- types
# ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table_type", "writers", "wanted"),
    [
        ("int", ["int", "string"], "string"),
        ("int", ["string", "int"], None),
        ("string", ["string", "int"], "int"),
        ("int", ["bigint", "int"], None),
        ("decimal(12,2)", ["decimal(12,2)", "decimal(10,4)"], "decimal(14,4)"),
        ("decimal(12,4)", ["decimal(12,4)", "decimal(10,2)"], None),
        ("int", ["int", "decimal(10,2)"], "decimal(12,2)"),
        ("int", ["int", "string", "date"], "date"),
        ("bigint", ["int", "string", "string"], "string"),
        ("decimal(38,0)", ["decimal(38,0)", "decimal(38,20)"], "decimal(38,20)"),
        ("timestamp", ["timestamp", "timestamp_ntz"], "timestamp_ntz"),
        ("array<decimal(12,2)>", ["array<decimal(12,2)>", "array<decimal(10,4)>"], "array<decimal(14,4)>"),
        (
            "struct<`a`:decimal(12,2)>",
            ["struct<`a`:decimal(10,4)>", "struct<`a`:decimal(12,2),`b`:int>"],
            "struct<`a`:decimal(14,4),`b`:int>",
        ),
        ("array<int>", ["array<int>", "array<string>"], "array<string>"),
    ],
)
def test_an_outgrown_column_gets_the_type_of_its_last_writers(
    table_type: str, writers: list[str], wanted: str | None
) -> None:
    """Wide enough for all of that kind; a column that holds all that was sent keeps its own."""
    assert outgrown(table_type, writers) == wanted


@pytest.mark.parametrize(
    ("table_type", "writers", "wanted"),
    [
        ("string", ["string", "int"], None),
        ("string", ["date", "string", "decimal(12,2)"], None),
        ("string", ["int", "bigint"], "bigint"),
        ("string", ["string", "array<int>"], "array<int>"),
        ("array<string>", ["array<string>", "array<int>"], None),
        ("int", ["int", "string"], "string"),
    ],
)
def test_a_column_that_was_rebuilt_as_text_keeps_the_values_of_all(
    table_type: str, writers: list[str], wanted: str | None
) -> None:
    """Back in the type of one last message, rows whose text is no number would leave the mirror."""
    assert outgrown(table_type, writers, retyped=True) == wanted


@pytest.mark.parametrize(
    ("old", "new", "merged", "fits"),
    [
        ("int", "bigint", "bigint", True),
        ("bigint", "int", "bigint", True),
        ("int", "string", "int", False),
        ("decimal(8,2)", "decimal(14,4)", "decimal(12,2)", False),
        ("decimal(12,2)", "decimal(10,0)", "decimal(12,2)", True),
        ("decimal(38,10)", "decimal(38,0)", "decimal(38,10)", False),
        ("int", "decimal(9,0)", "int", True),
        ("int", "decimal(20,0)", "bigint", False),
        ("bigint", "decimal(18,0)", "bigint", True),
        ("int", "decimal(4,2)", "int", False),
        ("decimal(12,4)", "bigint", "decimal(23,4)", True),
        ("decimal(38,30)", "bigint", "decimal(38,30)", False),
        ("int", "boolean", "int", True),
        ("boolean", "int", "boolean", False),
        ("struct<`a`:int>", "struct<`b`:string,`a`:bigint>", "struct<`a`:bigint,`b`:string>", True),
        ("struct<`a`:int>", "struct<`a`:string>", "struct<`a`:int>", False),
        ("struct<`a`:int>", "struct<`A`:int>", "struct<`a`:int>", False),
        ("array<struct<`a`:int>>", "array<struct<`a`:int,`b`:date>>", "array<struct<`a`:int,`b`:date>>", True),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>", True),
        ("map<int,int>", "map<string,int>", "map<int,int>", False),
        ("array<int>", "string", "array<int>", False),
        ("array<int>", "array<string>", "array<int>", False),
        ("array<decimal(8,2)>", "array<decimal(14,4)>", "array<decimal(12,2)>", False),
        ("map<string,decimal(8,2)>", "map<string,decimal(14,4)>", "map<string,decimal(12,2)>", False),
        ("struct<`a`:int>", "struct<`a`:string,`b`:int>", "struct<`a`:int,`b`:int>", False),
        ("struct<`a`:int>", "struct<`A`:int,`b`:int>", "struct<`a`:int,`b`:int>", False),
        ("array<struct<`a`:int>>", "array<struct<`a`:decimal(12,2)>>", "array<struct<`a`:bigint>>", False),
    ],
)
def test_a_type_grows_in_place_or_says_that_not_all_fits(old: str, new: str, merged: str, fits: object) -> None:
    """Decimals get digits enough before the point, structs the fields that they lack; nothing changes its kind."""
    assert merge_types(old, new) == (merged, fits)


def test_names_of_fields_may_be_anything() -> None:
    """Commas, colons, brackets and backticks inside a quoted name are its own."""
    fields = {"a,b": "int", "c:`d<e>": "struct<`x)`:decimal(4,2)>", "plain": "map<string,array<int>>"}

    assert fields_of(struct_ddl(fields)) == fields
    assert merge_types(struct_ddl(fields), struct_ddl({"a,b": "bigint"}))[0].startswith("struct<`a,b`:bigint,")


_TYPES = st.sampled_from(
    [
        "boolean",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "date",
        "timestamp",
        "struct<`a`:int>",
        "struct<`a`:int,`b`:string>",
        "struct<`A`:int,`b`:decimal(8,2)>",
        "array<int>",
        "array<string>",
        "map<string,double>",
        "map<string,float>",
    ]
    + [f"array<decimal({digits},{scale})>" for digits in (6, 38) for scale in (0, 4)]
    + [f"array<struct<`a`:decimal({digits},{scale})>>" for digits in (6, 38) for scale in (0, 4)]
    + [f"decimal({digits},{scale})" for digits in (6, 12, 30, 38) for scale in (0, 2, 4)]
)


@given(st.lists(_TYPES, min_size=1, max_size=6), st.data())
def test_whether_a_value_fits_does_not_depend_on_later_writers(kinds: list[str], data: st.DataObject) -> None:
    """What was decided of a writer when it first came holds for the column's last type, so any cut decides alike."""
    column, decided = kinds[0], []
    for kind in kinds[1:]:
        column, fits = merge_types(column, kind)
        decided.append((kind, fits))
    known = data.draw(st.sampled_from(decided)) if decided else (kinds[0], True)

    assert merge_types(column, known[0]) == (column, known[1])


@given(st.lists(st.tuples(st.sampled_from(["v", "w"]), _TYPES), min_size=1, max_size=7), st.integers(0, 7))
def test_any_cut_of_the_log_leads_to_the_same_columns(told: list[tuple[str, str]], cut: int) -> None:
    """Names, types, order, and what stands beside what."""
    writers = [table("id bigint", f"{name} {kind}") for name, kind in told]
    first = plan_schema(None, writers[:cut], BESIDE).target if writers[:cut] else None
    whole, parts = plan_schema(None, writers, BESIDE), plan_schema(first, writers[cut:], BESIDE)

    assert dict(parts.target.types) == dict(whole.target.types)
    assert {column.name: column.beside for column in parts.target.columns} == {
        column.name: column.beside for column in whole.target.columns
    }


# --- columns beside others
# ------------------------------------------------------------------------------------------------


def test_a_column_stands_beside_the_one_whose_values_it_takes() -> None:
    """Right behind it, of the widest type of its kind; a second writer of that kind needs no other."""
    writers = [table("id bigint", "v int", "w int"), table("id bigint", "v decimal(8,3)"), table("v decimal(20,3)")]
    plan = plan_schema(None, [*writers[:2], TableSchema(writers[2].columns)], BESIDE)

    assert [(column.name, column.type) for column in plan.target.columns] == [
        ("id", "bigint"),
        ("v", "bigint"),
        ("v__decimal_38_3", "decimal(38,3)"),
        ("w", "int"),
    ]
    assert {misfit.becomes for misfit in plan.misfits} == {"v__decimal_38_3"}
    assert plan.target.beside("v", "decimal(8,3)") == "v__decimal_38_3"
    assert plan.target.beside("v", "string") is None


def test_without_the_setting_nothing_stands_beside() -> None:
    """A source's own column of such a name is like any other then."""
    plan = plan_schema(table("id bigint", "v int", "v__string string"), [table("id bigint", "v string")])

    assert plan.is_empty
    assert [misfit.becomes for misfit in plan.misfits] == [None]
    assert {column.beside for column in plan.target.columns} == {None}


def test_a_key_has_no_column_beside_it() -> None:
    """A row is known by one form of its key."""
    plan = plan_schema(table("id bigint"), [table("id string")], BESIDE)

    assert plan.is_empty
    assert [(misfit.column, misfit.becomes) for misfit in plan.misfits] == [("id", None)]


def test_a_source_column_with_a_name_that_is_kept_is_refused() -> None:
    """Whether a misfit has come already or not: any cut of the log ends alike."""
    with pytest.raises(SchemaRefused, match="v__string"):
        plan_schema(None, [table("id bigint", "v int", "v__string string")], BESIDE)

    plan_schema(None, [table("id bigint", "v int", "v__total string")], BESIDE)


def test_words_of_types_are_parts_of_names() -> None:
    """Structs, whose DDL may have any length and sign, by a hash."""
    assert type_word(widest("decimal(4,2)")) == "decimal_38_2"
    assert type_word("array<map<string,int>>") == "array_map_string_int"
    assert type_word("struct<`a b`:int>").startswith("struct_")
    assert type_word("struct<`a b`:int>") != type_word("struct<`a c`:int>")


# --- names
# ----------------------------------------------------------------------------------------------------------------


def test_a_renamed_column_is_renamed_with_what_stands_beside_it() -> None:
    """And a table that has the new name already has nothing to rename."""
    rules = Evolution(new_columns=True, renames={"v": "w"})
    pairs = rules.pending(table("id bigint", "v int", "v__string string"))
    after = renamed(table("id bigint", "v int", "v__string string"), pairs)

    assert set(pairs) == {("v", "w"), ("v__string", "w__string")}
    assert rules.pending(after) == ()
    assert [column.wire_names for column in rules.of_table(after).columns] == [("id",), ("w", "v"), ("w", "v")]


def test_what_stands_beside_a_renamed_column_is_renamed_wherever_a_run_was_killed() -> None:
    """Each is a statement of its own, and what is left to do is told by what is there."""
    rules = Evolution(new_columns=True, renames={"v": "w"})
    there = table("id bigint", "v int", "v__bigint bigint", "v__string string")
    whole = renamed(there, rules.pending(there))

    for done in range(4):
        killed = renamed(there, rules.pending(there)[:done])
        assert renamed(killed, rules.pending(killed)) == whole
        # Nor is any of it another program's doing.
        names = dict(rules.pending(there)[:done])
        assert rules.untold(names, killed) == {}
    assert list(whole.types) == ["id", "w", "w__bigint", "w__string"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        pytest.param({"a": "c"}, {}, id="by us"),
        pytest.param({"a": "b"}, {}, id="by us, and it was renamed again since"),
        pytest.param({"a": None}, {"a": None}, id="dropped"),
        pytest.param({"a": "d"}, {"a": "d"}, id="to something else"),
        pytest.param({"d": "c"}, {"d": "c"}, id="another one to its name"),
        pytest.param({"a__string": "c__string"}, {"a__string": "c__string"}, id="one that stands beside none"),
    ],
)
def test_what_was_renamed_as_is_said_is_not_another_programs_doing(
    names: dict[str, str | None], told: dict[str, str | None]
) -> None:
    """Of a batch that was killed behind its change of columns nothing else tells."""
    rules = Evolution(renames={"a": "c", "b": "c"})

    assert rules.untold(names, table("id bigint", "c int", "d int", "c__string string")) == told


def test_a_writer_of_the_old_name_tells_the_new_column() -> None:
    """Whichever comes first."""
    rules = Evolution(renames={"v": "w"})
    old, new = rules.of_writer(table("id bigint", "v int").columns), rules.of_writer((Column("w", "bigint"),))
    plan = plan_schema(None, [TableSchema(old, ("id",)), TableSchema(new)], rules)

    assert plan.target.types == {"id": "bigint", "w": "bigint"}


def test_a_table_that_has_both_columns_is_not_guessed_at() -> None:
    """Nor are messages that have both, or a key that would be renamed under its held rows."""
    rules = Evolution(renames={"v": "w", "id": "key"})

    with pytest.raises(SchemaRefused, match="`v` is `w`, and the table has both"):
        rules.pending(table("id bigint", "v int", "w int"))
    with pytest.raises(SchemaRefused, match="`v` is `w`, and there are messages that have both"):
        rules.of_writer(table("v int", "w int").columns)
    with pytest.raises(SchemaRefused, match="`a` is `c`, `b` is `c`, and there are messages"):
        Evolution(renames={"a": "c", "b": "c"}).of_writer(table("a int", "b int").columns)
    with pytest.raises(SchemaRefused, match="`id` is `key`, a column of the rows' key"):
        rules.pending(table("id bigint", "v int"))


def test_names_of_names_are_followed_to_the_last(tmp_path: Path) -> None:
    """A column that was renamed twice is told under three names; one that would come back to its own is refused."""
    given = load(tmp_path, SMALL.replace("}]", ", renames: {a: b, b: c}}]")).tables[0]

    assert given.final_names == {"a": "c", "b": "c"}
    assert "back to a name that it had" in refusal(tmp_path, SMALL.replace("}]", ", renames: {a: b, b: a}}]"))
    in_case = load(tmp_path, SMALL.replace("}]", ", renames: {Email: email}}]")).tables[0]
    assert in_case.final_names == {"Email": "email"}
    assert "has an old name of `renames`" in refusal(tmp_path, SMALL.replace("}]", ", key: a, renames: {a: b}}]"))


@pytest.mark.parametrize(
    ("known", "key", "told", "renames"),
    [("Name", "id", "name", '`renames: {"Name": "name"}`'), ("Id", "Id", "id", '`renames: {"id": "Id"}`')],
)
def test_a_column_that_was_renamed_in_case_only_is_told_with_what_to_write(
    known: str, key: str, told: str, renames: str
) -> None:
    """A column of the key keeps the table's name. Of a writer that has both, no rename makes one column."""
    current = TableSchema((Column(key, "string"), Column(known, "string"))[key == known :], (key,))
    values, both = (TableSchema(tuple(Column(name, "string") for name in names)) for names in ([told], [told, known]))

    with pytest.raises(DuplicateColumn) as stop:
        plan_schema(current, [values])
    assert renames in stop.value.do

    with pytest.raises(DuplicateColumn) as stop:
        plan_schema(current, [both])
    assert "renames" not in stop.value.do


def test_a_key_that_was_renamed_in_case_only_is_told_with_what_to_write() -> None:
    """Where the messages' own keys have the new name too."""
    current = TableSchema((Column("Id", "bigint"), Column("part", "int")), ("Id", "part"))
    writer = TableSchema((Column("id", "bigint"), Column("part", "int")), ("id", "part"))

    with pytest.raises(SchemaRefused) as stop:
        plan_schema(current, [writer])
    assert '`renames: {"id": "Id"}`' in stop.value.do


def test_two_fields_of_a_struct_that_differ_in_case_are_refused() -> None:
    """At any depth."""
    with pytest.raises(DuplicateColumn, match=r"x`, `.*X`"):
        plan_schema(None, [table("id bigint", "p array<struct<`x`:int,`X`:int>>")])


# --- statements
# -----------------------------------------------------------------------------------------------------------


def test_each_change_is_one_statement() -> None:
    """Fields and elements are changed where they are; what is added stands behind what it follows."""
    current = table("id bigint", "p array<struct<`x`:int>>", "m map<string,int>", "v int")
    writer = table("id bigint", "p array<struct<`x`:bigint,`y y`:string>>", "m map<string,bigint>", "v string")
    plan = plan_schema(current, [writer], BESIDE, {"v": "it's"})

    assert evolve_table("lake", _ORDERS, plan) == [
        "ALTER TABLE `lake`.`shop`.`orders` ALTER COLUMN `p`.`element`.`x` TYPE bigint",
        "ALTER TABLE `lake`.`shop`.`orders` ADD COLUMN `p`.`element`.`y y` string",
        "ALTER TABLE `lake`.`shop`.`orders` ALTER COLUMN `m`.`value` TYPE bigint",
        "ALTER TABLE `lake`.`shop`.`orders` ADD COLUMN `v__string` string COMMENT 'Values that do not fit v' AFTER `v`",
        "ALTER TABLE `lake`.`shop`.`orders` ALTER COLUMN `v` COMMENT 'it\\'s'",
    ]
    assert evolve_table("lake", _ORDERS, plan, "after")[0].endswith(
        "ALTER COLUMN `after`.`p`.`element`.`x` TYPE bigint"
    )


def test_the_newest_comment_is_the_columns_own() -> None:
    """One that the source takes away stays; one that is there already changes nothing."""
    current = TableSchema((Column("id", "bigint", "number"), Column("v", "int", "old")), ("id",))
    changed = plan_schema(current, [table("id bigint", "v int")], docs={"v": "new"})

    assert changed.documented == (Column("v", "int", "new"),)
    assert plan_schema(changed.target, [table("id bigint", "v int")], docs={"v": "new"}).is_empty
    assert plan_schema(changed.target, [table("id bigint", "v int")]).is_empty


def test_an_enum_that_grows_and_a_default_that_changes_are_no_change() -> None:
    """Texts are texts, and a default is no data (changelog-semantics §1.8)."""
    enum = {"type": "string", "connect.name": "io.debezium.data.Enum", "connect.parameters": {"allowed": "a,b"}}
    grown = {**enum, "connect.parameters": {"allowed": "a,b,c"}, "connect.default": "c"}
    kinds = [parse_avro(json.dumps(one)) for one in (enum, grown, {"type": "enum", "name": "e", "symbols": ["a"]})]

    assert {merge_types("string", column_type(kind)) for kind in kinds} == {("string", True)}
