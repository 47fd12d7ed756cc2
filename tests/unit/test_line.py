"""What a line refuses before it writes anything."""

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.adopt import Decision, _adopt
from cdc_materializer.config import TableConfig
from cdc_materializer.contract import load_contract
from cdc_materializer.errors import (
    EXIT_LAKE,
    CommitConflict,
    ConfigError,
    ContractInvalid,
    LakeUnavailable,
    SchemaRefused,
)
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.checks import check_deletes, check_layout
from cdc_materializer.line.line import Line, Tables, new_marker, reload
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.source import TopicState
from cdc_materializer.testing import EPOCH
from tests.unit.memory import MemoryBench

if TYPE_CHECKING:
    from tests.unit.contracts import Write

_NAME = TableName.parse("shop.orders")


def _line(deletes: str) -> Line:
    table = TableConfig.model_validate({"topic": "shop.public.orders", "mirror": "shop.orders", "deletes": deletes})
    nothing: Any = None
    return Line("shop", table, nothing, None, None, nothing)


def _mirror(*, keeps_deleted: bool) -> LakeTable:
    return LakeTable(_NAME, "uuid", 1, None, TableSchema(()), is_empty=False, keeps_deleted=keeps_deleted)


@pytest.mark.parametrize(("made", "asked"), [("soft", "hard"), ("hard", "soft")])
def test_a_mirror_keeps_the_kind_of_deletes_that_it_was_made_with(made: str, asked: str) -> None:
    """Under the other setting it would hold the deletes since then, and none from before."""
    with pytest.raises(ConfigError) as caught:
        check_deletes(_line(asked), _mirror(keeps_deleted=made == "soft"))

    assert str(caught.value) == (
        f"shop.orders was made with `deletes: {made}`, and pipeline.yaml says `{asked}`. Nothing was written. "
        f"Set `deletes: {made}`, or mirror the topic under another `mirror` name."
    )


def test_a_mirror_goes_on_with_its_own_kind_of_deletes() -> None:
    """One that is yet to be made has none."""
    check_deletes(_line("soft"), _mirror(keeps_deleted=True))
    check_deletes(_line("hard"), _mirror(keeps_deleted=False))
    check_deletes(_line("soft"), None)


_WANTED = TableSchema(
    tuple(
        Column(name, ddl)
        for name, ddl in {
            "id": "bigint", "at": "timestamp_ntz", "day": "date", "price": "decimal(12,2)", "flag": "boolean",
            "tags": "array<string>", "ratio": "double", "id_trunc": "int", "DAY_year": "int",
        }.items()
    ),
    ("id",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"partitioned_by": ["days(gone)", "flag"]}, "`partitioned_by` asks for what .* there is no column `gone`"),
        ({"partitioned_by": ["days(id)", "hours(day)"]}, r"`days\(id\)`, of a .* bigint; `hours\(day\)`, .* date\."),
        ({"partitioned_by": ["bucket(4, ratio)"]}, r"`bucket\(4, ratio\)`, of a column of type double"),
        ({"partitioned_by": ["tags"]}, "`tags`, of a column of type array"),
        ({"partitioned_by": ["days(at)", "hours(at)"]}, r"`hours\(at\)` beside another one like it"),
        ({"partitioned_by": ["bucket(4, id)", "bucket(8, ID)"]}, r"`bucket\(8, ID\)` beside another one like it"),
        ({"partitioned_by": ["flag", "flag"]}, "`flag` beside another one like it"),
        ({"partitioned_by": ["truncate(4, id)"]}, r"`truncate\(4, id\)`, which Iceberg calls `id_trunc` as there is"),
        ({"sorted_by": ["truncate(4, flag) desc"]}, r"`sorted_by` asks .*`truncate\(4, flag\) desc`, .* boolean"),
        ({"sorted_by": ["id", "none nulls last"]}, "there is no column `none`"),
    ],
)
def test_a_mirror_is_not_made_in_an_order_that_its_columns_do_not_allow(settings: dict[str, Any], told: str) -> None:
    """The table would be there by then, without a key, and in the way of a mended setting."""
    with pytest.raises(SchemaRefused, match=told):
        check_layout(_ordered(settings), None, _WANTED)


def test_a_mirror_is_made_in_an_order_that_its_columns_allow() -> None:
    """By any transform of a column that it has; one that is there keeps its own, and without a key none is made."""
    wanted = [
        "days(At)",
        "years(day)",
        "bucket(16, price)",
        "truncate(10,price)",
        "ratio",
        "bucket(4, id)",
    ]
    check_layout(_ordered({"partitioned_by": wanted, "sorted_by": ["price desc nulls last", "ID"]}), None, _WANTED)
    check_layout(_ordered({"sorted_by": ["gone"]}), replace(_mirror(keeps_deleted=False), schema=_WANTED), _WANTED)
    check_layout(_ordered({"sorted_by": ["gone"]}), None, replace(_WANTED, key=()))


@pytest.mark.parametrize("mirror", [None, _mirror(keeps_deleted=False)])
def test_a_primary_key_that_lacks_a_column_of_the_tables_key_is_refused(
    write_contract: "Write", mirror: LakeTable | None
) -> None:
    """Two rows of the mirror could have one value of what its contract calls the key; case does not count."""
    contract = load_contract(write_contract("- {name: Tenant, physicalType: int}"))
    line = replace(_ordered({}), stated=contract)
    wanted = TableSchema((Column("ID", "bigint"), Column("tenant", "int")), ("tenant", "ID"))

    with pytest.raises(ContractInvalid) as refused:
        check_layout(line, mirror, wanted)

    assert "orders.yaml:9: the primary key is id, and shop.orders tells rows apart by tenant, ID" in refused.value.what
    mirror = replace(mirror, schema=wanted) if mirror is not None else None
    for fits in (replace(wanted, key=("ID",)), replace(wanted, key=())):
        check_layout(line, mirror, fits)
    of_servers = replace(line, table=_ordered({"topic": "shop_*.public.orders", "shard": "tenant"}).table)
    check_layout(of_servers, mirror, wanted)
    unstated = replace(contract, columns=tuple(replace(one, primary_key=False) for one in contract.columns))
    check_layout(replace(line, stated=unstated), mirror, wanted)


def _ordered(settings: dict[str, Any]) -> Line:
    given = {"topic": "shop.public.orders", "mirror": "shop.orders", **settings}
    return replace(_line("hard"), table=TableConfig.model_validate(given))


def test_servers_are_not_adopted_by_another_glob() -> None:
    """What `*` stands for is in the keys, so `adopt` refuses it before it writes, as a run does."""
    given = {"topic": "shop_*.public.orders", "mirror": "shop.orders", "shard": "server"}
    line = replace(_line("hard"), table=TableConfig.model_validate(given))
    marker = replace(new_marker(line, Span("shop*.public.orders", Offsets(), Offsets()), "", None), topics=("shop_1",))
    raw = replace(_mirror(keeps_deleted=False), marker=marker)
    nothing: Any = None

    with pytest.raises(ConfigError, match="which would give its rows other servers"):
        _adopt(line, Tables(raw, None, None), nothing, nothing)


def test_a_gap_is_not_accepted_for_a_raw_table_that_another_program_has_taken_columns_from() -> None:
    """Behind later offsets nothing would tell of them any more, and the next run would begin them anew, empty."""
    line, published = _line("hard"), list[object]()
    lake: Any = SimpleNamespace(publish=lambda *given: published.append(given))
    topic = TopicState(line.table.topic, None, Offsets({0: 5}), Offsets({0: 9}))
    marker = new_marker(line, Span(topic.topic, Offsets({0: 3}), Offsets({0: 3})), "", None)
    raw = replace(_mirror(keeps_deleted=False), marker=marker, dropped={"value": None})
    decision = Decision("tests", EPOCH)

    with pytest.raises(LakeUnavailable, match="Another program has dropped or renamed value of shop"):
        _adopt(replace(line, lake=lake), Tables(raw, None, None), topic, decision)

    assert published == []
    (accepted,) = _adopt(replace(line, lake=lake), Tables(replace(raw, dropped={}), None, None), topic, decision)
    assert (accepted.what, len(published)) == ("gap", 1)


def test_a_table_that_another_writer_dropped_is_no_bug_of_ours() -> None:
    """As a race: the batch is planned again, and who loses each time ends with 4."""
    gone: Any = SimpleNamespace(load=lambda _name: None)

    with pytest.raises(CommitConflict, match="another writer dropped it") as caught:
        reload(replace(_line("hard"), lake=gone), _NAME.raw)

    assert (caught.value.exit_code, caught.value.retryable) == (EXIT_LAKE, True)


@pytest.mark.parametrize(("now", "is_ours"), [("cost", True), ("worth", False), (None, False)])
def test_what_was_renamed_for_us_is_no_other_programs_doing(
    monkeypatch: pytest.MonkeyPatch,
    now: str | None,
    is_ours: bool,  # noqa: FBT001
) -> None:
    """A batch was killed behind it, or a replay not published; a ledger is of the names that columns had."""
    given = {"topic": "shop.public.orders", "mirror": "shop.orders", "renames": {"price": "cost"}}
    marker = replace(new_marker(_line("hard"), Span("t", Offsets(), Offsets()), "", None), ledger="sums")
    loaded = replace(_mirror(keeps_deleted=False), marker=marker, dropped={"price": now})
    monkeypatch.setattr(Lake, "load", lambda *_: loaded)

    found = replace(_line("hard"), table=TableConfig.model_validate(given), lake=MemoryBench().lake).load_mirror()

    expected = loaded if not is_ours else replace(loaded, dropped={}, marker=replace(marker, ledger=None))
    assert found == expected


def test_a_key_that_rows_tell_has_no_server_in_it(write_contract: "Write", monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract may declare the column that `shard` adds; no message has it."""
    monkeypatch.setattr(Line, "aliases", {})
    declared = load_contract(write_contract("- {name: server, physicalType: text, primaryKey: true}"))
    line = _ordered({"topic": "shop_*.public.orders", "shard": "server", "format": "canal"})

    assert {column.name for column in declared.columns if column.primary_key} == {"server", "id"}
    assert replace(line, stated=declared).options.key == ("id",)
