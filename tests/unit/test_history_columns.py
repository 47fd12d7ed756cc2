"""How the rows in a history follow the columns of the mirror."""

import pytest

from cdc_materializer.batch.history_columns import check_held, plan_fields
from cdc_materializer.errors import InvariantBroken
from cdc_materializer.schema.schema import Column, Evolution, TableSchema

_RENAMED = Evolution(renames={"price": "cost"})


def _table(**types: str) -> TableSchema:
    return TableSchema(tuple(Column(name, ddl) for name, ddl in types.items()))


def _after(fields: TableSchema, target: TableSchema, evolution: Evolution) -> tuple[list[tuple[str, str]], list[str]]:
    """The renamed fields, and those that are then added."""
    pending, plan = plan_fields(fields, target, evolution)
    return list(pending), [column.name for column in plan.added]


@pytest.mark.parametrize(
    ("old", "new", "aside"),
    [
        ("decimal(12,2)", "decimal(14,4)", "cost__decimal_12_2"),
        ("int", "string", "cost__int"),
        ("int", "boolean", "cost__int"),
    ],
)
def test_a_renamed_field_of_another_type_is_put_aside_under_its_new_name(old: str, new: str, aside: str) -> None:
    """Its column was rebuilt with another type before the history was next written."""
    fields, target = _table(id="bigint", price=old), _table(id="bigint", cost=new)

    assert _after(fields, target, _RENAMED) == ([("price", "cost"), ("cost", aside)], ["cost"])


def test_a_field_goes_on_where_its_own_type_takes_the_new_values() -> None:
    """Renamed or not; and what a killed run has renamed already is put aside by the next one."""
    fields, target = _table(id="bigint", price="int"), _table(id="bigint", cost="bigint")

    pending, plan = plan_fields(fields, target, _RENAMED)
    assert (pending, [(one.name, one.type) for one in plan.widened]) == ((("price", "cost"),), [("cost", "bigint")])
    assert _after(_table(cost="int"), _table(cost="string"), _RENAMED) == ([("cost", "cost__int")], ["cost"])
    assert _after(_table(qty="int"), _table(qty="int"), Evolution()) == ([], [])


def test_no_value_is_stored_in_a_field_that_does_not_hold_it() -> None:
    """A cast would round it, or end the run; a wider field takes it, and so does one with more parts."""
    wider = ("struct<`a`:int,`b`:struct<`c`:float>>", "struct<`old`:string,`b`:struct<`c`:double,`d`:int>,`a`:bigint>")
    check_held({"before": wider, "after": wider}, "shop.t__history")

    rounded = ("struct<`a`:decimal(14,4),`b`:int>", "struct<`a`:decimal(12,2),`b`:int>")
    with pytest.raises(InvariantBroken, match=r"shop\.t__history cannot store `after\.a` exactly"):
        check_held({"before": wider, "after": rounded}, "shop.t__history")
    with pytest.raises(InvariantBroken, match=r"`before\.b`"):
        check_held({"before": ("struct<`b`:string>", "struct<`a`:string>")}, "shop.t__history")
