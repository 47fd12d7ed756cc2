"""How a mirror's columns come about and change, without Spark."""

import pytest

from cdc_materializer.errors import DuplicateColumn, InvalidName, SchemaRefused
from cdc_materializer.schema.schema import Column, TableSchema, plan_schema
from cdc_materializer.schema.types import decimal_of, is_widening, same_kind


def table(*columns: str, key: str = "id") -> TableSchema:
    """A schema from `name type` texts."""
    parts = [text.split(" ", 1) for text in columns]
    return TableSchema(tuple(Column(name, kind) for name, kind in parts), (key,))


ORDERS = table("id bigint", "qty int", "amount decimal(12,2)")


def test_a_new_table_takes_the_columns_of_all_writers_in_order() -> None:
    """Columns of a later writer come behind those of an earlier one."""
    plan = plan_schema(None, [ORDERS, table("id bigint", "note string", "qty int")])

    assert list(plan.target.types) == ["id", "qty", "amount", "note"]
    assert plan.target.key == ("id",)
    assert not plan.is_empty


def test_nothing_is_planned_where_the_table_holds_all_writers() -> None:
    """An older writer that lacks columns changes nothing: columns are never dropped."""
    plan = plan_schema(ORDERS, [table("id bigint", "qty int")])

    assert plan.is_empty
    assert plan.target == ORDERS


@pytest.mark.parametrize(("old", "new"), [("int", "bigint"), ("float", "double"), ("decimal(8,2)", "decimal(12,2)")])
def test_a_wider_type_widens_the_column_in_place(old: str, new: str) -> None:
    """The type changes that Iceberg's specification allows, and the way back changes nothing."""
    plan = plan_schema(table("id bigint", f"v {old}"), [table("id bigint", f"v {new}")])
    back = plan_schema(plan.target, [table("id bigint", f"v {old}")])

    assert plan.widened == (Column("v", new),)
    assert plan.misfits == ()
    assert back.is_empty
    assert back.misfits == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [("int", "string"), ("decimal(12,2)", "decimal(14,4)"), ("timestamp", "timestamp_ntz"), ("bigint", "double")],
)
def test_another_type_is_a_misfit_and_the_column_stays(old: str, new: str) -> None:
    """A change of scale or of kind is no widening; values decide one by one what becomes of them."""
    plan = plan_schema(table("id bigint", f"v {old}"), [table("id bigint", f"v {new}")])

    assert plan.target.types["v"] == old
    assert [(misfit.table_type, misfit.writer_type) for misfit in plan.misfits] == [(old, new)]


def test_a_column_that_is_added_and_widened_at_once_is_added_wide() -> None:
    """Two writers of one batch may bring a column and its wider type; one statement makes it."""
    plan = plan_schema(table("id bigint"), [table("id bigint", "v int"), table("id bigint", "v bigint")])

    assert plan.added == (Column("v", "bigint"),)
    assert plan.widened == ()


def test_the_cut_of_the_log_does_not_change_the_plan() -> None:
    """Writers taken one after the other, or all at once, end in the same columns."""
    writers = [table("id bigint", "v int"), table("id bigint", "w string"), table("id bigint", "v bigint")]
    current = None
    for writer in writers:
        current = plan_schema(current, [writer]).target

    assert current == plan_schema(None, writers).target


def test_columns_that_differ_in_case_are_refused() -> None:
    """Most engines would read one for the other."""
    with pytest.raises(DuplicateColumn) as caught:
        plan_schema(None, [table("id bigint", "Name string", "name string")])

    assert caught.value.exit_code == 2
    assert caught.value.code == "DUPLICATE_COLUMN"


def test_all_names_that_no_table_can_have_are_told_at_once() -> None:
    """Those of fields too, wherever they stand."""
    columns = ("id bigint", "_pos int", "s array<struct<`a`:int,`A`:int>>", "m map<string,struct<`b`:int,`B`:int>>")

    with pytest.raises(DuplicateColumn) as caught:
        plan_schema(None, [table(*columns)])

    for name in ("`_pos`", "`s.element.a`, `s.element.A`", "`m.value.b`, `m.value.B`"):
        assert name in caught.value.what


@pytest.mark.parametrize(
    "columns",
    [
        ("a struct<`b`:int>", "a.b int"),
        ("a struct<`b`:int>", "A.B int"),
        ("a.b struct<`c`:int>", "a struct<`b.c`:int>"),
        ("a array<int>", "a.element int"),
        ("a map<string,int>", "a.value int"),
    ],
)
def test_a_name_with_a_dot_that_is_a_path_too_is_refused(columns: tuple[str, ...]) -> None:
    """Iceberg finds fields by their dotted paths, and makes no table of two that have one."""
    with pytest.raises(InvalidName, match="paths of fields"):
        plan_schema(None, [table("id bigint", *columns)])


def test_a_dot_in_a_name_is_no_path_by_itself() -> None:
    """As the source spells them."""
    schema = plan_schema(None, [table("id bigint", "a struct<`b`:int>", "a.c int", "b.a int")]).target

    assert list(schema.types) == ["id", "a", "a.c", "b.a"]


def test_a_column_with_our_prefix_is_refused() -> None:
    """Columns that begin `__cdc` are ours."""
    with pytest.raises(InvalidName):
        plan_schema(None, [table("id bigint", "__CDC_op string")])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_floating_point_key_is_refused(kind: str) -> None:
    """It cannot identify a row exactly."""
    with pytest.raises(SchemaRefused, match="floating-point"):
        plan_schema(None, [table(f"id {kind}")])


@pytest.mark.parametrize("kind", ["array<int>", "map<string,int>", "struct<`a`:int>"])
def test_a_key_with_parts_is_refused(kind: str) -> None:
    """Iceberg takes no such column for an identifier, and would say so of a table that is half made."""
    with pytest.raises(SchemaRefused, match=f"`id` is of type {kind.partition('<')[0]}"):
        plan_schema(None, [table(f"id {kind}")])


def test_decimals_are_told_from_other_types() -> None:
    """Precision and scale, also a negative one."""
    assert decimal_of("decimal(12,2)") == (12, 2)
    assert decimal_of("decimal(5,-2)") == (5, -2)
    assert decimal_of("bigint") is None


def test_values_of_one_kind_may_fit_each_other() -> None:
    """Two decimals, two integers, two floats; never a text and a number."""
    assert same_kind("decimal(12,2)", "decimal(14,4)")
    assert same_kind("bigint", "int")
    assert same_kind("double", "float")
    assert not same_kind("string", "int")
    assert not is_widening("bigint", "int")
