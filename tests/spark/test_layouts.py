"""Every format against the model database: the same lives, as each producer writes them, give what the database holds.

A few lives share one table a format, with keys of their own and crashes on the way; all tables go side by side, each in
several batches. Formats without positions have one order, that of the topic, so no key of theirs changes its partition.
With CDCM_TESTS=all there are more lives and more batches; with CDCM_SEED=17 the first of them is that one.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.changes import formats
from cdc_materializer.changes.formats import find, known
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import Code
from cdc_materializer.report.models import TableRun
from cdc_materializer.run.run import run_once
from tests.model.history import lives, table_after
from tests.model.layouts import (
    BareFlat,
    BareKeys,
    Flat,
    IcebergCdc,
    Layout,
    Mongo,
    MongoColumns,
    MongoUpdates,
    PlainFlat,
    PlainMongo,
    Upsert,
)
from tests.model.telling import Telling
from tests.model.untyped_layouts import TYPES, Canal, Dms, GoldenGate, MadeUp, Maxwell, OpenCdc
from tests.spark.marks import FOURTH_TURN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, FOURTH_TURN]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Lives of a table, and events of each.
_LIVES, _EVENTS = (200, 40) if _ALL else (20, 10)
#: A format without a place for deletes, one whose changes of a key are one message, and one with updates of the row.
_CUT = ("bare_flat", "maxwell", "mongo_updates")
_INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_BY_TIME = frozenset({str(Code.ORDER_AMBIGUOUS)})
#: A batch may read an update that leaves a value out before its row, which lies in another partition.
_AHEAD = frozenset({str(Code.UNAVAILABLE_NO_BASE)})
#: What a contract says of documents without a schema.
_DOCUMENTS = {"id": "text", "document": "text"}
#: Every way to lay out a change, by a name for its table.
LAYOUTS: Mapping[str, Layout] = {
    "envelope": Layout(),
    "flat": Flat("debezium-flat"),
    # Its deletes are tombstones: where a key has moved, only times place them.
    "bare_flat": BareFlat("debezium-flat", doubts=_AHEAD | _BY_TIME),
    "plain_flat": PlainFlat("debezium-flat", is_placed=False, contract=TYPES),
    "upsert": Upsert("upsert", is_placed=False),
    "iceberg_cdc": IcebergCdc("iceberg-cdc", is_placed=False),
    "mongo": Mongo(),
    "maxwell": Maxwell("maxwell", contract=TYPES, doubts=_BY_TIME),
    "canal": Canal("canal", is_placed=False, contract=TYPES),
    "dms": Dms("dms", contract=TYPES, doubts=_BY_TIME),
    "goldengate": GoldenGate("goldengate", contract=TYPES),
    "opencdc": OpenCdc("opencdc", is_placed=False, contract=TYPES),
    "made_up": MadeUp("made-up", contract=TYPES),
    "mongo_updates": MongoUpdates(),
    "bare_keys": BareKeys("upsert", {"key": ["id"]}, is_placed=False),
    "plain_mongo": PlainMongo(contract=_DOCUMENTS),
    "mongo_columns": MongoColumns(contract={**TYPES, "id": "text"}),
}


@contextmanager
def _interpreting(spark: "SparkSession") -> Iterator[None]:
    """Let new sessions interpret: every format has plans of its own, and to compile them takes minutes.

    CDCM_TESTS=all compiles them, as users' runs do. A new session takes its settings from Spark's own.
    """
    settings = spark.sparkContext._jsc.sc().conf()
    before = {name: settings.get(name) if settings.contains(name) else None for name in _INTERPRETED}
    for name, value in ({} if _ALL else _INTERPRETED).items():
        settings.set(name, value)
    yield
    for name, was in before.items():
        _ = settings.remove(name) if was is None else settings.set(name, was)


def _contract(name: str, types: Mapping[str, str]) -> dict[str, Any]:
    properties = [
        {"name": column, "physicalType": kind, "primaryKey": column == "id"} for column, kind in types.items()
    ]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": name, "name": name, "version": "1.0.0"}
    return {**head, "status": "active", "schema": [{"name": name, "properties": properties}]}


def _telling(at: int, name: str, layout: Layout) -> Telling:
    seeds = range(_FIRST_SEED + at * _LIVES, _FIRST_SEED + (at + 1) * _LIVES)
    partitions = (2, 3) if layout.is_placed else (2, 2)
    return Telling(seeds, lives(seeds, _EVENTS), 2 * _LIVES, partitions, layout, name)


def _batches(name: str) -> int:
    """In how many batches a table goes: several cost most of the time, and by default three formats show them."""
    return 6 if _ALL else 2 if name in _CUT else 1


def _entry(telling: Telling, folder: Path) -> dict[str, Any]:
    """The table's entry in pipeline.yaml, with its contract written."""
    entry = telling.entry() | {"records_max": len(telling.builder.messages) // _batches(telling.name) + 1}
    if telling.layout.contract:
        path = folder / f"{telling.name}.contract.yaml"
        path.write_text(yaml.safe_dump(_contract(telling.name, telling.layout.contract), sort_keys=False))
        entry["contract"] = str(path)
    return entry


@pytest.fixture(scope="module")
def tellings() -> dict[str, Telling]:
    """Each layout's lives, by its name."""
    return {name: _telling(at, name, layout) for at, (name, layout) in enumerate(LAYOUTS.items())}


@pytest.fixture(scope="module")
def runs(
    tellings: dict[str, Telling], spark: "SparkSession", lake_config: Config, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TableRun]:
    """What one run of all tables says of each, among them one whose format is a file that was added."""
    folder, path = lake_config.root / "layouts", lake_config.root / "layouts.yaml"
    added = tmp_path_factory.mktemp("formats")
    text = (Path(__file__).parents[1] / "data" / "made_up_format.py").read_text(encoding="utf-8")
    (added / "made_up.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, _interpreting(spark):
        patch.setattr(formats, "__path__", [*formats.__path__, str(added)])
        find.cache_clear()
        for telling in tellings.values():
            telling.builder.write(folder)
        entries = [_entry(telling, folder) for telling in tellings.values()]
        path.write_text(yaml.safe_dump({"name": "layouts", "source": {"files": "layouts"}, "tables": entries}))
        report = run_once(load_config(path), spark)
    find.cache_clear()
    return {entry.table.rpartition(".")[2]: entry for entry in report.tables}


def test_every_format_has_its_layout() -> None:
    """So that one that is added has to be written here too."""
    assert {layout.format for layout in LAYOUTS.values()} - {"made-up"} == set(known())


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_mirror_is_its_database(
    name: str, tellings: dict[str, Telling], runs: dict[str, TableRun], spark: "SparkSession"
) -> None:
    """Whatever is sent again and wherever a batch ends; and nothing of it is held or doubted.

    But for rows that a producer sends again without saying that they are old (`Layout.gone_back`).
    """
    telling, run = tellings[name], runs[name]
    expected = table_after(telling.events, len(telling.events))

    assert run.error is None
    assert run.batches == _batches(name)
    assert run.read == len(telling.builder.messages)
    assert run.violations.keys() <= telling.layout.doubts
    assert (run.replayed > 0) == telling.layout.is_placed
    assert telling.difference(spark, expected) == {}
    assert expected
