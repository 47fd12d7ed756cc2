"""Schemas by the names that messages of a table were decoded by: another registry, or another schema in its place."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.errors import LakeUnavailable, SchemaReplaced
from cdc_materializer.registry import BoundRegistry, RegisteredSchema, Wanted
from cdc_materializer.registry.bound import FORMER, NAMES_MAX, PLACE, PREFIX, Bound, digest_of
from cdc_materializer.testing import MemoryRegistry

ROW = {"type": "record", "name": "Value", "namespace": "shop", "fields": [{"name": "first", "type": "string"}]}
OTHER = {**ROW, "fields": [{"name": "last", "type": "string"}]}


class Asked(MemoryRegistry):
    """A registry somewhere that counts what it is asked."""

    def __init__(self, place: str, schemas: Mapping[int, Any]) -> None:
        """Take where it is and what it has."""
        super().__init__(schemas)
        self.place, self.asked = place, list[Wanted]()

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema."""
        self.asked.append(wanted)
        return super().schema(wanted)


class Unread(Asked):
    """One whose answers nobody can read."""

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find one without a text."""
        return RegisteredSchema(wanted, "AVRO", "")


def digest(schema: object, kind: str = "AVRO") -> str:
    """The digest of a schema, or of its text."""
    return digest_of(RegisteredSchema(1, kind, schema if isinstance(schema, str) else json.dumps(schema)))


def bound(place: str, schemas: Mapping[int, object]) -> Bound:
    """What is remembered of schemas."""
    return Bound(place, {str(SchemaName.of_id(number)): digest(schema) for number, schema in schemas.items()})


def table(registry: MemoryRegistry, known: Bound) -> BoundRegistry:
    """The registry as a table asks it."""
    return BoundRegistry(registry, lambda: known, "shop.orders")


PART = {"type": "record", "name": "Part", "fields": [{"name": "x", "type": {"type": "array", "items": "long"}}]}
OUTER = {**ROW, "fields": [{"name": "part", "type": PART}, {"name": "again", "type": ["null", "Part"]}]}


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (json.dumps(ROW), json.dumps(ROW, indent=2)),
        (ROW, dict(reversed(ROW.items()))),
        (ROW, {key: part for key, part in ROW.items() if key != "namespace"} | {"name": "shop.Value"}),
        (ROW, {**ROW, "fields": [{"name": "first", "type": {"type": "string"}}]}),
        (
            OUTER,
            {
                **OUTER,
                "fields": [
                    {"name": "part", "type": {**PART, "namespace": "shop"}},
                    {"name": "again", "type": ["null", "shop.Part"]},
                ],
            },
        ),
    ],
    ids=["blanks", "order of properties", "full name", "wrapped type", "namespaces inside"],
)
def test_a_schema_that_a_registry_writes_in_another_way_is_the_same(one: object, another: object) -> None:
    """A copy of a registry that kept ids goes on without a word, though it lays texts out in its own way."""
    assert digest(one) == digest(another)


@pytest.mark.parametrize(
    ("one", "another", "kind"),
    [
        (ROW, OTHER, "AVRO"),
        (ROW, {**ROW, "fields": [{"name": "first", "type": ["null", "string"]}]}, "AVRO"),
        (
            {**ROW, "fields": [{"name": "at", "type": "long"}]},
            {**ROW, "fields": [{"name": "at", "type": {"type": "long", "connect.name": "io.debezium.time.Timestamp"}}]},
            "AVRO",
        ),
        (
            {**ROW, "fields": [*ROW["fields"], *OTHER["fields"]]},
            {**ROW, "fields": [*OTHER["fields"], *ROW["fields"]]},
            "AVRO",
        ),
        ({"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}, "JSON"),
        ("message A { int32 a = 1; }", "message A { int32 a = 2; }", "PROTOBUF"),
        ("no schema", "none either", "AVRO"),
        ('"a"', '{"fields": 1, "type": "record"}', "AVRO"),
    ],
)
def test_a_schema_by_which_bytes_say_something_else_is_another(one: object, another: object, kind: str) -> None:
    """Of any kind, and where it is none that can be read."""
    assert digest(one, kind) != digest(another, kind)


@pytest.mark.parametrize(
    ("schema", "kind", "told"),
    [
        (OUTER, "AVRO", "1f9bfe8da7f6289d"),
        ({"type": "object", "title": "é", "properties": {"id": {"type": "integer"}}}, "JSON", "efea404a8432128a"),
        ('syntax = "proto3";\nmessage Order { int64 id = 1; }\n', "PROTOBUF", "2cc624335f5f6602"),
    ],
    ids=["avro", "json", "protobuf"],
)
def test_the_digests_that_tables_keep_stay_what_they_are(schema: object, kind: str, told: str) -> None:
    """Tables have them in their properties: were they made otherwise, every table would stop for another schema."""
    assert digest(schema, kind) == told


@pytest.mark.parametrize(
    "text",
    [
        *("", "gone", "null", "[]", '"a"', "{}", '{"place": "a"}', '{"digests": {}}', "[" * 100_000),
        *('{"place": 1, "digests": {}}', '{"place": "a", "digests": []}', '{"place": "a", "digests": {"id:1": 7}}'),
        '{"place": "a", "digests": {}, "more": 1}',
    ],
)
def test_a_former_property_that_somebody_has_changed_is_told_and_never_guessed(text: str) -> None:
    """Nothing else says which schemas a table's messages were decoded by."""
    with pytest.raises(LakeUnavailable) as stop:
        Bound.of({FORMER: text}, "shop.orders__raw")

    assert "`cdcm.schemas` of shop.orders__raw" in stop.value.what
    assert "UNSET TBLPROPERTIES" in stop.value.do
    assert "Nothing was written." in stop.value.do


@pytest.mark.parametrize("text", ["", "gone", "0", "1F9BFE8DA7F6289D", "1f9bfe8da7f6289d1", " id:00000001"])
def test_a_property_that_somebody_has_changed_is_told_and_never_guessed(text: str) -> None:
    """Of any name, whether a message of now carries it or not."""
    with pytest.raises(LakeUnavailable) as stop:
        Bound.of({f"{PREFIX}id:00000001": text}, "shop.orders__raw")

    assert "`cdcm.schemas.id:00000001` of shop.orders__raw" in stop.value.what
    assert "UNSET TBLPROPERTIES" in stop.value.do
    assert "Nothing was written." in stop.value.do


def test_a_name_that_has_another_schema_stops_its_table() -> None:
    """Whatever the registry is: another one at another place, or the same one whose schema was replaced."""
    for place in ("confluent http://a", "confluent http://b"):
        found = table(Asked(place, {2: OTHER}), bound("confluent http://a", {2: ROW}))

        with pytest.raises(SchemaReplaced) as stop:
            found.schema(2)

        assert "id:2 is another schema" in stop.value.what
        assert place in stop.value.what
        assert "shop.orders" in stop.value.what
        assert "`registry:`" in stop.value.do
        assert "begin with `cdcm.schemas` off shop.orders__raw" in stop.value.do
        assert "`cdcm replay shop.orders --publish --restart`" in stop.value.do


def test_another_registry_is_asked_for_all_that_was_decoded_before_anything_is_read_by_it() -> None:
    """In the other one id 3 is what id 2 was in the first, and new messages are written with that alone."""
    other = Asked("b", {2: OTHER, 3: ROW})

    with pytest.raises(SchemaReplaced, match="id:2"):
        table(other, bound("a", {2: ROW})).schema(3)
    # Where it does not know the name, its messages wait for it: nothing is read wrongly.
    assert table(Asked("b", {3: ROW}), bound("a", {2: ROW})).schema(3) is not None


def test_a_registry_costs_no_more_questions_but_once_where_it_is_another() -> None:
    """A batch asks it for what its messages name."""
    same, copy = Asked("a", {1: ROW, 2: OTHER, 3: ROW}), Asked("b", {1: ROW, 2: OTHER, 3: ROW})
    known = bound("a", {1: ROW, 2: OTHER})

    for registry in (same, copy):
        found = table(registry, known)
        assert [found.schema(number) is not None for number in (3, 1, 3, 9)] == [True, True, True, False]

    assert same.asked == [3, 1, 3, 9]
    assert copy.asked == [3, SchemaName.of_id(1), SchemaName.of_id(2), 1, 3, 9]


def test_what_was_met_is_remembered_with_what_was_known() -> None:
    """Once: equal properties are one text. A table of more schemas than any remembers the first of them."""
    registry = table(Asked("a", {1: ROW, 2: OTHER}), Bound())
    registry.schema(1)
    registry.schema(2)

    now = Bound().with_met("a", registry.met)

    assert now == bound("a", {1: ROW, 2: OTHER})
    properties = {"owner": "shop", **now.beyond(Bound())}
    assert Bound.of(properties, "shop.orders__raw") == now.with_met("a", {"id:00000001": digest(ROW)})
    assert now.beyond(now) == {}
    many = {f"id:{number:08X}": "0" for number in range(NAMES_MAX + 5)}
    full = now.with_met("a", many)
    assert len(full.digests) == NAMES_MAX
    assert full.digests["id:00000002"] == digest(OTHER)
    assert len(full.with_met("a", {"id:FF": "0"}).digests) == NAMES_MAX


def test_what_two_processes_meet_at_once_is_put_together_by_any_catalog() -> None:
    """Each sets what is new to it; a REST catalog compares no properties, and puts the second's to the first's."""
    known = bound("a", {1: ROW})
    ours, theirs = (known.with_met("a", {f"id:0000000{number}": digest(OTHER)}) for number in (2, 3))

    kept = {**known.beyond(Bound()), **ours.beyond(known), **theirs.beyond(known)}

    assert Bound.of(kept, "shop.orders__raw") == bound("a", {1: ROW, 2: OTHER, 3: OTHER})


def test_what_an_earlier_version_has_kept_in_one_property_is_known_and_never_written() -> None:
    """What is met since stands beside it; what both say is as it was written last."""
    former = {FORMER: json.dumps({"place": "a", "digests": {"id:00000001": digest(ROW)}})}
    known = Bound.of(former, "shop.orders__raw")

    news = known.with_met("b", {"id:00000001": digest(ROW), "id:00000002": digest(OTHER)}).beyond(known)

    assert known == bound("a", {1: ROW})
    assert news == {PLACE: "b", f"{PREFIX}id:00000002": digest(OTHER)}
    assert Bound.of({**former, **news}, "shop.orders__raw") == bound("b", {1: ROW, 2: OTHER})


def test_a_name_that_is_too_long_for_a_propertys_is_kept_all_the_same() -> None:
    """Of Apicurio's artifacts, whose names are as long as anyone likes; the Hive metastore ends at 256 characters."""
    name = "artifact:" + "/".join(("6F" * 60, "72" * 200, "31"))
    now = Bound().with_met("a", {name: digest(ROW)})

    assert Bound.of(now.beyond(Bound()), "shop.orders__raw") == now
    assert max(map(len, now.beyond(Bound()))) <= 256


@pytest.mark.parametrize(
    "name",
    [
        *("id:0000000000000007", "guid:00112233445566778899AABBCCDDEEFF", "content:0000000000000007"),
        *("global:00000007", "hash:6162", "artifact:64656661756C74/6F7264657273/31"),
    ],
)
def test_names_of_each_kind_are_kept_and_asked_for_again(name: str) -> None:
    """Apicurio's former ids of eight bytes among them: another registry is asked for each by what messages carry."""
    kept = Bound().with_met("a", {name: digest(ROW)})
    known = Bound.of(kept.beyond(Bound()), "shop.orders__raw")

    class Every(Asked):
        def schema(self, wanted: Wanted) -> RegisteredSchema | None:
            self.asked.append(wanted)
            return RegisteredSchema(wanted, "AVRO", json.dumps(OTHER))

    registry = Every("b", {})
    with pytest.raises(SchemaReplaced):
        table(registry, known).schema(1)
    assert registry.asked[1:] == [SchemaName.parse(name)]


def test_what_was_looked_up_and_told_nothing_is_not_kept() -> None:
    """All messages of it are held: it may be mended."""
    registry = table(Asked("a", {1: ROW, 2: OTHER}), Bound())
    registry.schema(1)
    registry.schema(2)

    registry.used.add("id:00000001")

    assert registry.kept == {"id:00000001": digest(ROW)}


def test_a_schema_that_another_process_has_bound_meanwhile_is_held_against_the_one_that_was_read() -> None:
    """Two registries at once: whoever comes second is told before its rows are published."""
    registry = table(Asked("b", {2: OTHER}), Bound())
    registry.schema(2)
    registry.hold_against(bound("a", {2: ROW}))
    registry.used.add("id:00000002")
    registry.hold_against(bound("a", {1: ROW, 2: OTHER}))

    with pytest.raises(SchemaReplaced, match="id:2"):
        registry.hold_against(bound("a", {2: ROW}))


def test_what_nobody_can_read_binds_nothing() -> None:
    """A registry gives no text where its answer is none, or too long; its messages are held until it is mended."""
    broken, known = table(Unread("a", {1: ROW}), Bound()), digest(ROW)

    assert broken.schema(1) is not None
    assert broken.met == {}
    mended = table(Asked("a", {1: ROW}), Bound().with_met("a", broken.met))
    assert mended.schema(1) is not None
    assert mended.met == {"id:00000001": known}


def test_a_name_that_is_made_of_its_schema_is_not_remembered() -> None:
    """A fingerprint names all schemas that differ in words alone, of which the registry may find another each time."""

    class Whatever(Asked):
        def schema(self, wanted: Wanted) -> RegisteredSchema | None:
            return RegisteredSchema(wanted, "AVRO", json.dumps(ROW))

    found = table(Whatever("a", {}), Bound())
    found.schema(SchemaName("fingerprint", "00" * 8, subject="orders-value"))
    found.schema(SchemaName("id", "00000007", told="00"))

    assert found.met == {"id:00000007": digest(ROW)}
