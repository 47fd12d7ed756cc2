"""What the check tells of a contract's SQL without Spark: its syntax, and columns and tables that are not there."""

from collections.abc import Collection
from pathlib import Path

import pytest

from cdc_materializer.contract import lint, load_contract
from cdc_materializer.contract.relations import Elsewhere
from cdc_materializer.names import TableName
from cdc_materializer.report.models import LintProblem
from tests.unit.contracts import write

_PROPERTIES = """
    - {name: amount, physicalType: "numeric(12,2)"}
    - {name: placed_at, physicalType: timestamptz}
    - {name: address, physicalType: jsonb}
    - {name: "odd name", physicalType: text}
    - name: status
      physicalType: text
      quality:
        - type: sql
          query: |
            QUERY
          mustBe: 0
"""
#: Where the text of a query begins in such a file.
_LINE = 18


def _problems(folder: Path, query: str, elsewhere: Elsewhere | None = None) -> list[LintProblem]:
    lines = query.replace("\n", "\n            ")
    path = write(folder, _PROPERTIES.replace("QUERY", lines))
    return lint(path, table="shop.orders" if elsewhere else None, elsewhere=elsewhere).files[0].problems


def _columns_of(table: TableName) -> Collection[str] | None:
    return {
        "shop.orders": ("id", "amount", "placed_at", "address", "odd name", "status", "__cdc"),
        "shop.customers": ("id", "email", "__cdc"),
        "shop.new": (),
    }.get(str(table))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT count(*) FROM {object} WHERE amuont > 1", "'amuont', which is not declared. Did you mean amount?"),
        ("SELECT sum(o.amuont) FROM {object} AS o", "'amuont', which is not declared. Did you mean amount?"),
        ("SELECT count(*) FROM {object} WHERE `amuont` > 1", "'amuont', which is not declared. Did you mean amount?"),
        (
            "WITH a AS (SELECT nothing FROM {object}) SELECT count(*) FROM a",
            "'nothing', which is not declared. Declare",
        ),
        ("SELECT count(*) FROM {object} WHERE id IN (SELECT idd FROM ${table})", "'idd', which is not declared."),
        ("SELECT count(*) FROM {object} o JOIN lake.shop.customers c ON c.emial = o.status", None),
        ("SELECT id, status FROM {object}", "the query gives 2 columns. Write one that selects one number."),
        ("SELECT count(*) FORM {object}", "the query is not Spark SQL near 'FORM {object}'. Mend it"),
        ("SELECT count(*)\nFROM {object}\nWERE amount > 1", "not Spark SQL near 'WERE amount', in line 3 of it."),
        ("SELECT sum(amount FROM {object}", "the query is not Spark SQL near 'sum(amount FROM'"),
        ("SELECT count(*) FROM {object} WHERE amount >", "the query is not Spark SQL near 'amount >'"),
        ("SELECT 1; SELECT 2", "the query is more than one statement."),
        ("SELECT count(*) FROM {object} GROUP BY", "is not Spark SQL: nothing stands behind GROUP BY. Mend it"),
        ("SELECT max(n) FROM (SELECT count(*) n FROM {object} GROUP BY)", "nothing stands behind GROUP BY."),
        ("SELECT count(*) FROM {object} GROUP BY status,", "nothing stands behind its last comma."),
        ("SELECT count(*) FROM {object} WHERE status IN ()", "nothing stands between the parentheses of IN."),
        ("SELECT count(*) FROM {object} ORDER BY", "the query is not Spark SQL near '{object} ORDER BY'"),
        ("SELECT count(*) FROM {object} GROUP BY status SORT BY", "not Spark SQL near 'status SORT BY'"),
        ("SELECT max(n) FROM (SELECT id n FROM {object} ORDER BY)", "not Spark SQL near"),
        ("SELECT count(*) FROM {object} UNION ALL", "not Spark SQL near 'UNION ALL'"),
        ("SELECT count(*) FROM {object} EXCEPT", "not Spark SQL near"),
        ("SELECT count(*) FROM {object} WHERE amount BETWEEN 1 AND", "not Spark SQL near '1 AND'"),
        (
            "SELECT count(*) FROM {object} a JOIN {object} b ON",
            "nothing stands behind the ON or USING of its last join.",
        ),
        (
            "SELECT count(*) FROM {object} a JOIN {object} b USING",
            "nothing stands behind the ON or USING of its last join.",
        ),
        ("SELECT count(*) FROM {object} having", None),  # to Spark a name that the table is given
        ("SELECT count(*) FROM {object} a CROSS JOIN {object} b", None),
        ("SELECT count(*) FROM {object} a JOIN {object} b ON `odd name`", None),
        ("SELECT max(n) FROM (SELECT count(*) n FROM {object} a JOIN {object} b) x WHERE x.on", None),
        ("SELECT count(*) FROM {object} GROUP BY status, `odd name`", None),
        ("SELECT count(*) FROM {object} GROUP BY status, 1;", None),
        ("SELECT count(*) FROM {object} GROUP BY id, 'a text'", None),
        ("SELECT count(*) FROM {object} WHERE status > ','", None),
        ("SELECT (SELECT count(*) FROM {object} a CROSS JOIN {object} b) AS on", None),
        ("SELECT count(*) FROM {object} WHERE id IN (SELECT id FROM {object})", None),
        ("SELECT count(*) FROM {object} WHERE id IN (1)", None),
        ("SELECT count(*) FROM {object} GROUP BY ALL", None),
        ("SELECT count(*) FROM {object} GROUP BY ()", None),
        ("SELECT count(*) FROM {object} GROUP BY GROUPING SETS ((status), ())", None),
        ("SELECT count(*) FROM {object} GROUP BY ROLLUP (status)", None),
        ("SELECT count(*) FROM {object} GROUP BY status WITH CUBE", None),
    ],
)
def test_what_spark_would_not_understand_is_told_with_its_line(tmp_path: Path, query: str, told: str | None) -> None:
    """A column that is not declared, and a mistake in syntax; a table that nobody knows may have any column."""
    found = _problems(tmp_path, query)

    assert [problem.line for problem in found] == ([] if told is None else [_LINE])
    assert [problem.where for problem in found] == (
        [] if told is None else ["schema[0].properties[5].quality[0].query"]
    )
    assert told is None or told in f"{found[0].message} {found[0].do}"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {object}.*, 1 FROM {object}",
        "SELECT count(*) FROM {object} WHERE {property} = 'x' AND AMOUNT > 1",
        "SELECT count(*) FROM {object} WHERE `odd name` = \"a text\" AND r'\\' <> ''",
        "SELECT count(*) FROM {object} WHERE __cdc.op = 'c'",
        "SELECT count(*) FROM {object} o WHERE o.address.city = 'x' OR address.city = 'y'",
        "SELECT max(n) FROM (SELECT status, count(*) AS n FROM {object} GROUP BY ALL)",
        "SELECT max(`count(1)`) FROM (SELECT count(1) FROM {object})",
        "WITH a (k, n) AS (SELECT status, count(*) FROM {object} GROUP BY status) SELECT max(n) FROM a WHERE k <> ''",
        "WITH a AS (SELECT * FROM {object}) SELECT count(*) FROM a WHERE anything = 1",
        "SELECT sum(col) FROM (SELECT explode(array(1, 2)) FROM {object})",
        "SELECT sum(part) FROM {object} LATERAL VIEW explode(split(status, ',')) parts AS part",
        "SELECT max(size(filter(split(status, ','), word -> word = ''))) FROM {object}",
        "SELECT count(*) FROM {object} WHERE placed_at > current_date - INTERVAL 3 DAYS",
        "SELECT max(timestampdiff(DAY, placed_at, now())) FROM {object}",
        "SELECT count(*) FROM {object} a LEFT ANTI JOIN {object} b USING (id)",
        "SELECT count(*) FROM {object} JOIN lake.shop.customers USING (id) WHERE email IS NULL",
        "SELECT city FROM (SELECT address.city FROM {object}) LIMIT 1",
        "FROM {object} |> WHERE amount > 1 |> AGGREGATE count(*)",
        "SELECT count(*) FROM {object} WHERE from_json(status, 'a INT').a:b > 1",
        "SELECT count(*) FROM VALUES (1), (2)",
        "SELECT count(*) FROM somewhere.orders WHERE amuont > 1",
        "SELECT IDENTIFIER('amuont') FROM {object}",
        "SELECT grouping__id FROM {object} GROUP BY CUBE (status)",
        "/* one */ SELECT count(*) -- two\nFROM {object};",
    ],
)
def test_what_spark_may_understand_is_left_to_it(tmp_path: Path, query: str) -> None:
    """Names that a query gives itself, fields, words of the language, and whatever only Spark knows."""
    expected = 1 if "anything" in query else 0
    assert len(_problems(tmp_path, query)) == expected


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT count(*) FROM shop.custmers", "the query reads shop.custmers, and there is no such table."),
        ("SELECT count(*) FROM lake.shop.custmers", "reads lake.shop.custmers, and there is no such table."),
        ("SELECT count(*) FROM custmers", "the query reads custmers, and there is no such table."),
        ("SELECT count(*) FROM {object} JOIN shop.customers USING (id) WHERE emial = ''", "'emial', which is not"),
        (
            "SELECT count(*) FROM {object} o JOIN shop.customers c ON o.status = c.emial",
            "'emial', which shop.customers does not have. Did you mean email?",
        ),
        ("SELECT count(*) FROM shop.orders WHERE amuont > 1", "'amuont', which is not declared."),
        ("SELECT count(*) FROM orders WHERE orders.amuont > 1", "'amuont', which is not declared."),
        ("SELECT count(*) FROM {object} JOIN shop.customers USING (id) WHERE email = ''", None),
        ("SELECT count(*) FROM {object} WHERE id IN (SELECT id FROM shop.new WHERE whatever)", None),
        ("SELECT count(*) FROM shop.orders.snapshots", None),
        ("SELECT count(*) FROM lake.shop.orders.snapshots", None),
        ("SELECT count(*) FROM shop.orders__raw", None),
        ("SELECT count(*) FROM other.warehouse.codes", None),
        ("SELECT count(*) FROM hive.codes", None),
        ("SELECT count(*) FROM global_temp.codes", None),
        ("WITH codes AS (SELECT 1) SELECT count(*) FROM codes", None),
    ],
)
def test_tables_are_looked_up_where_the_pipeline_is_known(tmp_path: Path, query: str, told: str | None) -> None:
    """By their names with the catalog and without; not those that another catalog may have."""
    found = _problems(tmp_path, query, Elsewhere(_columns_of, foreign=Elsewhere.foreign | {"hive"}))

    assert [problem.line for problem in found] == ([] if told is None else [_LINE])
    assert told is None or told in f"{found[0].message} {found[0].do}"


def test_a_name_without_namespace_may_be_one_of_a_catalog_that_has_such(tmp_path: Path) -> None:
    """Where the catalog has a namespace of its own for them."""
    assert _problems(tmp_path, "SELECT count(*) FROM codes", Elsewhere(_columns_of, is_flat=True)) == []


def test_a_column_that_is_dropped_is_not_there_for_queries(tmp_path: Path) -> None:
    """Queries see what the mirror stores."""
    path = write(
        tmp_path,
        """
        - name: notes
          physicalType: text
          customProperties: [{property: drop, value: true}]
          quality: [{type: sql, query: "SELECT count(*) FROM {object} WHERE notes = ''", mustBe: 0}]
        """,
    )

    assert ["'notes'" in problem.message for problem in lint(path).files[0].problems] == [True]


def test_a_run_leaves_a_contract_s_sql_to_spark(tmp_path: Path) -> None:
    """A table that the contract does not describe in full has columns that a query may name."""
    write(tmp_path, _PROPERTIES.replace("QUERY", "SELECT count(*) FROM {object} WHERE undeclared = 1"))

    assert len(load_contract(tmp_path / "orders.yaml").rules) == 1


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("amount > 1 AND", "row_condition is not Spark SQL near '1 AND'."),
        ("amount > 1 status = 'x'", "row_condition is not Spark SQL near"),
        ("WHERE amount > 1", "row_condition is not one expression."),
        ("amount > 1, status = 'x'", "row_condition is not one expression."),
        ("CASE WHEN amount > 1 THEN status", "row_condition is not Spark SQL near"),
        ("amount > 1 AND status IN ('x', 'y') OR NOT status RLIKE '^a'", None),
        ("amount BETWEEN 1 AND 2 AND status IS DISTINCT FROM 'x'", None),
        ("placed_at > TIMESTAMP '2020-01-01' - INTERVAL '1' DAY", None),
        ("amount::int % 2 = 0 AND status <=> 'x'", None),
        ("exists(split(status, ','), x -> x = '')", None),
    ],
)
def test_a_condition_that_is_no_spark_sql_is_told_with_its_line(
    tmp_path: Path, condition: str, told: str | None
) -> None:
    """It was told by Spark when a run began."""
    path = write(
        tmp_path,
        f"""
        - {{name: amount, physicalType: "numeric(12,2)"}}
        - {{name: placed_at, physicalType: timestamptz}}
        - name: status
          physicalType: text
          quality:
            - type: custom
              engine: greatExpectations
              implementation:
                type: expect_column_values_to_not_be_null
                kwargs:
                  row_condition: "{condition}"
                  condition_parser: spark
        """,
    )
    found = lint(path).files[0].problems

    assert [problem.line for problem in found] == ([] if told is None else [20])
    assert told is None or told in found[0].message


def test_a_query_for_rows_is_held_to_the_same(tmp_path: Path) -> None:
    """Great Expectations' own way to ask: `{batch}` is the table."""
    path = write(
        tmp_path,
        """
        - name: status
          physicalType: text
          quality:
            - type: custom
              engine: greatExpectations
              implementation:
                type: unexpected_rows_expectation
                kwargs: {unexpected_rows_query: "SELECT * FROM {batch} WHERE statsu = ''"}
        """,
    )

    (problem,) = lint(path).files[0].problems

    assert "'statsu', which is not declared" in problem.message
    assert problem.line == 17
