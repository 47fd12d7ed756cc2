"""What is asked of Great Expectations 1.24.1, with the undocumented classes that it is asked through.

Everything here follows GX's own path from an expectation to a Spark condition, and stops before a job: the
expectation's map metric, the metric's provider for Spark, the functions of a row that it depends on (`.map` metrics),
and the filters that its engine puts on the rows. GX is imported when a function is called, never with this module.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.json_schemas import fitting
from cdc_materializer.contract.model import Rule
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.contract.table_rules import DUPLICATES, REFERENCES, ROW_CHANGE, ROW_COUNT, SQL, query_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Of all others GX takes nulls for no values, when it forms a share.
_NULLS_TOO = frozenset({"column_values.nonnull", "column_values.null"})
#: GX writes these providers' column names between backticks itself; all others want them quoted.
_QUOTES_ITSELF = frozenset({"multicolumn_sum.equal"})


def preload() -> None:
    """Import Great Expectations and its Spark metrics. Safe in a thread while Spark starts; later calls cost nothing.

    No data context is ever made, so nothing is sent or written; its log is limited to warnings, and there are no
    progress bars because no validator runs.
    """
    for module in ("core", "metrics"):  # importing them registers the expectations and the metrics
        import_module(f"great_expectations.expectations.{module}")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)


def unexpected(
    expectation: str, domain: dict[str, Any], values: dict[str, Any], names: Mapping[str, str], rows: "DataFrame"
) -> tuple["Column", "Column"]:
    """Return GX's unexpected condition, for the rows of GX's domain, and which rows these are; never null."""
    from great_expectations.expectations.registry import get_expectation_impl
    from pyspark.sql import functions as F

    implementation = get_expectation_impl(expectation)
    metric = str(getattr(implementation, "map_metric", ""))
    defaults = {key: info.default for key, info in implementation.__fields__.items()}
    whole_domain = {key: defaults.get(key) for key in ("row_condition", "condition_parser", "ignore_row_if")} | domain
    probe = _probe(names, rows, quoted=metric not in _QUOTES_ITSELF)
    metrics = _Metrics(probe, names, whole_domain)
    condition, compute_domain, accessor_domain = metrics.call(f"{metric}.condition", defaults | values)
    if metric == "column_values.match_json_schema":
        condition = _unlike_schema(F.col(domain["column"]), values["json_schema"])
    filters = probe.filters(compute_domain | accessor_domain)  # both: GX reads `ignore_row_if` with the columns' names
    looked_at = _all_of(filters)
    if "column" in domain and metric not in _NULLS_TOO:
        looked_at = looked_at & F.col(domain["column"]).isNotNull()
    return F.coalesce(_all_of([*filters, condition]), F.lit(False)), F.coalesce(looked_at, F.lit(False))


def _unlike_schema(value: "Column", schema: object) -> "Column":
    """GX's condition of a value that a JSON schema does not fit, as `jsonschema` has it for GX too.

    GX's own function ends the job at the first value that is no JSON, or that cannot be judged by the schema.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType

    is_fitting = fitting(schema)
    # Spark reads type hints that a function has, and warns of those that it does not know.
    fits = F.udf(lambda text: is_fitting(text), BooleanType())  # noqa: PLW0108
    unlike: Column = value.isNotNull() & ~fits(value)
    return unlike


def applies(domain: dict[str, Any], names: Mapping[str, str], rows: "DataFrame") -> "Column":
    """Return which rows a `row_condition` lets an expectation see, never null."""
    from pyspark.sql import functions as F

    return F.coalesce(_all_of(_probe(names, rows, quoted=True).filters(domain)), F.lit(False))


def aggregate(metric: str, column: str, rows: "DataFrame") -> "Column":
    """Return GX's aggregate of a column, such as ``column.max``.

    Args:
        metric: GX's name of it.
        column: a plain name.
        rows: has the column.
    """
    names = {column: rows.schema[column].dataType.simpleString()}
    probe = _probe(names, rows.select(column), quoted=False)
    found, _, _ = _Metrics(probe, names, {"column": column}).call(f"{metric}.aggregate_fn", {})
    return found


def is_met(expectation: str, kwargs: Mapping[str, Any], rows: "DataFrame") -> bool:
    """Let GX judge an expectation by its own jobs; no values are in what it answers, and nothing is logged.

    Args:
        expectation: its registered name.
        kwargs: its arguments; the members of a set are compared with the values as they are given.
        rows: what it is about.

    Raises:
        CannotBeJudged: a metric could not be had.
    """
    from great_expectations.execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.registry import get_expectation_impl
    from great_expectations.validator.metrics_calculator import MetricsCalculator

    told_as = {key: value if key == "value_set" else _as_yaml(value) for key, value in kwargs.items()}
    stated = get_expectation_impl(expectation)(**told_as)
    engine = SparkDFExecutionEngine(persist=False, spark=rows.sparkSession, batch_data_dict={"result": rows})
    told: dict[str, Any] = {"result_format": {"result_format": "BOOLEAN_ONLY"}}
    needed = stated.get_validation_dependencies(engine, told).get_metric_configurations()
    calculator = MetricsCalculator(engine, show_progress_bars=False)
    # Not `compute_metrics`, which logs what goes wrong, with the values in it.
    graph = calculator.build_metric_dependency_graph(needed, told)
    metrics, aborted = calculator.resolve_validation_graph(graph, told)
    if aborted:
        raise CannotBeJudged(expectation)
    return bool(stated.metrics_validate(metrics, told, engine).success)


class CannotBeJudged(Exception):
    """Raised when GX cannot tell whether an expectation is met."""


def _all_of(conditions: Sequence["Column"]) -> "Column":
    from pyspark.sql import functions as F

    return reduce(lambda left, right: left & right, conditions) if conditions else F.lit(True)


def check_arguments(rule: Rule) -> None:
    """Let GX's own model of the expectation check the arguments, as the contract states them."""
    from great_expectations.expectations.registry import get_expectation_impl

    get_expectation_impl(rule.expectation)(**_arguments(rule))


def _arguments(rule: Rule) -> dict[str, Any]:
    """A rule's arguments as GX's model of the expectation takes them."""
    known = ROW.get(rule.expectation) or TABLE[rule.expectation]
    column = {"column": rule.column} if known.columns == ("column",) else {}
    return {**column, **{key: _as_yaml(value) for key, value in rule.kwargs.items()}}


def result_of(rule: Rule, rows: int, broken: int) -> Any:  # noqa: ANN401 - a class of GX's
    """Hand numbers back to GX: its own result of an expectation about rows, with counts and without any value.

    Args:
        rule: a rule about rows.
        rows: how many were judged.
        broken: how many of them break it.
    """
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import get_expectation_impl

    arguments, implementation = _arguments(rule), get_expectation_impl(rule.expectation)
    metric = str(getattr(implementation, "map_metric", ""))
    metrics = {
        "table.row_count": rows,
        "column_values.nonnull.unexpected_count": 0,
        f"{metric}.unexpected_count": broken,
        f"{metric}.filtered_row_count": rows,
    }
    found = implementation(**arguments)._validate(  # noqa: SLF001 - where GX makes a verdict of metrics
        metrics=metrics,
        runtime_configuration={"result_format": {"result_format": "BASIC", "exclude_unexpected_values": True}},
    )
    told = {name: found["result"].get(name) for name in ("element_count", "unexpected_count", "unexpected_percent")}
    stated = ExpectationConfiguration(
        type=rule.expectation, kwargs=arguments, description=rule.description, meta={"rule": rule.name}
    )
    return ExpectationValidationResult(
        success=found["success"], expectation_config=stated, result=told, meta={}, exception_info={}
    )


def _as_yaml(value: object) -> Any:  # noqa: ANN401 - whatever GX takes
    """Return a value as GX would get it from YAML: floats for fractions."""
    if isinstance(value, Mapping):
        return {key: _as_yaml(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_yaml(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def result_of_table(rule: Rule, states: str, *, is_kept: bool) -> Any:  # noqa: ANN401 - a class of GX's
    """GX's result of a rule about the table: of its own expectation, or as the one that comes nearest.

    Args:
        rule: a rule about the table.
        states: what it asks for, in words; that is what GX's pages show.
        is_kept: whether it was kept.
    """
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    columns = rule.kwargs.get("columns", [])
    rows_query = query_of(rule, "{batch}", rule.column) if rule.expectation == SQL else ""
    nearest: dict[str, tuple[str, dict[str, Any]]] = {
        ROW_COUNT: ("expect_table_row_count_to_be_between", {}),
        ROW_CHANGE: ("expect_table_row_count_to_be_between", {}),
        REFERENCES: ("unexpected_rows_expectation", {"unexpected_rows_query": ""}),
        DUPLICATES: ("expect_column_values_to_be_unique", {"column": ", ".join(columns)}),
        SQL: ("unexpected_rows_expectation", {"unexpected_rows_query": rows_query}),
    }
    kind, arguments = nearest.get(rule.expectation, ("expect_column_values_to_not_be_null", {"column": rule.column}))
    if rule.expectation == DUPLICATES and len(columns) > 1:
        kind, arguments = "expect_compound_columns_to_be_unique", {"column_list": list(columns)}
    if rule.expectation in ROW or rule.expectation in TABLE:
        kind, arguments = rule.expectation, _arguments(rule)
    stated = ExpectationConfiguration(type=kind, kwargs=arguments, description=states, meta={"rule": rule.name})
    # What was measured is in no table. GX's page of one expectation reads it as a list all the same.
    unseen: list[str] | None = [] if kind == "expect_table_columns_to_match_ordered_list" else None
    return ExpectationValidationResult(
        success=is_kept, expectation_config=stated, result={"observed_value": unseen}, meta={}, exception_info={}
    )


class _Metrics:
    """Calls GX's metric functions one by one, with the metrics that they depend on."""

    def __init__(self, probe: Any, names: Mapping[str, str], domain: dict[str, Any]) -> None:  # noqa: ANN401 - GX
        self.probe = probe
        self.domain = {key: value for key, value in domain.items() if value is not None}
        self.base = {
            "table.columns": list(names),
            "table.column_types": [
                {"name": quoted, "type": field.dataType}
                for quoted, field in zip(names, probe.rows.schema.fields, strict=True)
            ],
        }

    def call(self, metric_name: str, arguments: Mapping[str, Any]) -> tuple["Column", dict[str, Any], dict[str, Any]]:
        """Return (column, compute domain, accessor domain) of one partial metric of GX."""
        from great_expectations.expectations.registry import get_metric_kwargs, get_metric_provider
        from great_expectations.validator.metric_configuration import MetricConfiguration

        provider, function = get_metric_provider(metric_name, self.probe)
        value_keys = get_metric_kwargs(metric_name)["metric_value_keys"]
        values = {key: arguments.get(key) for key in value_keys}
        configuration = MetricConfiguration(metric_name, dict(self.domain), values)
        needed = provider.get_evaluation_dependencies(metric=configuration, execution_engine=self.probe)
        metrics = dict(self.base)
        for name, dependency in needed.items():
            # Functions of a row are columns too. What speaks of the table (its row count) is left out: no condition
            # on a row reads it, and one that did would fail here, at compile time.
            if dependency.metric_name.endswith(".map"):
                metrics[name] = self.call(dependency.metric_name, arguments)
        answer: tuple[Column, dict[str, Any], dict[str, Any]] = function(
            provider, self.probe, dict(self.domain), values, metrics, {}
        )
        return answer


def _probe(names: Mapping[str, str], rows: "DataFrame", *, quoted: bool) -> Any:  # noqa: ANN401 - a class of GX's
    """Return GX's Spark engine over a stand-in for the rows: it answers for the schema and notes every filter."""
    from great_expectations.execution_engine import SparkDFExecutionEngine

    class Probe(SparkDFExecutionEngine):  # type: ignore[misc] # GX is untyped for us
        """GX decides domains in this class; a session and batches of its own it does not need."""

        def __init__(self) -> None:  # the inherited one starts or changes a Spark session
            self.rows = rows
            self._attach(_NotedRows(names, rows, quoted=quoted))

        def _attach(self, noted: "_NotedRows") -> None:
            self._batch_manager = SimpleNamespace(
                active_batch_data=SimpleNamespace(dataframe=noted), batch_data_cache={}
            )

        def get_domain_records(self, domain_kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - as GX declares it
            """As GX does, with a condition's fractions as floats: it writes a Decimal as a call that rounds it."""
            return super().get_domain_records(_as_yaml(domain_kwargs))

        def filters(self, domain: dict[str, Any]) -> list["Column"]:
            """Return the conditions that GX filters a domain by."""
            noted = _NotedRows(names, rows, quoted=quoted)
            self._attach(noted)
            self.get_domain_records(domain)
            return noted.noted

    return Probe()


class _NotedRows:
    """Stands in for the rows where GX filters them or picks columns: nothing happens but a note."""

    def __init__(self, names: Mapping[str, str], rows: "DataFrame", *, quoted: bool) -> None:
        self.noted: list[Column] = []
        self.schema = rows.schema
        self._quoted = quoted
        self._types = {quote: field for quote, field in zip(names, rows.schema.fields, strict=True)}  # noqa: C416

    def filter(self, condition: object) -> "_NotedRows":
        """Note a condition: a column, Spark SQL text, or GX's own object around such a text."""
        from pyspark.sql import Column
        from pyspark.sql import functions as F

        text = getattr(condition, "condition", condition)
        self.noted.append(condition if isinstance(condition, Column) else F.expr(str(text)))
        return self

    def __getitem__(self, quoted_names: Sequence[str]) -> Any:  # noqa: ANN401 - what a provider reads of a frame
        """Return what a multi-column provider needs of the chosen columns: their names and types."""
        plain: Callable[[str], str] = (lambda name: name) if self._quoted else (lambda name: name[1:-1])
        return SimpleNamespace(
            columns=[plain(name) for name in quoted_names],
            schema={plain(name): self._types[name] for name in quoted_names},
        )
