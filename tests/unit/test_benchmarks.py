"""What benchmarks work on: the same topic for the same seed, and a contract that says what they measure."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.bench_apply import Phase, misses, told
from benchmarks.bench_peers import difference
from benchmarks.bench_rules import RULES, Measured, contract
from benchmarks.measure import Cost, Pairs, command, in_pairs
from benchmarks.orders import COLUMNS, TOPIC, Encoding, write_orders
from benchmarks.peers.shop import Life
from benchmarks.plots import RESULTS, bars_of, draw
from benchmarks.reading import Reading, keep_events, reading_of
from benchmarks.steps import FLOOR, Steps
from benchmarks.traffic import COLUMNS as SENT
from benchmarks.traffic import SCHEMAS, VALUE_ID
from cdc_materializer.contract import load_contract
from tests.unit.contracts import problems_of

SQL = "org.apache.spark.sql.execution.ui.SparkListener"


@pytest.mark.parametrize("encoding", ["avro", "json"])
def test_a_topic_of_a_seed_is_always_the_same(tmp_path: Path, encoding: Encoding) -> None:
    """Equal arguments give equal bytes, another seed others; the first third are the rows that the rest changes."""
    one, two = (write_orders(tmp_path / name, 90, encoding) for name in ("one", "two"))
    other = write_orders(tmp_path / "one", 90, encoding, seed=1)

    texts = [(path / "recorded" / f"{TOPIC}.jsonl").read_text("utf-8") for path in (one, two, other)]
    keys = [json.loads(line)["key"] for line in texts[0].splitlines()]

    assert texts[0] == texts[1] != texts[2]
    assert len(keys) == 90
    assert set(keys[:30]) == set(keys)
    assert (one / "schemas").exists() == (encoding == "avro")


def test_a_command_is_measured_beside_processes_that_go_on(tmp_path: Path) -> None:
    """What it leaves behind is waited for; a broker that was there before it is not."""
    broker = subprocess.Popen(["sleep", "60"])
    try:
        script = "import subprocess; subprocess.Popen(['sleep', '1'])"
        cost = command(sys.executable, "-c", script, folder=tmp_path)
        assert 1 <= cost.wall < 50
        assert broker.poll() is None
    finally:
        broker.kill()
        broker.wait()


def test_the_rules_that_are_measured_are_twenty(tmp_path: Path) -> None:
    """All of them about rows of the table's twelve columns; without them the contract has the columns alone."""
    path = tmp_path / "orders.yaml"
    found = {}
    for with_rules in (True, False):
        path.write_text(yaml.safe_dump(contract(with_rules=with_rules)), encoding="utf-8")
        assert problems_of(path) == []
        found[with_rules] = load_contract(path)

    assert (len(found[True].row_rules), len(RULES), len(COLUMNS)) == (20, 20, 12)
    assert found[False].rules == ()
    assert found[True].columns == found[False].columns


def test_changes_in_avro_have_the_columns_of_those_in_json() -> None:
    """All but the key may be NULL, as a delete's `before` has them."""
    row = json.loads(SCHEMAS[VALUE_ID])["fields"][0]["type"][1]

    assert [field["name"] for field in row["fields"]] == list(SENT)
    assert [field["name"] for field in row["fields"] if not isinstance(field["type"], list)] == ["id"]


def test_costs_are_told_as_multiples_of_ours() -> None:
    """Batch by batch, by the median; what is held to a target names it."""
    ours = [Cost(1.0, 2.0), Cost(1.0, 1.0), Cost(2.0, 4.0)]
    costs = {"ours": ours, "tutorial": [Cost(2.0, 12.0), Cost(3.0, 3.0), Cost(2.0, 16.0)]}

    document = told(Phase("uniform", 8, costs, is_same=True))
    found = document["ways"]

    assert found["ours"]["multiple_of_ours"] == {"wall": 1.0, "cpu": 1.0}
    assert found["tutorial"]["multiple_of_ours"] == {"wall": 2.0, "cpu": 4.0}
    assert (found["tutorial"]["target"], "target" in found["ours"]) == (5.0, False)
    assert misses(document) == ["tutorial: 4.0 < 5.0"]
    assert document["changes_a_cpu_second"] == 4


def test_publishing_is_told_as_a_multiple_of_an_append_of_the_same_rows() -> None:
    """By the steps of each batch, a step that is taken twice as one; with the limit of such a batch."""
    append, publish = Cost(1.0, 1.0), [Cost(1.0, 2.0), Cost(1.0, 2.0)]
    steps = Steps({"publish": publish, FLOOR: [append]}, {"publish": 3})

    document = told(Phase("recent", 500_000, {"ours": [Cost(3.0, 6.0)]}, [steps], is_same=True))

    assert document["publish_as_multiple_of_append"] == {"wall": 2.0, "cpu": 4.0}
    assert document["steps"]["publish"] == {"wall": [2.0], "cpu": [4.0], "jobs": 3}
    assert misses(document) == ["publish: 4.0 > 2.5"]


def test_two_ways_are_measured_in_turns() -> None:
    """Each as often first as second, after one run of each that does not count; ratios are of pairs."""
    runs: list[str] = []

    def way(name: str, cpu: float) -> Cost:
        runs.append(name)
        return Cost(wall=1.0, cpu=cpu)

    measured = in_pairs(lambda: way("a", 2.0), lambda: way("b", 3.0), 2)

    assert "".join(runs) == "ab" + "ab" + "ba"
    assert measured.ratio(lambda cost: cost.cpu) == (1.5, 1.5, 1.5)


def test_what_was_read_is_told_by_sparks_own_events(tmp_path: Path) -> None:
    """The bytes of all tasks; the files of the scans of one table, whether Spark planned them at once or on the way."""

    def scan(table: str, number: int) -> dict[str, object]:
        metrics = [{"name": "number of result data files", "accumulatorId": number, "metricType": "sum"}]
        return {"nodeName": f"BatchScan {table}", "simpleString": "", "metrics": metrics, "children": []}

    def plan(event: str, *scans: dict[str, object]) -> dict[str, object]:
        above = {"nodeName": "Project a.raw", "simpleString": "", "metrics": [], "children": list(scans)}
        return {"Event": f"{SQL}{event}", "sparkPlanInfo": above}

    task = {"Event": "SparkListenerTaskEnd", "Task Metrics": {"Input Metrics": {"Bytes Read": 40}}}
    events = [
        plan("SQLExecutionStart", scan("a.raw", 1), scan("a.mirror", 2)),
        plan("SQLAdaptiveExecutionUpdate", scan("a.raw", 1), scan("a.raw", 3)),
        {"Event": f"{SQL}DriverAccumUpdates", "accumUpdates": [[1, 4], [2, 9], [3, 10]]},
        *[task, task, {"Event": "SparkListenerTaskEnd"}],
    ]
    (tmp_path / "pipeline.yaml").write_text("name: bench\n", encoding="utf-8")
    keep_events(tmp_path)
    (tmp_path / "events" / "local-1").write_text("\n".join(map(json.dumps, events)), encoding="utf-8")

    assert reading_of(tmp_path, "a.raw") == Reading(input_bytes=80, scans=(10, 4))


@pytest.mark.parametrize(
    ("on", "documented", "is_kept"),
    [(10.9, 4.0, True), (11.1, 9.0, False), (10.9, 3.5, False), (10.0, 1.0, True)],
)
def test_rules_are_held_to_both_limits(on: float, documented: float, *, is_kept: bool) -> None:
    """A tenth of the run, and a quarter of what Great Expectations takes alone; nothing, where they cost nothing."""
    runs = Pairs((Cost(1.0, 10.0),), (Cost(1.0, on),))

    measured = Measured(runs, is_same=True, documented=(Cost(1.0, documented),))

    assert measured.is_kept() is is_kept
    assert not Measured(runs, is_same=False, documented=measured.documented).is_kept()


def test_pictures_show_the_results() -> None:
    """Each result of `bench_apply` has its picture, drawn from the figures that are there; our steps add up to ours."""
    results = {path: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}
    applied = {path: document for path, document in results.items() if document["benchmark"] == "apply"}

    drawn = {path.with_suffix(".svg"): draw(document) for path, document in applied.items()}

    assert drawn
    assert {path: path.read_text("utf-8") for path in RESULTS.glob("*.svg")} == drawn, "python -m benchmarks.plots"
    kinds = [kind for document in applied.values() for kind in document["kinds"]]
    # Of two batches the middle is their mean, so that what steps have in the middle adds up.
    kind = next(kind for kind in kinds if len(kind["ways"]["ours"]["cpu"]) == 2)
    ours = next(parts for name, parts in bars_of(kind) if name.endswith("ours"))
    assert sum(seconds for _, seconds in ours) == pytest.approx(sum(sorted(kind["ways"]["ours"]["cpu"])) / 2)


def test_a_table_lives_the_same_life_for_a_seed() -> None:
    """Only rows that there are get changed, and the last change of a round inserts the row of the highest number."""
    lives = [[*life._statements(300), *life._statements(100)] for life in (Life(50, 1), Life(50, 1), Life(50, 2))]
    rows = {str(number) for number in range(50)}

    assert lives[0] == lives[1] != lives[2]
    for statement in lives[0]:
        number = re.search(r"VALUES \('(\d+)'|id = (\d+)$", statement)
        assert number is not None
        key = number[1] or number[2]
        assert (key in rows) == (number[1] is None)
        (rows.discard if statement.startswith("DELETE") else rows.add)(key)
    assert lives[0][-1].startswith(f"INSERT INTO public.orders VALUES ('{max(map(int, rows))}'")


def test_rows_that_differ_from_the_databases_are_told_apart() -> None:
    """Missing, of a key that is gone, twice, and with another value."""
    found = difference(["1|a", "2|b", "3|c"], ["1|a", "1|a", "2|x", "4|d"])
    same = difference(["1|a", "2|b"], ["2|b", "1|a"])

    assert {name: value for name, value in found.items() if name != "digest"} == {
        "equal": False,
        "rows": 4,
        "keys_missing": 1,
        "keys_the_database_does_not_have": 1,
        "keys_more_than_once": 1,
        "rows_with_other_values": 1,
    }
    assert same["equal"]
    assert sum(value for name, value in same.items() if name.startswith(("keys", "rows_"))) == 0
