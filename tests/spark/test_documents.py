"""MongoDB's updates applied on documents: each is made here first, and told as the server tells it."""

import copy
import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from cdc_materializer.changes import documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NAMES = ("a", "b", "c", "0", "1", 'q"\\', "é", "$ref")
_SEEDS, _UPDATES = 200, 12
#: As the connector writes documents.
_SEPARATORS = (",", ": ")


_LEAVES: tuple[Any, ...] = (
    *(None, True, 7, 1.25, 'x "y" \\ \n ü', [], {}),
    *({"$numberLong": "9007199254740993"}, {"$date": 5}, {"$oid": "5a"}),
)


def _leaf(chance: random.Random) -> Any:  # noqa: ANN401 - JSON
    return copy.deepcopy(chance.choice(_LEAVES))


def _value(chance: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    kind = chance.randrange(4) if depth < 3 else 0
    if kind == 1:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 2:
        return {name: _value(chance, depth + 1) for name in chance.sample(_NAMES, chance.randrange(4))}
    return _leaf(chance)


def _is_value(node: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(node, dict) and next(iter(node), "").startswith("$") and next(iter(node)) != "$ref"


def _places(node: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - JSON
    """Everything that a path can lead to, with its path."""
    found = [(path, node)]
    if _is_value(node):
        return found
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, part in pairs:
        found += _places(part, (*path, str(name)))
    return found


def _updated(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Change a document, and give what the server says of that."""
    told: dict[str, Any] = {"cut": None, "unset": None, "set": None}
    path, node = chance.choice([place for place in _places(document) if not _is_value(place[1])])
    if isinstance(node, list):
        if node and chance.random() < 0.5:
            size = chance.randrange(len(node))
            del node[size:]
            told["cut"] = [{"field": ".".join(path), "size": size}]
        at, value = chance.randrange(len(node) + 3), _value(chance)
        node.extend([None] * (at + 1 - len(node)))
        node[at] = value
        told["set"] = {".".join((*path, str(at))): value}
    elif isinstance(node, dict):
        gone = [name for name in node if name != "_id" and chance.random() < 0.3]
        for name in gone:
            del node[name]
        told["unset"] = [".".join((*path, name)) for name in gone] or None
        new = {name: _value(chance) for name in chance.sample(_NAMES, chance.randrange(3)) if name not in gone}
        if _is_value(node | new):
            new = {}
        node |= new
        told["set"] = {".".join((*path, name)): value for name, value in new.items()}
    told["set"] = None if told["set"] is None else _text(told["set"])
    return told


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, separators=_SEPARATORS, ensure_ascii=False)


def _life(seed: int) -> tuple[list[str], list[str]]:
    """A document after each of its updates, the first before all, and the updates."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    document = {"_id": seed, **{name: _value(chance) for name in chance.sample(_NAMES[:-1], 4)}}
    texts, updates = [_text(document)], []
    for _ in range(_UPDATES):
        updates.append(_text(_updated(document, chance)))
        texts.append(_text(document))
    return texts, updates


def test_a_document_is_what_the_server_made_of_it(spark: "SparkSession") -> None:
    """Update by update from the document before, and all in their order from the first."""
    lives = {seed: _life(seed) for seed in range(_SEEDS)}
    rows = [
        (seed, at, texts[at], update, texts[at + 1])
        for seed, (texts, updates) in lives.items()
        for at, update in enumerate(updates)
    ]
    frame = spark.createDataFrame(rows, "seed int, at int, before string, patch string, after string").repartition(4)
    ordered = Window.partitionBy("seed").orderBy("at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    first = F.when(F.col("at") == 0, F.col("before"))
    found = frame.select(
        "after",
        documents.updated(F.col("before"), F.col("patch")).alias("one"),
        documents.in_order(first, F.col("patch")).over(ordered).alias("all"),
    ).collect()

    assert len(found) == _SEEDS * _UPDATES
    assert [row for row in found if row["one"] != row["after"]] == []
    assert [row for row in found if row["all"] != row["after"]] == []


@pytest.mark.parametrize(
    ("document", "update"),
    [
        ("no JSON", {"set": '{"a": 1}'}),
        ('{"a": 1} x', {"set": '{"a": 1}'}),
        ('{"a": 1', {"set": '{"a": 1}'}),
        ('{"a": 1,}', {"set": '{"a": 1}'}),
        ("[1]", {"set": '{"0": 1}'}),
        ("{" * 10_000, {"set": '{"a": 1}'}),
        ('{"a": ' + "[" * 10_000, {"set": '{"a": 1}'}),
        ('{"a": "\\u12', {"set": '{"a": 1}'}),
        ('{"a": 1, "a": 2}', {"set": '{"a": 1}'}),
        ('{"a": {"b": 1}, "a.b": 2}', {"set": '{"a.b": 1}'}),
        ('{"a": {"b.c": 1, "b": {}}}', {"unset": ["a.b.c"]}),
        ('{"a": {"b": {}}, "a.b": {"c": 1}}', {"set": '{"a.b.c": 1}'}),
        ('{"a": 1}', {"set": '{"a.b": 1}'}),
        ('{"a": [1]}', {"set": '{"a.b": 1}'}),
        ('{"a": [1]}', {"set": '{"a.01": 1}'}),
        ('{"a": [1]}', {"set": '{"a.99999999999": 1}'}),
        ('{"a": [1]}', {"set": '{"a.2000000": 1}'}),
        ('{"a": [], "b": []}', {"set": '{"a.900000": 1, "b.900000": 1}'}),
        ('{"a": [1]}', {"unset": ["a.0"]}),
        ('{"a": 1}', {"set": '{"b.c": 1}'}),
        ('{"a": 1}', {"set": '{"": 1}'}),
        ('{"a": 1}', {"set": '{"a..b": 1}'}),
        ('{"a": {"$numberLong": "1"}}', {"set": '{"a.$numberLong": 1}'}),
        ('{"a": [1]}', {"cut": [{"field": "a"}]}),
        ('{"a": 1}', {"cut": [{"field": "a", "size": 0}]}),
        ('{"a": 1}', {"cut": [{"field": "b", "size": 0}]}),
        ('{"a": [1]}', {"cut": [{"field": "a", "size": -1}]}),
        ('{"a": 1}', {"set": "no JSON"}),
    ],
)
def test_what_does_not_fit_is_unknown(spark: "SparkSession", document: str, update: dict[str, Any]) -> None:
    """Rather than guessed."""
    frame = spark.createDataFrame([(document, json.dumps(update))], "before string, patch string")

    assert frame.select(documents.updated(F.col("before"), F.col("patch"))).collect()[0][0] is None


@pytest.mark.parametrize(("length", "is_known"), [(30_000_000, True), (34_000_000, False)])
def test_a_document_ends_where_no_servers_goes_on(spark: "SparkSession", length: int, is_known: bool) -> None:  # noqa: FBT001 - a table of lengths
    """Updates of a few bytes could make one of any length, and memory ends."""
    document = F.concat(F.lit('{"a": "'), F.repeat(F.lit("x"), F.lit(length)), F.lit('"}'))
    after = documents.updated(document, F.lit(json.dumps({"set": '{"b": 1}'})))

    assert spark.range(1).select(after.isNotNull()).collect()[0][0] is is_known


def test_many_changes_take_no_longer_than_their_number(spark: "SparkSession") -> None:
    """Of a message that sets or removes each of a document's fields; a search for each would take minutes."""
    names = [f"f{at}" for at in reversed(range(60_000))]
    document = json.dumps(dict.fromkeys(reversed(names), 1))
    updates = ({"set": json.dumps(dict.fromkeys(names, 2))}, {"unset": names})
    rows = [(document, json.dumps(update)) for update in updates]
    frame = spark.createDataFrame(rows, "before string, patch string")
    begun = time.monotonic()
    found = frame.select(documents.updated(F.col("before"), F.col("patch")).alias("after")).collect()

    assert [row["after"] for row in found] == [document.replace(": 1", ": 2"), "{}"]
    assert time.monotonic() - begun < 20
