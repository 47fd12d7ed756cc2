"""Runs that are killed at chosen moments, each in a process of its own, and one that ends what they began.

The moments follow one another on one table, so that each run first repairs what the one before left, and is then killed
at the next moment. SIGKILL leaves no time for anything: no branch is dropped, no session closed.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from cdc_materializer.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.marker import MARKER_TAG
from cdc_materializer.names import TableName
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)

pytestmark = pytest.mark.spark

MIRROR = TableName.parse("shop.things")

#: The step that is killed when it is reached: a module, what is patched in it, and the table that it has to be about.
MOMENTS = {
    "raw made, not marked": ("lake", "Lake._mark", ""),
    "raw published": ("pipeline", "plan_folding", ""),
    "quarantine published": ("stops", "stop_if_asked", ""),
    "mirror staged": ("lake", "Lake._fast_forward", str(MIRROR)),
    "mirror published": ("quarantine", "resolve", ""),
}

#: Runs the pipeline as `cdcm run` does, with one step replaced by the end of the process.
DRIVER = """
import importlib, os, signal, sys
from pathlib import Path
from cdc_materializer.config import load_config
from cdc_materializer.run import run_once
from cdc_materializer.verify import verify_tables

path, module, step, about = sys.argv[1:]
if step:
    owner = importlib.import_module(f"cdc_materializer.{module}")
    *inner, name = step.split(".")
    for part in inner:
        owner = getattr(owner, part)
    original = getattr(owner, name)

    def die(*arguments, **options):
        if about and not any(str(getattr(argument, "name", "")) == about for argument in arguments):
            return original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, die)
config = load_config(Path(path))
report = run_once(config)
assert report.exit_code == 0, report
if not step:
    assert verify_tables(config).tables[0].equal
"""


@dataclass(frozen=True)
class Aftermath:
    """What the killed runs left, and what the last one made of it."""

    config: Config
    codes: dict[str, int]
    raw_counts: dict[str, int]
    last: subprocess.CompletedProcess[str]

    def rows(self, name: TableName) -> pa.Table:
        """The rows of a table, read without Spark."""
        table = open_tables(self.config.catalog).load(name)
        assert table is not None, name
        return table.scan().to_arrow()


def _write_topic(folder: Path) -> None:
    topic = TopicBuilder("shop.public.things")
    key = connect_key_schema("t", {"id": {"type": "int64", "optional": False}})
    number, text = (
        connect_envelope_schema(
            "t", {"id": {"type": "int64", "optional": False}, "price": {"type": kind, "optional": True}}
        )
        for kind in ("int32", "string")
    )
    changes: list[tuple[str, int, Any]] = [
        *[("c", 1, 10), ("c", 2, 20), ("u", 2, "held")],
        *[("u", 2, 21), ("d", 1, None), ("c", 3, "held too")],
        *[("c", 4, 40), ("c", 3, 30), ("c", 5, "held for good")],
    ]
    for at, (op, row, price) in enumerate(changes):
        before, after = (None, {"id": row, "price": price}) if op != "d" else ({"id": row, "price": None}, None)
        schema = text if isinstance(price, str) else number
        value = debezium_json(debezium_envelope(op, before, after, lsn=100 + at), schema)
        topic.add(debezium_json({"id": row}, key), value)
    topic.write(folder)


def _run(config: Config, driver: Path, moment: tuple[str, str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(driver), str(config.path), *moment]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """Run and be killed at each moment in turn, then run to the end."""
    root = tmp_path_factory.mktemp("crash")
    _write_topic(root / "recorded")
    tables = [{"topic": "shop.public.things", "mirror": str(MIRROR), "records_max": 3, "history": True}]
    path, driver = root / "pipeline.yaml", root / "driver.py"
    path.write_text(yaml.safe_dump({"name": "crash", "source": {"files": "recorded"}, "tables": tables}), "utf-8")
    driver.write_text(DRIVER, encoding="utf-8")
    config = load_config(path)
    codes, raw_counts = {}, {}
    for name, moment in MOMENTS.items():
        codes[name] = _run(config, driver, moment).returncode
        raw = open_tables(config.catalog).load(MIRROR.raw)
        raw_counts[name] = raw.scan().to_arrow().num_rows if raw is not None else 0
    return Aftermath(config, codes, raw_counts, _run(config, driver, ("", "", "")))


def test_every_run_was_killed_where_it_should(aftermath: Aftermath) -> None:
    """Otherwise the other tests would show nothing; each run that gets so far lands three more messages in raw."""
    assert aftermath.codes == dict.fromkeys(MOMENTS, -signal.SIGKILL)
    assert list(aftermath.raw_counts.values()) == [0, 3, 6, 9, 9]


def test_the_next_run_ends_what_the_killed_ones_began(aftermath: Aftermath) -> None:
    """It exits with 0, and `verify` finds the mirror equal."""
    assert aftermath.last.returncode == 0, aftermath.last.stderr[-2000:]


def test_the_mirror_equals_the_truth(aftermath: Aftermath) -> None:
    """Each row with its last good value, once."""
    rows = aftermath.rows(MIRROR).select(["id", "price"]).sort_by("id").to_pylist()

    assert rows == [{"id": 2, "price": 21}, {"id": 3, "price": 30}, {"id": 4, "price": 40}]


def test_raw_has_each_message_once(aftermath: Aftermath) -> None:
    """No message was landed twice and none was lost."""
    raw = aftermath.rows(MIRROR.raw).select(["partition", "offset"]).sort_by("offset").to_pylist()

    assert raw == [{"partition": 0, "offset": offset} for offset in range(9)]


def test_quarantine_has_no_message_twice(aftermath: Aftermath) -> None:
    """Each held message once, with the status that it has at the end."""
    held = aftermath.rows(MIRROR.quarantine).select(["offset", "code", "status"]).sort_by("offset").to_pylist()

    assert held == [
        {"offset": offset, "code": "SCHEMA_INCOMPATIBLE", "status": status}
        for offset, status in [(2, "superseded"), (5, "superseded"), (8, "open")]
    ]


def test_the_history_has_each_change_once(aftermath: Aftermath) -> None:
    """It is committed before the mirror; a run that comes back to a batch adds none of its changes again."""
    changes = aftermath.rows(MIRROR.history).sort_by("offset").to_pylist()
    prices = [[row and row["price"] for row in (change["before"], change["after"])] for change in changes]

    assert [(change["offset"], change["op"]) for change in changes] == [
        *[(0, "c"), (1, "c"), (3, "u"), (4, "d"), (6, "c"), (7, "c")]
    ]
    assert prices == [[None, 10], [None, 20], [20, 21], [10, None], [None, 40], [None, 30]]


def test_no_branch_is_left(aftermath: Aftermath) -> None:
    """What was staged by killed runs is dropped when the tables are next loaded."""
    lake = open_tables(aftermath.config.catalog)
    for name in (MIRROR, MIRROR.raw, MIRROR.quarantine, MIRROR.history):
        table = lake.load(name)
        assert table is not None
        assert set(table.refs()) == {"main", MARKER_TAG}
