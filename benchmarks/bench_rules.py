"""What rules cost: one run of the same topic under twenty rules about rows, and under none.

No rule is broken, so both runs end with the same table; their digests are compared. Twenty rules are to cost less than
a tenth of the run without. With `--warm` all runs share a session, as those of `cdcm run --follow` do: what it takes to
start Java, Spark and Great Expectations is in neither.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import Cost, Pairs, cdcm, digest, in_pairs, in_session, machine, options, session
from benchmarks.orders import COLUMNS, TOPIC, write_orders
from cdc_materializer import run_once
from cdc_materializer.config import load_config

MIRROR = "shop.orders"
#: What twenty rules may cost, as a ratio.
LIMIT = 1.10

_STATES = {"value_set": ["new", "paid", "shipped", "returned"]}
#: Twenty rules of all kinds, all kept: column, expectation, arguments.
RULES: list[tuple[str | None, str, dict[str, Any]]] = [
    ("customer_id", "expect_column_values_to_be_between", {"min_value": 1, "max_value": 50_000}),
    ("customer_id", "expect_column_values_to_not_be_null", {}),
    ("state", "expect_column_values_to_be_in_set", _STATES),
    ("state", "expect_column_values_to_not_be_null", {}),
    ("state", "expect_column_value_lengths_to_be_between", {"min_value": 3, "max_value": 8}),
    ("amount", "expect_column_values_to_be_between", {"min_value": 0, "max_value": 99_999.99}),
    ("amount", "expect_column_values_to_not_be_null", {}),
    ("fee", "expect_column_values_to_be_between", {"min_value": 0, "max_value": 5_000}),
    ("qty", "expect_column_values_to_be_between", {"min_value": 0, "strict_min": True}),
    ("qty", "expect_column_values_to_not_be_in_set", {"value_set": [0, -1, 999]}),
    ("country", "expect_column_value_lengths_to_equal", {"value": 2}),
    ("country", "expect_column_values_to_match_regex", {"regex": "^[A-Z]{2}$"}),
    ("email", "expect_column_values_to_match_regex", {"regex": "^[^@]+@[^@]+$"}),
    ("email", "expect_column_values_to_not_match_regex", {"regex": " "}),
    ("note", "expect_column_value_lengths_to_be_between", {"max_value": 200}),
    ("placed_at", "expect_column_values_to_be_between", {"min_value": "2020-01-01T00:00:00"}),
    ("due", "expect_column_values_to_be_between", {"min_value": "2020-01-01", "max_value": "2099-12-31"}),
    ("is_gift", "expect_column_values_to_not_be_null", {}),
    (None, "expect_column_pair_values_a_to_be_greater_than_b",
     {"column_A": "amount", "column_B": "fee", "or_equal": True, "ignore_row_if": "either_value_is_missing"}),
    ("fee", "expect_column_values_to_not_be_null",
     {"row_condition": "cast(amount * 100 as bigint) % 3 <> 0", "condition_parser": "spark"}),
]  # fmt: skip


def contract(*, with_rules: bool) -> dict[str, Any]:
    """The contract of the orders, with the rules or with the columns alone."""
    columns = [
        {"name": name, "physicalType": physical, **({"primaryKey": True} if name == "id" else {})}
        for name, (physical, _) in COLUMNS.items()
    ]
    rules = [
        {
            "name": f"rule-{number}",
            "type": "custom",
            "engine": "greatExpectations",
            "implementation": {"type": expectation, "kwargs": {**kwargs, **({"column": column} if column else {})}},
        }
        for number, (column, expectation, kwargs) in enumerate(RULES, 1)
    ]
    table = {"name": "orders", "properties": columns, **({"quality": rules} if with_rules else {})}
    head = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
    return {**head, "schema": [table]}


def prepare(folder: Path, topic: Path, *, with_rules: bool, records_max: int | None = None) -> None:
    """Write a pipeline into an empty folder; `records_max` is the most messages of a batch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    registry = {"registry": {"files": str(topic / "schemas")}} if (topic / "schemas").exists() else {}
    batches = {} if records_max is None else {"records_max": records_max}
    pipeline = {
        "name": "bench",
        "source": {"files": str(topic / "recorded")},
        **registry,
        "tables": [{"topic": TOPIC, "mirror": MIRROR, "contract": "orders.yaml", **batches}],
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    (folder / "orders.yaml").write_text(yaml.safe_dump(contract(with_rules=with_rules)), encoding="utf-8")


@contextmanager
def ways_to_run(work: Path, topic: Path, *, is_warm: bool) -> Iterator[Callable[[Path], Cost]]:
    """What runs the pipeline of a folder and measures it: a process of its own, or one session for all."""
    if not is_warm:
        yield lambda folder: cdcm("run", "--json", folder=folder)
        return
    prepare(work / "rules-session", topic, with_rules=False)
    with session(load_config(work / "rules-session" / "pipeline.yaml")) as spark:

        def run(folder: Path) -> None:
            report = run_once(load_config(folder / "pipeline.yaml"), spark)
            if report.exit_code:
                raise RuntimeError(f"the run ended with {report.exit_code}: {report.tables[0].error}")

        yield lambda folder: in_session(spark, lambda: run(folder))


def measure(work: Path, topic: Path, pairs: int, *, is_warm: bool) -> tuple[Pairs, bool]:
    """Measure runs without rules and with them in turns; whether all ended with the same table."""
    digests: set[str] = set()
    with ways_to_run(work, topic, is_warm=is_warm) as run:

        def one(name: str) -> Cost:
            folder = work / f"rules-{name}"
            prepare(folder, topic, with_rules=name == "on")
            cost = run(folder).told(name)
            digests.add(digest(folder, MIRROR, "id"))
            return cost

        measured = in_pairs(lambda: one("off"), lambda: one("on"), pairs)
    return measured, len(digests) == 1


def main() -> int:
    """Measure, print one JSON document, and end with 1 where the rules cost more than they may."""
    parser = options(__doc__, pairs=5)
    parser.add_argument("--warm", action="store_true", help="in one session for all runs")
    asked = parser.parse_args()
    work = asked.folder.resolve()
    topic = write_orders(work, asked.changes, asked.encoding)
    measured, is_same = measure(work, topic, asked.pairs, is_warm=asked.warm)
    told = {
        "benchmark": "rules",
        "changes": asked.changes,
        "encoding": asked.encoding,
        "session": "one for all" if asked.warm else "one a run",
        "rules": len(RULES),
        "limit": LIMIT,
        "same_table": is_same,
        **machine(),
        **measured.as_json(("off", "on")),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    cost = measured.ratio(lambda cost: cost.cpu)[1]
    return 0 if is_same and cost < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
