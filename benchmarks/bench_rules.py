"""What rules cost: one run of the same topic under twenty rules about rows, and under none.

No rule is broken, so both runs end with the same table; their digests are compared. Twenty rules are to cost less than
a tenth of the run without. With `--warm` all runs share a session, as those of `cdcm run --follow` do: what it takes to
start Java, Spark and Great Expectations is in neither. Behind them Great Expectations judges the mirror's rows by the
same rules, as its documentation shows: that is to cost four times what the rules cost in our runs.
"""

import json
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.measure import Cost, Pairs, cdcm, digest, in_pairs, in_session, machine, options, session
from benchmarks.orders import COLUMNS, TOPIC, write_orders
from benchmarks.steps import watched
from cdc_materializer import run_once
from cdc_materializer.config import load_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIRROR = "shop.orders"
#: What twenty rules may cost, as a ratio.
LIMIT = 1.10
#: What Great Expectations as its documentation shows it is to cost at least, as a multiple of what ours cost.
DOCUMENTED = 4.0

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


@dataclass(frozen=True)
class Measured:
    """What the rules cost.

    Attributes:
        runs: without rules, and with them.
        is_same: whether all ended with the same table.
        documented: of one session for all, what Great Expectations alone takes to judge the mirror's rows.
        steps_cpu: of one session for all, the CPU-seconds of each step of a batch, the median of each way's runs.
    """

    runs: Pairs
    is_same: bool
    documented: tuple[Cost, ...] = ()
    steps_cpu: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def multiple(self) -> float | None:
        """What Great Expectations alone costs, as a multiple of what our rules do; None where theirs do not show."""
        ours = statistics.median(on.cpu - off.cpu for off, on in zip(self.runs.first, self.runs.second, strict=True))
        if not self.documented or ours <= 0:
            return None
        return round(statistics.median(cost.cpu for cost in self.documented) / ours, 2)

    def as_json(self) -> dict[str, object]:
        """As a document: seconds by way, and ratios."""
        return {
            "same_table": self.is_same,
            **self.runs.as_json(("off", "on")),
            "steps_cpu": self.steps_cpu,
            "documented_cpu": [round(cost.cpu, 2) for cost in self.documented],
            "documented_multiple_of_ours": self.multiple(),
        }

    def is_kept(self) -> bool:
        """Whether the rules cost as little as they may, in runs that ended with the same table."""
        multiple = self.multiple()
        cheap = self.runs.ratio(lambda cost: cost.cpu)[1] < LIMIT
        return self.is_same and cheap and (multiple is None or multiple >= DOCUMENTED)


def judge_as_documented(rows: "DataFrame") -> None:
    """Judge rows by the rules with Great Expectations alone: a data frame of a batch, a suite, a validation.

    Raises:
        RuntimeError: a rule is broken; none is, of rows that the runs have published.
    """
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_spark("orders").add_dataframe_asset("rows")
    suite = context.suites.add(gx.ExpectationSuite("orders"))
    for column, expectation, kwargs in RULES:
        kind = getattr(gx.expectations, "".join(word.capitalize() for word in expectation.split("_")))
        suite.add_expectation(kind(**kwargs, **({"column": column} if column else {})))
    whole = asset.add_batch_definition_whole_dataframe("all")
    definition = gx.ValidationDefinition(name="orders", data=whole, suite=suite)
    if not context.validation_definitions.add(definition).run(batch_parameters={"dataframe": rows}).success:
        raise RuntimeError("Great Expectations found a rule broken that no row breaks.")


def _run(folder: Path, spark: "SparkSession") -> None:
    report = run_once(load_config(folder / "pipeline.yaml"), spark)
    if report.exit_code:
        raise RuntimeError(f"the run ended with {report.exit_code}: {report.tables[0].error}")


def measure(work: Path, topic: Path, pairs: int, run: Callable[[Path, str], Cost]) -> tuple[Pairs, bool]:
    """Measure runs without rules and with them in turns; whether all ended with the same table."""
    digests: set[str] = set()

    def one(name: str) -> Cost:
        folder = work / f"rules-{name}"
        prepare(folder, topic, with_rules=name == "on")
        cost = run(folder, name).told(name)
        digests.add(digest(folder, MIRROR, "id"))
        return cost

    measured = in_pairs(lambda: one("off"), lambda: one("on"), pairs)
    return measured, len(digests) == 1


def measure_cold(work: Path, topic: Path, pairs: int) -> Measured:
    """Each run in a process of its own."""
    return Measured(*measure(work, topic, pairs, lambda folder, _: cdcm("run", "--json", folder=folder)))


def measure_warm(work: Path, topic: Path, pairs: int) -> Measured:
    """All runs in one session, and behind them Great Expectations alone, after one time that does not count."""
    folder = work / "rules-session"
    prepare(folder, topic, with_rules=False)
    with session(load_config(folder / "pipeline.yaml")) as spark:
        by_step: dict[str, dict[str, list[float]]] = {"off": {}, "on": {}}

        def run(folder: Path, name: str) -> Cost:
            with watched(spark) as steps:
                cost = in_session(spark, lambda: _run(folder, spark))
            for step in steps.costs:
                by_step[name].setdefault(step, []).append(steps.total(step).cpu)
            return cost

        found = measure(work, topic, pairs, run)
        _run(folder, spark)

        def documented() -> Cost:
            rows = spark.table(f"lake.{MIRROR}").select(*COLUMNS)
            return in_session(spark, lambda: judge_as_documented(rows)).told("documented")

        alone = [documented() for _ in range(1 + pairs)][1:]
    medians = {
        name: {step: round(statistics.median(cpu[1:]), 2) for step, cpu in steps.items()}
        for name, steps in by_step.items()
    }
    return Measured(*found, tuple(alone), medians)


def main() -> int:
    """Measure, print one JSON document, and end with 1 where the rules cost more than they may."""
    parser = options(__doc__, pairs=5)
    parser.add_argument("--warm", action="store_true", help="in one session for all runs")
    asked = parser.parse_args()
    work = asked.folder.resolve()
    topic = write_orders(work, asked.changes, asked.encoding)
    measured = (measure_warm if asked.warm else measure_cold)(work, topic, asked.pairs)
    told = {
        "benchmark": "rules",
        "changes": asked.changes,
        "encoding": asked.encoding,
        "session": "one for all" if asked.warm else "one a run",
        "rules": len(RULES),
        "limit": LIMIT,
        "documented_at_least": DOCUMENTED,
        **machine(),
        **measured.as_json(),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0 if measured.is_kept() else 1


if __name__ == "__main__":
    sys.exit(main())
