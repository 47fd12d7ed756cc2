"""Renames that aliases of registered schemas tell: together, in whatever order they are met."""

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.changes.formats import find
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decoders.decoders import Lookup
from cdc_materializer.errors import RegistryUnavailable, SchemaRefused
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line.aliases import PROPERTY, Aliases, final_names, gather, remember
from cdc_materializer.offsets import Offsets
from cdc_materializer.registry import RegisteredSchema, Registry
from cdc_materializer.registry.schemas import Wanted
from tests.model.lake_contract import again, append, create
from tests.unit.memory import PATH, MemoryBench

_NAMES = st.sampled_from("abcde")


def _schema(fields: dict[str, list[str]]) -> str:
    listed = [{"name": name, "type": ["null", "string"], "aliases": aliases} for name, aliases in fields.items()]
    return json.dumps({"type": "record", "name": "row", "fields": listed})


class _Known(Registry):
    """A registry of some schemas, or one that is down."""

    id_bytes = 4
    place = "memory"
    found = ()

    def __init__(self, schemas: dict[int, str] | None) -> None:
        self._schemas = schemas

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """By its id."""
        if self._schemas is None:
            raise RegistryUnavailable("It is down.", "Wait.")
        assert isinstance(wanted, SchemaName)
        text = self._schemas.get(int(wanted.text, 16))
        return RegisteredSchema(wanted, "AVRO", text) if text is not None else None


def _gathered(before: Aliases, schemas: dict[int, str] | None, *met: int) -> Aliases:
    lookup = Lookup(_Known(schemas), None, Options(format=find("upsert")), None, ("t",))
    return before.with_writers([str(SchemaName.of_id(number)) for number in met], lookup, find("upsert"))


_NOTHING = Aliases(Offsets())


def test_a_fields_aliases_are_the_names_that_it_had() -> None:
    """Those of a schema that has both names are two columns, and one that differs in case alone is no other name."""
    schemas = {1: _schema({"client": ["customer", "buyer"], "a": []}), 2: _schema({"x": ["y"], "y": []})}
    schemas[3] = _schema({"Name": ["name"]})

    found = _gathered(_NOTHING, schemas, 1, 2, 3)

    assert found.pairs == {("customer", "client"), ("buyer", "client")}
    assert not found.unknown


def test_a_schema_that_nobody_knows_yet_is_asked_for_again() -> None:
    """Its messages are in raw and looked at: only its name is left to remember."""
    first = _gathered(_NOTHING, {}, 7)
    down = _gathered(first, None)

    later = _gathered(down, {7: _schema({"client": ["customer"]})})

    assert first.unknown == down.unknown == {"id:00000007"}
    assert later.pairs == {("customer", "client")}
    assert not later.unknown


def test_what_raw_remembers_is_what_was_gathered() -> None:
    """As a property, whose text is the same for the same content."""
    found = Aliases(Offsets({0: 5, 1: 7}), frozenset({("b", "c"), ("a", "b")}), frozenset({"id:00000007"}), 3)

    assert Aliases.of(found.text) == found
    assert Aliases.of(None) == _NOTHING


def test_so_many_schemas_that_nobody_knows_are_looked_for_in_raw_again() -> None:
    """Garbage can name any number of them: what is remembered has an end, and none of them is passed over."""
    selectors = [f"id:{number:08x}" for number in range(1_001)]
    few = Aliases(Offsets({0: 5}), frozenset({("a", "b")}), frozenset(selectors[1:]), 3)

    many = replace(few, unknown=frozenset(selectors))

    assert Aliases.of(few.text) == few
    assert Aliases.of(many.text) == replace(few, offsets=Offsets(), unknown=frozenset())


def _raw(bench: MemoryBench, *offsets: int) -> LakeTable:
    """A raw table after some landings."""
    for at in offsets:
        append(bench, again(bench), f"to-{at}", at)
    return again(bench)


def _gather(bench: MemoryBench, raw: LakeTable) -> Aliases:
    lookup = Lookup(_Known({}), None, Options(format=find("upsert")), None, ("t",))
    return gather(bench.lake, raw, lookup, find("upsert"), 4)


def _property(bench: MemoryBench, told: Aliases | None = None) -> Aliases:
    now = bench.catalog.tables[PATH]
    if told is not None:
        bench.catalog.tables[PATH] = replace(now, properties={**now.properties, PROPERTY: told.text})
    return Aliases.of(bench.catalog.tables[PATH].properties.get(PROPERTY))


def test_what_another_process_has_landed_and_remembered_meanwhile_is_no_fault() -> None:
    """Its memory goes further than raw as it was loaded; it stays, and what it says counts here too."""
    bench = MemoryBench()
    create(bench)
    raw = _raw(bench, 10)
    _raw(bench, 12)
    theirs = _property(bench, Aliases(Offsets({0: 12}), frozenset({("customer", "client")})))

    found = _gather(bench, raw)
    remember(bench.lake, raw, found)

    assert found == Aliases(Offsets({0: 10}), frozenset({("customer", "client")}))
    assert _property(bench) == theirs


def test_what_was_gathered_is_remembered_of_raw_as_it_is() -> None:
    """Also where that was rolled back: what is landed then is looked at."""
    bench = MemoryBench()
    create(bench)
    raw = _raw(bench, 10)
    _property(bench, Aliases(Offsets({0: 12})))

    remember(bench.lake, raw, _gather(bench, raw))

    assert _property(bench) == Aliases(Offsets({0: 10}))


@given(st.frozensets(st.tuples(_NAMES, _NAMES).filter(lambda pair: pair[0] != pair[1]), max_size=4))
def test_no_order_of_schemas_gives_other_names(pairs: frozenset[tuple[str, str]]) -> None:
    """What they say together counts: one last name for each, or a stop."""

    def names(listed: tuple[tuple[str, str], ...]) -> dict[str, str] | None:
        try:
            return final_names(listed, {})
        except SchemaRefused:
            return None

    found = [names(listed) for listed in permutations(pairs)]

    assert all(one == found[0] for one in found)
    assert found[0] is None or not set(found[0]) & set(found[0].values())


def test_a_column_is_called_as_the_last_of_a_chain() -> None:
    """Each name that it had leads there."""
    assert final_names([("customer", "client"), ("client", "buyer")], {}) == {"customer": "buyer", "client": "buyer"}


@pytest.mark.parametrize("pairs", [[("a", "b"), ("b", "a")], [("a", "b"), ("a", "c")]])
def test_names_that_say_no_last_one_stop_the_table(pairs: list[tuple[str, str]]) -> None:
    """A column that was renamed and back, or two that were one: schemas have no order that says it."""
    with pytest.raises(SchemaRefused, match="nothing says which name is last"):
        final_names(pairs, {})


def test_what_the_settings_say_wins() -> None:
    """Of the names that they have, aliases say nothing more."""
    renames = {"a": "b"}

    assert final_names([("b", "a"), ("a", "c"), ("b", "d"), ("x", "a")], renames) == {"a": "b", "x": "b"}
