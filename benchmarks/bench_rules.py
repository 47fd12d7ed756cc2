"""What rules cost: one run of the same topic under twenty rules about rows, and under none.

No rule is broken, so both runs end with the same table; their digests are compared. Twenty rules are to cost less than
a tenth of the run without.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import Cost, cdcm, digest, in_pairs, machine
from benchmarks.orders import COLUMNS, TOPIC, write_orders

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


def prepare(folder: Path, topic: Path, *, with_rules: bool) -> None:
    """Write a pipeline into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    registry = {"registry": {"files": str(topic / "schemas")}} if (topic / "schemas").exists() else {}
    pipeline = {
        "name": "bench",
        "source": {"files": str(topic / "recorded")},
        **registry,
        "tables": [{"topic": TOPIC, "mirror": MIRROR, "contract": "orders.yaml"}],
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    (folder / "orders.yaml").write_text(yaml.safe_dump(contract(with_rules=with_rules)), encoding="utf-8")


def main() -> int:
    """Measure, print one JSON document, and end with 1 where the rules cost more than they may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--encoding", choices=["avro", "json"], default="avro")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    work = asked.folder.resolve()
    topic = write_orders(work, asked.changes, asked.encoding)
    digests: set[str] = set()

    def run(name: str, *, with_rules: bool) -> Cost:
        folder = work / f"rules-{name}"
        prepare(folder, topic, with_rules=with_rules)
        cost = cdcm("run", "--json", folder=folder)
        digests.add(digest(folder, MIRROR, "id"))
        sys.stderr.write(f"{name}: {cost.wall:.1f} s, {cost.cpu:.1f} CPU-s\n")
        return cost

    measured = in_pairs(lambda: run("off", with_rules=False), lambda: run("on", with_rules=True), asked.pairs)
    told = {
        "benchmark": "rules",
        "changes": asked.changes,
        "encoding": asked.encoding,
        "rules": len(RULES),
        "limit": LIMIT,
        "same_table": len(digests) == 1,
        **machine(),
        **measured.as_json(("off", "on")),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    cost = measured.ratio(lambda cost: cost.cpu)[1]
    return 0 if len(digests) == 1 and cost < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
