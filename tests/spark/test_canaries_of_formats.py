"""Values planted in documents, in Protobuf, in swept rows and in tables that are written anew: nothing tells them.

Each kind has its own way to a violation. All go through a batch that holds them, one that is blocked, and a release.
"""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_BLOCKED
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.run.run import run_once
from tests.cases.case import Case
from tests.cases.recording import Recorder
from tests.cases.schemas import write_schemas
from tests.spark.canaries import CARD, MAIL, found_in, listening, logged, shown, summaries
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

_numbers = itertools.count()
_FORMS = (
    *(["report", "--format", form] for form in ("terminal", "json", "html", "markdown")),
    ["status", "--json"],
    ["quarantine", "list", "--status", "all", "--json"],
)
_ENVELOPE = {
    "before": "optional json",
    "after": "optional json",
    "updateDescription": "optional updatedescription",
    "source": "struct<connector:string,snapshot:string,ts_ms:int64,ord:int32,db:string,collection:string>",
    "op": "string",
}


def _document(key: str, at: int, after: str | None = None, changed: str | None = None) -> dict[str, Any]:
    """A change of MongoDB, with the document or with what it changed of the one before."""
    source = {"connector": "mongodb", "snapshot": "false", "ts_ms": at, "ord": 1, "db": "shop", "collection": "people"}
    told = {"after": after} if changed is None else {"updateDescription": {"updatedFields": changed}}
    values = {"op": "c" if changed is None else "u", "source": source, **told}
    return {"key": key, "record": {"name": "s.Envelope", "columns": _ENVELOPE, "values": values}}


def _row(number: int, mail: str | None = None, card: str | None = None) -> dict[str, Any]:
    """A row whose note no rule is about."""
    return {"id": number, "mail": mail, "card": card, "note": MAIL}


_KEY = {"id": "int64"}
_COLUMNS = {**_KEY, "mail": "optional string", "card": "optional string", "note": "optional string"}
#: Each table's settings, what its topic is like, and its messages: before and after its rules are set to block.
_TABLES: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "documents": (
        {},
        {"key": {"id": "string"}, "columns": {"id": "string", "document": "json"}},
        [
            _document("1", 1000, f'{{"_id": 1,"mail": "{MAIL}"}}'),
            _document("2", 1000, changed=f'{{"mail": "{MAIL}"}}'),
            _document("3", 1000, '{"_id": 3,"a": 1}'),
            _document("3", 2000, changed=f'{{"card": "{CARD}"}}'),
            _document("3", 3000, changed=f'{{"a.b": "{MAIL}"}}'),
            _document("4", 1000, f"no JSON, but {MAIL}"),
            _document("4", 2000, changed=f'{{"card": "{CARD}"}}'),
        ],
        [_document("5", 4000, f'{{"_id": 5,"card": "{CARD}"}}')],
    ),
    "parcels": (
        {},
        {"encoding": "protobuf", "key": _KEY, "columns": _COLUMNS},
        [
            {"op": "c", "after": _row(1, MAIL, CARD)},
            {"op": "c", "after": _row(2, MAIL, CARD), "cut_off": 1},
            {"op": "c", "after": _row(3, MAIL, CARD), "append": "00"},
            {"key": 4, "op": "c", "after": _row(5)},
            {"op": "c", "after": _row(6)},
        ],
        [{"op": "u", "after": _row(6, MAIL)}],
    ),
    "swept": (
        {"snapshot_sweep": True},
        {"key": _KEY, "columns": _COLUMNS},
        [
            {"op": "r", "after": _row(1), "snapshot": "first", "lsn": 100},
            {"op": "r", "after": _row(2, MAIL), "lsn": 100},
            {"op": "r", "after": _row(3), "snapshot": "last", "lsn": 100},
            {"op": "c", "after": _row(4), "lsn": 200},
            {"op": "c", "after": _row(7, MAIL), "lsn": 200},
        ],
        [
            {"op": "r", "after": _row(1), "snapshot": "first_in_data_collection", "lsn": 600},
            {"op": "r", "after": _row(2, MAIL), "lsn": 600},
            {"op": "r", "after": _row(6, MAIL, CARD), "snapshot": "last_in_data_collection", "lsn": 600},
            {"op": "u", "after": _row(1, MAIL), "lsn": 700},
        ],
    ),
    "copied": (
        {"readers": ["databricks", "athena"]},
        {"key": _KEY, "columns": _COLUMNS},
        [
            {"op": "c", "after": _row(1)},
            {"op": "u", "after": _row(1, MAIL)},
            {"op": "c", "after": _row(2, None, CARD)},
            {"key": 3, "text": f"no JSON, but {MAIL} and {CARD}"},
        ],
        [{"op": "u", "after": _row(1, MAIL, CARD)}],
    ),
}


class _Shop:
    """A pipeline of all the tables, whose messages and contracts are written step by step."""

    def __init__(self, root: Path) -> None:
        self.space = f"kinds_{next(_numbers)}"
        self._root = root / self.space
        self._recorders = {
            name: Recorder(Case(name, 980 + at, topic, (), None), f"{self.space}.t.{name}")
            for at, (name, (_, topic, *_)) in enumerate(_TABLES.items())
        }

    def write(self, step: int | None, action: str, *, crashing: str | None = None) -> Config:
        """Append a step's messages, and put contracts in force whose rules have an action."""
        for name, recorder in self._recorders.items():
            for message in [*_TABLES[name][2:]][step] if step is not None else ():
                recorder.add(message)
            recorder.write(self._root / "recorded")
            write_schemas(self._root / "recorded" / "schemas", recorder.schemas(), recorder.other_schemas())
            _contract(self._root / f"{name}.yaml", name, action, crashes=name == crashing)
        tables = [
            {
                "topic": f"{self.space}.t.{name}",
                "mirror": self.mirror(name),
                "contract": f"{self.space}/{name}.yaml",
                **settings,
            }
            for name, (settings, *_) in _TABLES.items()
        ]
        recorded = f"{self.space}/recorded"
        sources = {"source": {"files": recorded}, "registry": {"files": f"{recorded}/schemas"}}
        # Beside the catalog that all tests share.
        path = self._root.parent / f"{self.space}.yaml"
        path.write_text(yaml.safe_dump({"name": "kinds", **sources, "tables": tables}), encoding="utf-8")
        return load_config(path)

    def mirror(self, name: str) -> str:
        """The name of a table's mirror."""
        return f"{self.space}.{name}"


def _contract(path: Path, name: str, action: str, *, crashes: bool) -> None:
    """Rules that a canary breaks in whatever column they are about; one that fails at a card, where asked for."""
    texts = ["document"] if name == "documents" else ["mail", "card"]
    key: dict[str, Any] = {"name": "id", "physicalType": "text" if name == "documents" else "bigint"}
    columns = [{"name": text, "physicalType": "text", "quality": [_no_canary(text, action)]} for text in texts]
    rest = [] if name == "documents" else [{"name": "note", "physicalType": "text"}]
    quality = [_CRASH] if crashes else []
    schema = [{"name": name, "properties": [{**key, "primaryKey": True}, *columns, *rest], "quality": quality}]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": name, "version": "1.0.0", "status": "active"}
    path.write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")


def _no_canary(column: str, action: str) -> dict[str, Any]:
    expectation = {"type": "expect_column_values_to_not_match_regex", "kwargs": {"regex": "canary|4111"}}
    return {
        "name": f"no-{column}",
        "type": "custom",
        "engine": "greatExpectations",
        "implementation": expectation,
        "customProperties": [{"property": "action", "value": action}],
    }


#: Spark's error of this cast has the value in it.
_CRASH: dict[str, Any] = {
    "name": "crash",
    "type": "custom",
    "engine": "greatExpectations",
    "implementation": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "mail", "row_condition": "cast(card as int) > 0", "condition_parser": "spark"},
    },
}


def test_values_planted_in_tables_of_all_kinds_are_in_no_output(
    spark: "SparkSession",
    lake_config: Config,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Documents and what updates say of them, Protobuf, rows that a snapshot ends, copies on write, and a release."""
    shop = _Shop(lake_config.root)
    with listening(caplog):
        held = run_once(shop.write(0, "quarantine"), spark)
        blocked = run_once(shop.write(1, "block", crashing="copied"), spark)
        config = shop.write(None, "warn")
        released = [release_held(config, shop.mirror(name), Wanted(), spark) for name in _TABLES]
        ended = run_once(config, spark)
        docs = lake_config.root / f"{shop.space}.docs"
        told = [text for form in _FORMS for text in shown(form, config, capsys)]
        told += shown(["report", "--data-docs", str(docs)], config, capsys)
        for name in _TABLES:
            told += shown(["quarantine", "show", shop.mirror(name), "0/1", "--json"], config, capsys)
    told += [one.to_json() for one in (held, blocked, *released, ended)] + logged(caplog)
    told += [text for table in config.tables for text in summaries(config, table.mirror)]
    told += [path.read_text("utf-8") for path in docs.iterdir()]

    assert {name: table.violations for name, table in zip(_TABLES, held.tables, strict=True)} == {
        "documents": {"CONTRACT": 3, "UNDECODABLE": 3},
        "parcels": {"CONTRACT": 2, "UNDECODABLE": 2, "KEY_VALUE_MISMATCH": 1},
        "swept": {"CONTRACT": 2},
        "copied": {"CONTRACT": 2, "UNDECODABLE": 1},
    }
    assert blocked.exit_code == EXIT_BLOCKED
    assert all(table.error is not None for table in blocked.tables)
    assert [one.released > 0 for one in released] == [True] * len(_TABLES)
    assert ended.exit_code == 0
    assert [name for name, table in zip(_TABLES, ended.tables, strict=True) if table.swept] == ["swept"]
    assert found_in(told) == []
