"""What Iceberg's Java API says of snapshots and schemas, each as one answer.

Py4J asks the JVM for each key and each value of a map by itself, and for each column's name: a summary of 25 entries is
some 50 questions, and the summaries of one small batch were 3,300 of its 11,300.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaClass, JavaObject


def summary_of(snapshot: Any) -> dict[str, str]:  # noqa: ANN401 - a Java object
    """The summary of a snapshot, without its operation."""
    told = snapshot.summary()
    if not isinstance(told, JavaObject):
        return dict(told)  # of the lake in memory, which has no JVM
    found: dict[str, str] = json.loads(_map_writer(told._gateway_client)(told))  # noqa: SLF001 - no public way to it
    return found


def iceberg_table(session: Any, path: str) -> Any:  # noqa: ANN401 - Java objects
    """The table at a path, by the catalogs of Java's session, in Iceberg's own API."""
    return _loader(session._gateway_client)(session, path)  # noqa: SLF001 - as above


def columns_by_id(schema: Any) -> dict[int, str]:  # noqa: ANN401 - a Java object
    """The names of a schema's top-level columns by their field ids, in order."""
    if not isinstance(schema, JavaObject):
        return {column.fieldId(): column.name() for column in schema.columns()}
    return {field["id"]: field["name"] for field in _told(schema)}


def fields_by_id(schema: Any, column: str) -> dict[int, str]:  # noqa: ANN401 - a Java object
    """The names of a struct column's fields by their field ids, in order; none where there is no such column."""
    kind = next((told["type"] for told in _told(schema) if told["name"] == column), None)
    return {field["id"]: field["name"] for field in kind["fields"]} if isinstance(kind, dict) else {}


def derived_partitions(table: Any) -> frozenset[str]:  # noqa: ANN401 - a Java object
    """The names of a table's partition fields, now and formerly, that are not those of their columns.

    Iceberg makes one for a transform of a column; and a column that is renamed leaves its own to its partition field.
    """
    schema = table.schema()
    fields = [field for spec in table.specs().values() for field in spec.fields()]
    return frozenset(one.name() for one in fields if one.name() != schema.findColumnName(one.sourceId()))


def format_of(table: Any) -> dict[str, str]:  # noqa: ANN401 - a Java object
    """The properties of a table, its `format-version` among them."""
    jvm = table._gateway_client  # noqa: SLF001 - as above
    properties: dict[str, str] = json.loads(_map_writer(jvm)(table.properties()))
    return properties | {"format-version": str(JavaClass("org.apache.iceberg.TableUtil", jvm).formatVersion(table))}


def _told(schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a Java object
    found: list[dict[str, Any]] = json.loads(_schema_writer(schema._gateway_client)(schema))["fields"]  # noqa: SLF001 - as above
    return found


@lru_cache(maxsize=1)
def _map_writer(jvm: Any) -> Any:  # noqa: ANN401 - Py4J's connection to a JVM, and a function there
    return JavaClass("com.fasterxml.jackson.databind.ObjectMapper", jvm)().writeValueAsString


@lru_cache(maxsize=1)
def _schema_writer(jvm: Any) -> Any:  # noqa: ANN401 - as above
    return JavaClass("org.apache.iceberg.SchemaParser", jvm).toJson


@lru_cache(maxsize=1)
def _loader(jvm: Any) -> Any:  # noqa: ANN401 - as above
    return JavaClass("org.apache.iceberg.spark.Spark3Util", jvm).loadIcebergTable
