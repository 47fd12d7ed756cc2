"""Contract files with mistakes: what is refused, with which line, and what the check tells beyond the first."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import lint, load_contract
from cdc_materializer.errors import ContractInvalid
from tests.unit.contracts import HEAD, problems_of, write

if TYPE_CHECKING:
    from tests.unit.contracts import Write

REFUSED = [
    ("- {name: a, customProperties: [{property: mask, value: sha1}]}", 10, "unknown mask 'sha1'"),
    ("- {name: a, customProperties: [{property: masc, value: hash}]}", 10, "unknown custom property 'masc'"),
    ("- {name: a, customProperties: [{property: mask, value: [hash]}]}", 10, "unknown mask \"['hash']\""),
    (("- {name: a, quality: [{metric: nullValues, mustBe: 0, customProperties: [{property: action, value: [warn]}]}]}"),
     10, "unknown action \"['warn']\""),
    ("- {name: a, customProperties: [{property: drop, value: 'yes'}]}", 10, "drop is not true or false"),
    ("- {name: a, physicalType: timestamp, customProperties: [{property: time_unit, value: ms}]}", 10,
     "unknown time_unit 'ms'"),
    ("- {name: a, physicalType: bigint, customProperties: [{property: time_unit, value: milliseconds}]}", 10,
     "at a column that is no time"),
    ("- {name: a, physicalType: bytea, customProperties: [{property: written_as, value: base32}]}", 10,
     "unknown written_as 'base32' of a binary"),
    ("- {name: a, physicalType: 'decimal(9,2)', customProperties: [{property: written_as, value: hex}]}", 10,
     "unknown written_as 'hex' of a decimal(9,2)"),
    ("- {name: a, physicalType: text, customProperties: [{property: written_as, value: hex}]}", 10,
     "at a column that is neither binary nor a decimal"),
    ("- {name: a, physicalType: 'bytea[]', customProperties: [{property: written_as, value: hex}]}", 10,
     "at a column that is neither binary nor a decimal"),
    ("- {name: a, physicalType: time, customProperties: [{property: time_units, value: milliseconds}]}", 10,
     "unknown custom property 'time_units'"),
    ("- {name: a, customProperties: [{property: drop, value: true}, {property: mask, value: hash}]}", 10,
     "the column is masked twice"),
    ("- {name: a, logicalType: string, physicalType: VARIANT}", 10, "variant is not written"),
    ("- {name: a, physicalType: array<variant>}", 10, "variant is not written"),
    ("- {name: a, primaryKey: true, customProperties: [{property: mask, value: redact}]}", 10,
     "is of the primary key, which cannot be masked"),
    ("- {name: a, required: true, customProperties: [{property: mask, value: hash}]}", 10,
     "nothing says what type it has then"),
    ("- {name: a, customProperties: [{property: judge, value: after}]}", 10, "the custom property judge belongs to"),
    ("- {name: a, customProperties: [{property: shadow, value: true}]}", 10, "the custom property shadow belongs to"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, customProperties: [{property: shadow, value: 1}]}]}", 10,
     "shadow is not true or false"),
    ("- {name: a, quality: [{metric: rowCount, mustBe: 1, arguments: {comparedTo: previous}}]}", 10,
     "rowCount counts the rows of a table"),
    ("- {name: a, relationships: [{to: b, customProperties: [{property: action, value: warn}]}]}", 10,
     "which columns refer to which"),
    ("- {name: a, relationships: [{to: b.id, type: is, customProperties: [{property: action, value: warn}]}]}", 10,
     "unknown type of relationship"),
    ("- {name: a, relationships: [{to: b.id, customProperties: [{property: action, value: quarantine}]}]}", 10,
     "which rows to hold"),
    ("- {name: a, relationships: [{to: b.id, customProperties: [{property: acton, value: warn}]}]}", 10,
     "unknown custom property 'acton'"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, customProperties: [{property: mask, value: hash}]}]}", 10,
     "the custom property mask belongs to"),
    ("- {name: a, logicalType: object, properties: [{name: b, customProperties: [{property: drop, value: true}]}]}", 10,
     "the custom property drop belongs to"),
    ("- {name: a, quality: [{metric: rowCount, mustBeGreaterThan: 1}]}", 10, "rowCount counts the rows of a table"),
    ("- {name: a, quality: [{metric: duplicateValues}]}", 10, "duplicateValues needs one condition"),
    ("- {name: a, quality: [{metric: nullValues, mustBeLessThan: 5, mustNotBe: 3}]}", 10, "needs one condition"),
    ("- {name: a, quality: [{metric: nullValues, mustBeLessThan: 5, unit: percents}]}", 10, "unknown unit 'percents'"),
    ("- {name: a, quality: [{metric: nullValues, mustBeBetween: [5, 3]}]}", 10, "the lower and the upper bound"),
    ("- {name: a, quality: [{metric: nullValues, mustNotBe: x}]}", 10, "it is not a number"),
    ("- {name: a, quality: [{metric: nullValues, mustNotBe: .nan}]}", 10, "it is not a number"),
    ("- {name: a, quality: [{metric: nullValues, mustBeGreaterThan: .nan}]}", 10, "it is not a number"),
    ("- {name: a, quality: [{metric: nullValues, mustBeLessThan: .inf}]}", 10, "it is not a number"),
    ("- {name: a, quality: [{metric: nullValues, mustBeBetween: [.nan, 1]}]}", 10, "it is not a number"),
    ("- {name: a, logicalTypeOptions: {minimum: .nan, maximum: 5}}", 10, "a bound is not a number"),
    ("- {name: a, logicalTypeOptions: {minimum: 5, maximum: .nan}}", 10, "a bound is not a number"),
    ("- {name: a, logicalTypeOptions: {minimum: -.inf}}", 10, "a bound is not a number"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minimum: .nan, maximum: 5}}", 10, "a bound does not fit"),
    ("- {name: a, quality: [{metric: duplicateValues, mustBe: 0, arguments: {of: a}}]}", 10, "has no argument of"),
    (("- name: a\n  unique: true\n  quality:\n    - metric: duplicateValues\n      mustBe: 0\n"
      "      customProperties: [{property: action, value: quarantine}]"), 13, "does not say which rows to hold"),
    ("- {name: a, quality: [{type: sql, mustBe: 1}]}", 10, "a rule in SQL needs a query"),
    ("- {name: a, unique: true, customProperties: [{property: drop, value: true}]}", 10, "column a is dropped"),
    ("- {name: a, physicalType: text, unique: true, customProperties: [{property: mask, value: redact}]}", 10,
     "no table can pass: column a is masked"),
    (("- {name: a, physicalType: text, customProperties: [{property: mask, value: 'null'}],"
      " quality: [{metric: nullValues, mustBeLessThan: 5}]}"), 10, "it is always NULL there"),
    ("- {name: a, quality: [{type: sql, mustBe: 0, query: drop table x}]}", 10, "a query can only read"),
    ("- {name: a, quality: [{type: sql, mustBe: 0, query: 'select count(*) from {tabel}'}]}", 10,
     "{tabel} stands for nothing"),
    ("- {name: a, quality: [{name: max_quarantined, metric: nullValues, mustBe: 0}]}", 10,
     "max_quarantined is what quarantine calls"),
    ("- {name: a, quality: [{metric: nullValues, unit: percent, mustBeGreaterThan: 100}]}", 10, "no table can pass"),
    ("- {name: a, quality: [{metric: nullValues, mustBeLessThan: 0}]}", 10, "no table can pass"),
    (("- {name: a, required: true, quality: [{metric: nullValues, mustBeGreaterThan: 0}]}"), 10,
     "no table can pass this rule and the one of line 10"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minimum: 1.2, maximum: 1.8}}", 10,
     "no value of type int lies between the bounds"),
    (("- {name: a, physicalType: 'decimal(9,1)', logicalTypeOptions: {exclusiveMinimum: 1, exclusiveMaximum: 1.1}}"),
     10, "no value of type decimal(9,1) lies between"),
    ("- {name: a, physicalType: text, logicalTypeOptions: {pattern: '(?P<x>a)'}}", 10, "Java spells a named group"),
    ("- {name: a, quality: [{type: custom, engine: soda, implementation: x}]}", 10, "the rule engine 'soda'"),
    ("- {name: a, quality: [{metric: nulValues, mustBe: 0}]}", 10, "unknown metric"),
    *(("- {name: a, quality: [{metric: missingValues, mustBe: 0, arguments: {missingValues: " + listed + "}}]}", 10,
       "missingValues is not a list") for listed in ("x", "''", "0", "null", "{}")),
    (("- name: a\n  logicalType: object\n  properties:\n    - name: b\n      logicalType: integer\n"
      "      relationships: [{to: c.id, customProperties: [{property: action, value: block}]}]"), 13,
     "a rule about a part of a column"),
    (("- {name: a, logicalType: array, items: {logicalType: integer, "
      "relationships: [{to: c.id, customProperties: [{property: shadow, value: true}]}]}}"), 10,
     "a rule about a part of a column"),
    ("- {name: a, quality: [{description: x}]}", 10, "unknown type of quality rule"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, customProperties: [{property: action, value: drop}]}]}", 10,
     "unknown action 'drop'"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, customProperties: [{property: acton, value: warn}]}]}", 10,
     "unknown custom property 'acton'"),
    ("- {name: a, quality: [{metric: invalidValues, mustBe: 0}]}", 10, "invalidValues says no values"),
    ("- {name: a, quality: [{metric: invalidValues, mustBeLessThan: 9}]}", 10, "invalidValues says no values"),
    (("- {name: a, physicalType: int, "
      "quality: [{metric: invalidValues, mustBeLessThan: 9, arguments: {validValues: [x]}}]}"), 10,
     "a member of the set"),
    (("- {name: a, physicalType: int, "
      "quality: [{metric: missingValues, mustBeLessThan: 9, arguments: {missingValues: [null, x]}}]}"), 10,
     "a member of the set"),
    (("- {name: a, physicalType: bytea, "
      "quality: [{metric: missingValues, mustBeLessThan: 9, arguments: {missingValues: [x]}}]}"), 10,
     "cannot judge columns of kind binary"),
    ("- {name: a, required: true, customProperties: [{property: action, value: block}]}", 10,
     "the custom property action belongs to a rule"),
    ("- {name: a, quality: [{metric: invalidValues, mustBe: 0, arguments: {valid: [1]}}]}", 10,
     "has no argument valid"),
    ("- {name: a, logicalType: boolean, physicalType: 'numeric(12,2)'}", 10, "cannot both be: no value is one of each"),
    ("- {name: a, logicalType: integer, physicalType: timestamptz}", 10, "logicalType integer and physicalType"),
    ("- {name: a, logicalType: timestamp, physicalType: boolean}", 10, "logicalType timestamp and physicalType"),
    ("- {name: a, logicalType: array, items: {logicalType: string}, physicalType: int}", 10, "logicalType array and"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, severity: hghi}]}", 10, "unknown severity 'hghi'"),
    ("- {name: a, quality: [{metric: nullValues, mustBe: 0, severity: warnign}]}", 10, "unknown severity 'warnign'"),
    ("- {name: a, requierd: true}", 10, "does not know the key 'requierd'"),
    ("- {name: a, physicalType: mystery}", 10, "neither physicalType 'mystery' nor logicalType"),
    ("- {name: a, logicalType: nummer}", 10, "unknown logicalType 'nummer'"),
    ("- {name: ID}", 10, "declared twice"),
    ("- {name: __cdc_op}", 10, "reserved"),
    ("- {physicalType: int}", 10, "the column has no name"),
    ("- name: a\n  name: b", 11, "this key is written twice"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {multipleOf: 2}}", 10, "the option multipleOf"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {pattern: x}}", 10, "cannot judge columns of kind number"),
    ("- {name: a, physicalType: text, logicalTypeOptions: {minimum: 1}}", 10, "cannot judge columns of kind text"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minLength: 1}}", 10, "cannot judge columns of kind number"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minimum: 3, maximum: 2}}", 10, "no value can pass"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minimum: 2, exclusiveMaximum: 2}}", 10, "no value can pass"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {minimum: 2, exclusiveMinimum: 1}}", 10, "both given"),
    ("- {name: a, physicalType: int, logicalTypeOptions: {exclusiveMinimum: true}}", 10, "a flag without minimum"),
    ("- {name: a, physicalType: date, logicalTypeOptions: {minimum: '2026-13-01'}}", 10, "not written as YYYY-MM-DD"),
    ("- {name: a, physicalType: text, logicalTypeOptions: {minLength: 3, maxLength: 2}}", 10, "no value can pass"),
    ("- {name: a, physicalType: text, logicalTypeOptions: {minLength: -1}}", 10, "not a whole number"),
    ("- {name: a, physicalType: text, logicalTypeOptions: {pattern: '(a'}}", 10, "not a valid pattern"),
    ("- {name: a, physicalType: text, quality: [{metric: invalidValues, mustBe: 0, arguments: {validValues: [no]}}]}",
     10, "the column holds texts, and without quotes YAML reads"),
    ("- {name: a, physicalType: int, quality: [{metric: invalidValues, mustBe: 0, arguments: {validValues: [x]}}]}", 10,
     "does not fit the type int"),
    ("- {name: a, physicalType: int, quality: [{metric: invalidValues, mustBe: 0, arguments: {validValues: [0.5]}}]}",
     10,
     "no member of the set"),
    ("- {name: a, logicalType: array, items: {logicalType: string, required: true}}", 10, "a rule about a part"),
    (("- {name: a, logicalType: map, map: {key: {logicalType: string}, "
      "value: {logicalType: string, customProperties: [{property: mask, value: hash}]}}}"), 10,
     "the custom property mask belongs to"),
    ("- {name: a, logicalType: object, properties: [{name: b, logicalType: string, quality: [{type: text}]}]}", 10,
     "a rule about a part"),
    (("- name: a\n  quality:\n    - metric: nullValues\n      mustBe: 0\n      customProperties:\n"
      "        - {property: action, value: warn}\n        - {property: action, value: block}"), 16,
     "the custom property action stands here twice"),
    ("- name: a\n  customProperties:\n    - {property: mask, value: hash}\n    - {property: mask, value: hash}", 13,
     "the custom property mask stands here twice"),
    ("- {name: a, physicalType: text, enum: []}", 10, "enum lists no value"),
    ("- name: a\n  physicalType: date\n  logicalTypeOptions:\n    minimum: 2026-13-01", 12,
     "the value is not written as YYYY-MM-DD"),
    ("- name: a\n  quality:\n    - {metric: duplicateValues, mustBe: 1.5}", 12, "no table can pass"),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "line", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_what_cannot_be_followed_is_refused_with_its_line(
    write_contract: "Write", properties: str, line: int, message: str
) -> None:
    """Nothing is skipped: every such file is an error that names file, line, what is wrong and what to do."""
    path = write_contract(properties)

    with pytest.raises(ContractInvalid) as refused:
        load_contract(path)
    found = [problem for problem in problems_of(path) if message in problem.message]

    assert f"orders.yaml:{line}" in refused.value.what
    assert str(path.parent) not in refused.value.what
    assert [problem.line for problem in found][:1] == [line]
    assert all(problem.do for problem in found)


EXPECTATIONS = [
    ("{type: expect_column_values_to_be_betwen, kwargs: {}}", "no expectation 'expect_column_values_to_be_betwen'"),
    ("{type: expect_column_mean_to_be_between, kwargs: {column: t, min_value: 1}}", "columns of kind text"),
    ("{type: expect_column_mean_to_be_between, kwargs: {column: q, min_value: 1}}", "names the column 'q'"),
    ("{type: expect_column_mean_to_be_between, kwargs: {minimum: 1}}", "has no argument 'minimum'"),
    ("{type: expect_column_mean_to_be_between}", "the rule has no bound"),
    ("{type: expect_column_mean_to_be_between, kwargs: {min_value: 3, max_value: 2}}", "no value can pass"),
    ("{type: expect_column_mean_to_be_between, kwargs: {min_value: x}}", "a bound is not a number"),
    ("{type: expect_column_max_to_be_between, kwargs: {max_value: x}}", "a bound does not fit"),
    ("{type: expect_column_max_to_be_between, kwargs: {max_value: 1, strict_max: 2}}", "strict_max is not true"),
    ("{type: expect_column_proportion_of_unique_values_to_be_between, kwargs: {min_value: 95}}", "between 0 and 1"),
    ("{type: expect_table_row_count_to_equal, kwargs: {value: many}}", "value is not a whole number"),
    ("{type: expect_column_distinct_values_to_be_in_set, kwargs: {value_set: [a]}}", "a member of the set"),
    ("{type: expect_column_distinct_values_to_be_in_set, kwargs: {value_set: a}}", "value_set is not a list"),
    ("{type: expect_column_distinct_values_to_contain_set, kwargs: {value_set: [1, 0.5]}}", "can be no value of type"),
    ("{type: expect_column_distinct_values_to_equal_set, kwargs: {value_set: [0.5]}}", "can be no value of type int"),
    ("{type: expect_compound_columns_to_be_unique}", "needs the argument column_list"),
    ("{type: expect_column_quantile_values_to_be_between, kwargs: {quantile_ranges: {quantiles: [0.5]}}}",
     "as many value_ranges"),
    (("{type: expect_column_quantile_values_to_be_between, "
      "kwargs: {quantile_ranges: {quantiles: [5], value_ranges: [[1, 2]]}}}"), "a quantile does not lie"),
    (("{type: expect_column_quantile_values_to_be_between, "
      "kwargs: {quantile_ranges: {quantiles: [0.5], value_ranges: [[2, 1]]}}}"), "a value range is not"),
    ("{type: expect_column_sum_to_be_between, kwargs: {min_value: 1, row_condition: id > 1}}",
     "row_condition needs a condition_parser"),
    ("{type: expect_column_sum_to_be_between, kwargs: {min_value: 1, row_condition: 5}}",
     "row_condition is neither text nor a mapping"),
    ("{type: expect_column_values_to_be_increasing, kwargs: {strictly: 3}}", "strictly is not true or false"),
    ("{type: expect_column_values_to_be_increasing, kwargs: {column: t}}", "cannot judge columns of kind text"),
    ("{type: expect_column_type_to_be, kwargs: {type_: INTEGER}}", "'INTEGER' is no type of Spark's"),
    ("{type: expect_column_values_to_be_in_type_list, kwargs: {type_list: [LongType, Longtype]}}", "'Longtype' is no"),
    ("{type: expect_column_values_to_be_in_type_list, kwargs: {type_list: []}}", "type_list is not a list"),
    ("{type: expect_column_values_to_be_of_type, kwargs: {type_: StringType}}", "the column n is int, none of whose"),
    ("{type: expect_column_values_to_be_in_type_list, kwargs: {type_list: [StringType, DateType]}}", "none of whose"),
    ("{type: expect_column_to_exist, kwargs: {column: idd}}", "names the column 'idd', which is not declared"),
    ("{type: expect_column_values_to_not_be_outliers, kwargs: {method: mad}}", "unknown method"),
    ("{type: expect_column_values_to_not_be_outliers, kwargs: {multiplier: -1}}", "multiplier is not a number from 0"),
    ("{type: unexpected_rows_expectation}", "needs the argument unexpected_rows_query"),
    ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: 7}}", "it is no query"),
    ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: SELECT 1}}", "does not ask {batch}"),
    ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: 'SELECT {n} FROM {batch}'}}",
     "something else than {batch}"),
    ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: 'SELECT { FROM {batch}'}}", "has no other"),
    ("{type: unexpected_rows_expectation, kwargs: {unexpected_rows_query: 'SELECT 1 FROM {batch:{n}}'}}",
     "something else than {batch}"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {json_schema: {}}}", "columns of kind number"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: x}}", "it is not a mapping"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {type: objct}}}",
     "'objct' is not valid under any of the given schemas (at type)"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {$ref: 'http://a.b/c'}}}",
     "'http://a.b/c' leads nowhere within it"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {$ref: '#/$defs/a'}}}",
     "'#/$defs/a' leads nowhere within it"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {items: {pattern: '('}}}}",
     "'(' is not a 'regex' (at items/pattern)"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {$ref: '#'}}}",
     "leads back to where it stands"),
    (("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: "
      "{items: {anyOf: [{type: string}, {$ref: '#/items'}]}}}}"),
     "leads back to where it stands"),
    (("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: "
      "{$schema: 'http://json-schema.org/draft-04/schema#', patternProperties: {'(': {}}}}}"),
     "the pattern '(' is none of Python's"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {items: {$id: a}}}}",
     "an $id of its own"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {const: !!binary aGk=}}}",
     "put them in quotes"),
    ("{type: expect_column_values_to_match_json_schema, kwargs: {column: t, json_schema: {$dynamicRef: '#a'}}}",
     "$dynamicRef cannot be followed"),
    ("{type: expect_query_results_to_match_comparison}", "on Spark Great Expectations 1.24 cannot ask a second data"),
    ("{type: expect_table_row_count_to_equal_other_table}", "on Spark Great Expectations 1.24 knows no second table"),
    ("{type: expect_column_values_to_be_dateutil_parseable}", "no Spark implementation"),
    ("{type: expect_column_values_to_match_like_pattern, kwargs: {like_pattern: a}}", "no Spark implementation"),
    ("{type: expect_column_values_to_be_between, kwargs: {min: 1}}", "has no argument 'min'"),
    ("{type: expect_column_values_to_be_between}", "the rule has no bound"),
    ("{type: expect_column_values_to_be_between, kwargs: {min_value: 1, strict_min: 3}}",
     "strict_min is not true or false"),
    ("{type: expect_column_values_to_be_in_set}", "needs the argument value_set"),
    ("{type: expect_column_values_to_be_in_set, kwargs: {value_set: a}}", "value_set is not a list"),
    ("{type: expect_column_values_to_not_be_null, kwargs: {mostly: 90}}", "mostly is no share"),
    ("{type: expect_column_values_to_be_unique, kwargs: {mostly: x}}", "mostly is no share"),
    ("{type: expect_column_values_to_not_be_null, kwargs: {row_condition: id > 1}}", "needs a condition_parser"),
    ("{type: expect_column_values_to_not_be_null, kwargs: {column: idd}}", "names the column 'idd'"),
    ("{type: expect_column_values_to_match_strftime_format, kwargs: {column: t, strftime_format: '%Y-%Q'}}",
     "strftime_format is not one"),
    ("{type: expect_column_pair_values_to_be_equal, kwargs: {column_A: id}}", "needs the argument column_B"),
    ("{type: expect_column_pair_values_to_be_equal, kwargs: {column_A: id, column_B: n, ignore_row_if: x}}",
     "ignore_row_if"),
    ("{type: expect_column_pair_values_to_be_equal, kwargs: {column_A: id, column_B: t}}", "different kinds"),
    ("{type: expect_multicolumn_sum_to_equal, kwargs: {column_list: [id], sum_total: 1}}", "two different columns"),
    ("{type: expect_multicolumn_sum_to_equal, kwargs: {column_list: [id, n], sum_total: x}}",
     "sum_total is not a number"),
    ("{type: expect_column_pair_values_to_be_in_set, kwargs: {column_A: id, column_B: n, value_pairs_set: [1]}}",
     "pairs"),
    ("{type: expect_multicolumn_sum_to_equal, kwargs: {column_list: [id, n], sum_total: .nan}}",
     "sum_total is not a number"),
    ("{type: expect_column_mean_to_be_between, kwargs: {min_value: .nan}}", "a bound is not a number"),
    ("{type: expect_column_sum_to_be_between, kwargs: {min_value: 1, max_value: .inf}}", "a bound is not a number"),
    ("{type: expect_column_values_to_not_be_null, kwargs: {mostly: .nan}}", "mostly is no share"),
    ("{type: expect_column_values_to_not_be_outliers, kwargs: {multiplier: .nan}}", "multiplier is not a number"),
    ("{type: expect_column_value_z_scores_to_be_less_than, kwargs: {threshold: .nan, double_sided: true}}",
     "threshold is not a number"),
    ("{type: expect_column_value_z_scores_to_be_less_than, kwargs: {threshold: x, double_sided: false}}",
     "threshold is not a number"),
    ("{type: expect_column_value_z_scores_to_be_less_than, kwargs: {threshold: 0, double_sided: true}}",
     "no value can pass: with double_sided"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: .inf, partition_object: {values: [1], weights: [1]}}}"), "threshold is not a number"),
    ("{type: expect_column_kl_divergence_to_be_less_than, kwargs: {threshold: 0.1, partition_object: [1]}}",
     "partition_object is no distribution"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: 0.1, partition_object: {values: [1, 2], weights: [1]}}}"), "as many weights"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: 0.1, partition_object: {bins: [1, 2], weights: [0.5, 0.5]}}}"), "bins are one more"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: 0.1, partition_object: {bins: [1, 1], weights: [1]}}}"), "the bins do not rise"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: 0.1, partition_object: {values: [1, 2], weights: [0.5, 0.4]}}}"), "do not come to 1"),
    (("{type: expect_column_kl_divergence_to_be_less_than, "
      "kwargs: {threshold: 0.1, partition_object: {values: [1, 2], weights: [.nan, 0.4]}}}"), "a weight is no number"),
    ("{type: expect_column_pair_values_a_to_be_greater_than_b, kwargs: {column_A: n, column_B: n}}",
     "column_A and column_B are one column"),
    ("{type: expect_column_pair_values_to_be_equal, kwargs: {column_A: id, column_B: n, ignore_row_if: [x]}}",
     "ignore_row_if"),
    ("{type: expect_column_values_to_match_regex_list, kwargs: {column: t, regex_list: [x], match_on: [any]}}",
     "match_on is neither"),
    ("{type: expect_column_values_to_not_be_outliers, kwargs: {method: {a: 1}}}", "unknown method"),
    ("{type: expect_column_type_to_be, kwargs: {type_: {a: 1}}}", "is no type of Spark's"),
    ("{type: expect_column_values_to_be_in_type_list, kwargs: {type_list: [[LongType]]}}", "is no type of Spark's"),
    (("{type: expect_column_pair_values_to_be_in_set, "
      "kwargs: {column_A: id, column_B: n, value_pairs_set: [[1, 2], [1, x]]}}"), "a member of the set does not fit"),
    ("{kwargs: {}}", "names no expectation"),
    ("{type: expect_column_values_to_not_be_null, kwarg: {}}", "unknown key 'kwarg'"),
    ("'{type: [}'", "neither a mapping nor YAML"),
]  # fmt: skip


@pytest.mark.parametrize(
    "properties",
    [
        # What databases and connectors have for these: flags in numbers, instants in counts, JSON in texts.
        "- {name: a, logicalType: boolean, physicalType: tinyint(1)}",
        "- {name: a, logicalType: boolean, physicalType: 'number(1)'}",
        "- {name: a, logicalType: boolean, physicalType: bit(1)}",
        "- {name: a, logicalType: timestamp, physicalType: bigint}",
        "- {name: a, logicalType: date, physicalType: int}",
        "- {name: a, logicalType: time, physicalType: time}",
        "- {name: a, logicalType: object, physicalType: jsonb}",
        "- {name: a, logicalType: object, physicalType: hstore}",
        "- {name: a, logicalType: array, items: {logicalType: string}, physicalType: 'text[]'}",
        "- {name: a, logicalType: number, physicalType: numeric}",
        "- {name: a, logicalType: integer, physicalType: 'numeric(20,0)'}",
        "- {name: a, logicalType: string, physicalType: uuid}",
        "- {name: a, quality: [{metric: nullValues, mustBe: 0, severity: High}]}",
        "- {name: a, quality: [{metric: nullValues, mustBe: 0, severity: P1}]}",
        """- {name: a, physicalType: int, quality: [{type: custom, engine: greatExpectations,
        implementation: {type: expect_column_values_to_be_of_type, kwargs: {type_: LongType}}}]}""",
    ],
)
def test_what_may_be_meant_so_is_no_mistake(write_contract: "Write", properties: str) -> None:
    """Told is only what cannot be."""
    assert problems_of(write_contract(properties)) == []


@pytest.mark.parametrize(("value", "wrong"), [("150%", True), ("100.1%", True), ("100%", False), ("5.5%", False)])
def test_a_share_of_held_messages_that_no_batch_has_is_refused(tmp_path: Path, value: str, wrong: bool) -> None:  # noqa: FBT001
    """It would stop nothing, and look as if it did."""
    path = tmp_path / "orders.yaml"
    path.write_text(f"{HEAD}    customProperties: [{{property: max_quarantined, value: {value}}}]\n", encoding="utf-8")

    told = [(problem.line, problem.message) for problem in problems_of(path)]

    assert told == ([(10, "max_quarantined is more than a batch has, so it never stops one.")] if wrong else [])


@pytest.mark.parametrize("value", ["later", "[after]", "{after: 1}"])
def test_what_says_nothing_of_when_rules_judge_is_refused(tmp_path: Path, value: str) -> None:
    """Whatever YAML makes of it."""
    path = tmp_path / "orders.yaml"
    path.write_text(f"{HEAD}    customProperties: [{{property: judge, value: {value}}}]\n", encoding="utf-8")

    ((line, message),) = [(problem.line, problem.message) for problem in problems_of(path)]

    assert (line, message.partition(":")[0]) == (10, "unknown value of judge")


@pytest.mark.parametrize("name", ["max_quarantined", "judge", "shadow"])
def test_what_a_table_says_twice_is_refused(tmp_path: Path, name: str) -> None:
    """Which of the two counts would be nobody's choice."""
    value = {"max_quarantined": "5", "judge": "after", "shadow": "true"}[name]
    entry = f"      - {{property: {name}, value: {value}}}\n"
    path = tmp_path / "orders.yaml"
    path.write_text(f"{HEAD}    customProperties:\n{entry}{entry}", encoding="utf-8")

    told = [(problem.line, problem.message) for problem in problems_of(path)]

    assert told == [(12, f"the custom property {name} stands here twice.")]


@pytest.mark.parametrize(("written", "message"), EXPECTATIONS, ids=[message for _, message in EXPECTATIONS])
def test_a_wrong_expectation_is_refused_with_its_line(write_contract: "Write", written: str, message: str) -> None:
    """Expectations are checked as far as possible without Great Expectations: name, arguments, columns, kinds."""
    path = write_contract(f"""
    - {{name: t, physicalType: text}}
    - name: n
      physicalType: int
      quality:
        - type: custom
          engine: greatExpectations
          implementation: {written}
    """)

    with pytest.raises(ContractInvalid, match=r"orders\.yaml:16"):
        load_contract(path)

    assert any(message in problem.message for problem in problems_of(path))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("required: true", "{type: expect_column_values_to_be_null}"),
        ("logicalTypeOptions: {minimum: 10}", "{type: expect_column_values_to_be_between, kwargs: {max_value: 9.5}}"),
        ("logicalTypeOptions: {minimum: 10}",
         "{type: expect_column_values_to_be_between, kwargs: {max_value: 10, strict_max: true}}"),
        ("enum: [{value: 1}]", "{type: expect_column_values_to_be_in_set, kwargs: {value_set: [2, 3]}}"),
        ("enum: [{value: 1}]", "{type: expect_column_values_to_not_be_in_set, kwargs: {value_set: [1.0, 3]}}"),
        ("enum: [{value: 1}, {value: 2.0}]", "{type: expect_column_values_to_be_between, kwargs: {min_value: 2.5}}"),
        ("enum: [{value: 2}]",
         "{type: expect_column_values_to_be_between, kwargs: {min_value: 2, strict_min: true, max_value: 9}}"),
    ],
)  # fmt: skip
def test_rules_that_no_row_can_pass_together_are_a_problem(write_contract: "Write", one: str, other: str) -> None:
    """Two rules of one column that exclude each other are told, with the line of the other one."""
    path = write_contract(f"""
    - name: n
      physicalType: int
      {one}
      quality:
        - {{type: custom, engine: greatExpectations, implementation: {other}}}
    """)

    problems = problems_of(path)

    assert [p.message for p in problems] == ["no value can pass this rule and the one of line 12 together."]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("timestamptz", 'logicalTypeOptions: {minimum: "2024-06-01T02:00:00+02:00"}',
         '{type: expect_column_values_to_be_between, kwargs: {max_value: "2024-06-01T01:00:00Z"}}'),
        ('"numeric(5,2)"', 'enum: [{value: "1.0"}, {value: "2"}]',
         "{type: expect_column_values_to_be_in_set, kwargs: {value_set: [1, 3]}}"),
    ],
)  # fmt: skip
def test_values_are_compared_as_what_the_column_has(write_contract: "Write", kind: str, one: str, other: str) -> None:
    """One instant can be written in two zones, and one number with more zeros: both rules can be kept."""
    path = write_contract(f"""
    - name: n
      physicalType: {kind}
      {one}
      quality:
        - {{type: custom, engine: greatExpectations, implementation: {other}}}
    """)

    assert [problem.message for problem in problems_of(path)] == []


def test_instants_that_exclude_each_other_are_a_problem(write_contract: "Write") -> None:
    """In whichever zone they are written."""
    path = write_contract("""
    - name: n
      physicalType: timestamptz
      logicalTypeOptions: {minimum: "2024-06-01T00:30:00Z"}
      quality:
        - {type: custom, engine: greatExpectations, implementation: {type: expect_column_values_to_be_between,
           kwargs: {max_value: "2024-06-01T02:00:00+02:00"}}}
    """)

    assert [problem.message for problem in problems_of(path)] == [
        "no value can pass this rule and the one of line 12 together."
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("enum: [{value: abc}]", "{type: expect_column_value_lengths_to_equal, kwargs: {value: 2}}"),
        ("enum: [{value: abc}]", "{type: expect_column_value_lengths_to_be_between, kwargs: {max_value: 2}}"),
        ("logicalTypeOptions: {minLength: 3}", "{type: expect_column_value_lengths_to_equal, kwargs: {value: 2}}"),
        (
            "enum: [{value: abc}, {value: b1}]",
            "{type: expect_column_values_to_match_regex, kwargs: {regex: '^[0-9]+$'}}",
        ),
        ("enum: [{value: abc}]", "{type: expect_column_values_to_not_match_regex, kwargs: {regex: b}}"),
        ("logicalTypeOptions: {pattern: ^a}", "{type: expect_column_values_to_not_match_regex, kwargs: {regex: ^a}}"),
    ],
)
def test_rules_that_no_text_can_pass_together_are_a_problem(write_contract: "Write", one: str, other: str) -> None:
    """Sets are held to lengths and patterns too, and patterns to their opposites."""
    path = write_contract(f"""
    - name: t
      physicalType: text
      {one}
      quality:
        - {{type: custom, engine: greatExpectations, implementation: {other}}}
    """)

    (problem,) = problems_of(path)

    assert "no value can pass this rule and the one of line 1" in problem.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("enum: [{value: abc}, {value: xy}]", "{type: expect_column_value_lengths_to_equal, kwargs: {value: 2}}"),
        ("enum: [{value: abc}]", "{type: expect_column_values_to_match_regex, kwargs: {regex: '(?i)^ABD?C$'}}"),
        ("enum: [{value: a}]", "{type: expect_column_values_to_match_regex, kwargs: {regex: '^\\p{Lower}$'}}"),
        ("logicalTypeOptions: {pattern: ^a}", "{type: expect_column_values_to_not_match_regex, kwargs: {regex: ^ab}}"),
    ],
)
def test_rules_that_a_text_may_pass_together_are_none(write_contract: "Write", one: str, other: str) -> None:
    """One member is enough, and what only Java's patterns can tell is left to them."""
    path = write_contract(f"""
    - name: t
      physicalType: text
      {one}
      quality:
        - {{type: custom, engine: greatExpectations, implementation: {other}}}
    """)

    assert problems_of(path) == []


def test_counts_that_no_table_can_have_together_are_a_problem(tmp_path: Path) -> None:
    """Two conditions on one number exclude each other; on others, or in another unit, they do not."""
    path = write(tmp_path, "- {name: a, physicalType: text}")
    path.write_text(
        path.read_text()
        + """
    quality:
      - {metric: rowCount, mustBeGreaterThan: 10}
      - {metric: rowCount, mustBeLessOrEqualTo: 10}
      - {metric: rowCount, mustBe: 11}
      - {metric: rowCount, mustNotBe: 11}
      - {metric: rowCount, mustBeLessThan: -9, arguments: {comparedTo: previous}}
      - {type: sql, query: SELECT -1, mustBeLessThan: 0}
"""
    )

    problems = [(problem.line, problem.message) for problem in problems_of(path)]

    assert problems == [
        (14, "no table can pass this rule and the one of line 13 together."),
        (15, "no table can pass this rule and the one of line 14 together."),
    ]


def _gx(kind: str, **kwargs: object) -> str:
    return f"      - {{type: custom, engine: greatExpectations, implementation: {{type: {kind}, kwargs: {kwargs}}}}}\n"


def test_row_counts_contradict_whoever_counts(tmp_path: Path) -> None:
    """The metric and Great Expectations' two rules speak of one number; of some rows alone they do not."""
    between, equal = "expect_table_row_count_to_be_between", "expect_table_row_count_to_equal"
    path = write(tmp_path, "- {name: a, physicalType: int}")
    path.write_text(
        path.read_text()
        + "    quality:\n"
        + _gx(between, min_value=5)
        + "      - {metric: rowCount, mustBeLessThan: 5}\n"
        + "      - {metric: rowCount, mustBeLessOrEqualTo: 5}\n"
        + _gx(equal, value=4)
        + _gx(between, max_value=3, row_condition="a > 1", condition_parser="spark")
    )

    assert [(problem.line, problem.message) for problem in problems_of(path)] == [
        (13, "no table can pass this rule and the one of line 12 together."),
        (15, "no table can pass this rule and the one of line 12 together."),
    ]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({}, {}, True),
        ({}, {"or_equal": True}, True),
        ({"or_equal": True}, {"or_equal": True}, False),
        ({}, {"ignore_row_if": "either_value_is_missing"}, False),
        ({}, {"row_condition": "a > 1", "condition_parser": "spark"}, False),
    ],
)
def test_two_columns_cannot_each_be_the_larger_one(
    tmp_path: Path, one: dict[str, object], other: dict[str, object], *, told: bool
) -> None:
    """Nor the larger one and equal; where both may be equal, or one may be missing, rows can pass."""
    greater, equal = "expect_column_pair_values_a_to_be_greater_than_b", "expect_column_pair_values_to_be_equal"
    path = write(tmp_path, "- {name: a, physicalType: int}\n- {name: b, physicalType: int}")
    head = path.read_text() + "    quality:\n"
    message = "no row with both values can pass this rule and the one of line 13 together."

    path.write_text(
        head + _gx(greater, column_A="a", column_B="b", **one) + _gx(greater, column_A="b", column_B="a", **other)
    )
    assert [problem.message for problem in problems_of(path)] == [message] * told

    path.write_text(head + _gx(greater, column_A="a", column_B="b", **one) + _gx(equal, column_A="b", column_B="a"))
    assert [problem.message for problem in problems_of(path)] == [message] * ("or_equal" not in one)

    path.write_text(
        head + _gx(greater, column_A="a", column_B="b") + _gx(greater, column_A="a", column_B="b", or_equal=True)
    )
    assert not problems_of(path)


def test_another_problem_hides_no_contradiction(tmp_path: Path) -> None:
    """Neither of rows nor of the table; a rule that is malformed itself is compared with none."""
    path = tmp_path / "orders.yaml"
    path.write_text(HEAD + """\
      - {name: a, physicalType: mystery}
      - name: b
        physicalType: int
        logicalTypeOptions: {minimum: 5}
        quality:
          - {metric: invalidValues, arguments: {validValues: [1, 2]}, mustBe: 0}
          - {metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0}
    quality:
      - {metric: rowCount, mustBeLessThan: 3}
      - {metric: rowCount, mustBeGreaterThan: 3}
      - {metric: rowCount, mustBe: 1, mustBeLessThan: 1}
""", encoding="utf-8")  # fmt: skip

    told = [(problem.line, problem.message) for problem in problems_of(path)]

    assert [line for line, _ in told] == [10, 13, 16, 19, 20]
    assert (13, "no value can pass this rule and the one of line 15 together.") in told
    assert (19, "no table can pass this rule and the one of line 18 together.") in told


def test_rules_with_a_condition_do_not_contradict(write_contract: "Write") -> None:
    """A rule for some rows only says nothing of the others."""
    path = write_contract("""
    - name: n
      physicalType: int
      required: true
      quality:
        - type: custom
          engine: greatExpectations
          implementation:
            type: expect_column_values_to_be_null
            kwargs: {row_condition: id < 0, condition_parser: spark}
    """)

    assert problems_of(path) == []


def test_every_problem_of_a_file_is_told_in_its_order(write_contract: "Write") -> None:
    """The check goes on after the first problem; loading names the first and counts the rest."""
    path = write_contract("""
    - {name: a, quality: [{type: sql, mustBe: 1}]}
    - {name: b, physicalType: mystery}
    - {name: c, quality: [{metric: nulValues, mustBe: 0}]}
    """)

    assert [problem.line for problem in problems_of(path)] == [10, 11, 12]
    with pytest.raises(ContractInvalid, match=r"2 more: see `cdcm contract lint`"):
        load_contract(path)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("- 1", 1, "a contract is a mapping"),
        ("a: [", 1, "not valid YAML"),
        ("a: &a [*a, *a, *a]", 1, "not valid YAML"),
        ("apiVersion: v3.0.2\nkind: DataContract\nscema: []", 3, "not as ODCS says"),
        ("apiVersion: v2.2.0\nkind: DataContract\nschema: []", 1, "apiVersion is not one of ODCS 3"),
        ("apiVersion: v3.0.2\nkind: Product\nschema: []", 2, "kind is not DataContract"),
        ("apiVersion: v3.0.2\nkind: DataContract\nschema: []", 3, "the contract has no table"),
        ("apiVersion: v3.0.2\nkind: DataContract\nschema:\n  - name: a\n    properties: 3", 5, "not as ODCS says"),
    ],
)
def test_a_file_that_is_no_contract_is_told_so(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    """Whatever is in the file, the answer is a sentence with a line, never a stack trace."""
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")

    found = [problem for problem in problems_of(path) if message in problem.message]

    assert [problem.line for problem in found] == [line]
    with pytest.raises(ContractInvalid):
        load_contract(path)


def test_a_missing_or_unreadable_file_is_told_so(tmp_path: Path) -> None:
    """No file, a folder, and bytes that are no text are problems of the file."""
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")

    found = [problems_of(path)[0].message for path in (tmp_path / "none.yaml", tmp_path, binary)]

    assert [message.split(":")[0] for message in found] == [
        "there is no such file.",
        "the file cannot be read",
        "the file is not UTF-8 text.",
    ]


@pytest.mark.parametrize(
    ("rule", "metric"),
    [("nullCheck", "nullValues"), ("duplicateCount", "duplicateValues"), ("validValues", "invalidValues, with its"),
     ("countCheck", "rowCount"), ("between", "the options minimum and maximum of the column")],
)  # fmt: skip
def test_an_earlier_name_of_a_metric_is_told_with_that_of_odcs_3_1(
    write_contract: "Write", rule: str, metric: str
) -> None:
    """ODCS 3.0 had no metrics and left the names of rules to tools."""
    (problem,) = problems_of(write_contract(f"- {{name: a, quality: [{{rule: {rule}, mustBe: 0}}]}}"))

    assert f"Did you mean {metric}" in problem.do


def test_a_contract_is_checked_against_the_table_it_is_for(write_contract: "Write") -> None:
    """With the table's columns at hand, declared columns that it lacks or has with another kind of type are told."""
    path = write_contract("""
    - {name: amout, physicalType: int}
    - {name: t, physicalType: text}
    - {name: Doc, logicalType: object}
    - {name: n, physicalType: int, customProperties: [{property: mask, value: hash}]}
    - {name: gone, physicalType: int, customProperties: [{property: drop, value: true}]}
    """)
    columns = {"ID": "bigint", "amount": "decimal(12,2)", "t": "int", "doc": "struct<>", "n": "string", "more": "date"}

    problems = problems_of(path, columns=columns)

    assert [(p.line, p.do) for p in problems] == [
        (10, "Did you mean amount?"),
        (
            11,
            "Declare the type that the table has; `cdcm replay TABLE --publish` gives it this one where values allow.",
        ),
    ]


def test_a_contract_and_its_table_agree_about_the_key(write_contract: "Write") -> None:
    """What the table tells rows apart by is not masked, and is all in the primary key; case does not count."""
    path = write_contract("""
    - {name: tenant, physicalType: int, customProperties: [{property: mask, value: redact}]}
    - {name: t, physicalType: text}
    """)

    def told(*key: str) -> list[tuple[int | None, str]]:
        (file,) = lint(path, key=key).files
        return [(problem.line, problem.message) for problem in file.problems]

    assert told() == told("ID") == []
    assert told("Tenant", "id") == [
        (9, "the primary key is id, and the table tells rows apart by Tenant, id together."),
        (10, "column tenant is of the table's key, which cannot be masked: rows are told apart by it."),
    ]


@pytest.mark.parametrize(("new", "is_hidden"), [("client", False), ("CARD", True)])
def test_a_mask_goes_with_a_column_that_the_pipeline_renames(
    write_contract: "Write", new: str, *, is_hidden: bool
) -> None:
    """Under the new name nothing would hide its values; that the contract declares it without a mask is not enough."""
    path = write_contract("""
    - {name: Customer, physicalType: text, customProperties: [{property: mask, value: redact}]}
    - {name: client, physicalType: text}
    - {name: card, physicalType: text, customProperties: [{property: drop, value: true}]}
    """)

    (file,) = lint(path, renames={"customer": new, "other": "client"}).files

    what = f"column customer is masked, which the pipeline renames to {new}, and {new} has no mask."
    assert [(problem.line, problem.message) for problem in file.problems] == ([] if is_hidden else [(10, what)])


@pytest.mark.parametrize(
    ("place", "shown"),
    [("contracts/gone.yaml", "contracts/gone.yaml"), ("../other/gone.yaml", "../other/gone.yaml")],
)
def test_a_contract_that_is_not_there_is_named_as_the_pipeline_has_it(tmp_path: Path, place: str, shown: str) -> None:
    """With its folder, which a reader looks for, and without the machine's."""
    root = tmp_path / "here"
    path = (root / place).resolve()

    with pytest.raises(ContractInvalid) as refused:
        load_contract(path, root=root)

    assert refused.value.what == f"Contract {shown}, file: there is no such file."
    assert [file.path for file in lint(path, root=root).files] == [shown]
