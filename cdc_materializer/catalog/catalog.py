"""The lake without Spark: tables, markers and rows, for commands that need no session.

PyIceberg is imported inside the functions: it takes a second and more. For the SQLite catalog its SqlCatalog is not
used, because SQLAlchemy would take half a second on top: one query finds a table's metadata file, `local_table` reads
what a report needs, and PyIceberg the rest.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import quote

from cdc_materializer.catalog.local_table import (
    DAMAGE,
    LocalTable,
    NotReadable,
    SnapshotLine,
    main_line,
    newest_marker,
    partition_fields,
    with_seen,
)
from cdc_materializer.config import CatalogConfig, reveal
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.marker.marker import MARKER_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.retry import NEVER, Deadline

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

#: How long to wait for another process's commit to the SQLite file, in seconds; a commit takes some milliseconds.
SQLITE_WAIT_S = 10.0

# PyIceberg's kind of catalog by Iceberg's `type` and by the class that `catalog-impl` names.
_KINDS = {
    "rest": "rest",
    "glue": "glue",
    "hive": "hive",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
}
#: How long Java's client waits for a connection, and for an answer: a commit may take its time, and is unknown then.
_REST_WAITS = {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "180000"}
_CHECK = "Check the catalog's settings and that it is up; `--debug` shows the cause."


def spark_properties(config: CatalogConfig) -> dict[str, str]:
    """Return the Spark properties that make ``config`` a catalog of the session; secrets are in plain text."""
    prefix, own = f"spark.sql.catalog.{config.name}", reveal(config.properties)
    is_rest = _KINDS.get(own.get("catalog-impl") or own.get("type", "")) == "rest"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{name}": value for name, value in {**(_REST_WAITS if is_rest else {}), **own}.items()},
        # With its cache a session goes on seeing the first snapshot it saw (recipes: Iceberg, section 12).
        f"{prefix}.cache-enabled": "false",
    }


class _Catalog(Protocol):
    """Where a table's current metadata is found."""

    def load(self, name: TableName) -> "Table | None":
        """Return the table as it is now, None when there is none."""

    def local(self, name: TableName) -> LocalTable | None:
        """Return the table as it is now, if it is on this machine's disk."""


class Tables:
    """The catalog's tables, read as they are when asked.

    `values_of`, `values_at`, `lines_of` and `marker_of` are for commands that must be fast: they read a local table
    without PyIceberg. `load`, `marker` and `rows` are PyIceberg's, for everything.
    """

    def __init__(self, catalog: _Catalog) -> None:
        self._catalog = catalog

    def values_of(self, name: TableName, columns: Sequence[str], at: int | None = None) -> list[dict[str, Any]] | None:
        """Return ``columns`` of every row of a small table as Python values, None when there is no such table.

        ``at`` is the id of the snapshot to read; main's if left out.
        """
        try:
            local = self._catalog.local(name)
            if local is not None:
                return local.rows(columns, at)
        except (NotReadable, OSError):
            pass  # PyIceberg reads more, and sees the files that a compaction has replaced meanwhile
        table = self.load(name)
        return None if table is None else self.rows(table, columns, at=at).to_pylist()

    def values_at(
        self, name: TableName, columns: Sequence[str], places: Collection[tuple[int, int]]
    ) -> list[dict[str, Any]]:
        """Return ``columns``, with `partition` and `offset`, of a raw table's messages at ``places`` (those two)."""
        try:
            local = self._catalog.local(name)
            if local is not None:
                return local.rows_at(columns, places)
        except (NotReadable, OSError):  # as above
            pass
        table = self.load(name)
        if table is None or not places:
            return []
        from pyiceberg import expressions

        # The types that PyIceberg declares for this class are not those of its constructor.
        taken = cast("Any", expressions.In)("offset", {offset for _, offset in places})
        known = {"partition", "offset", *columns} & {*table.schema().column_names}  # of an earlier version are fewer
        rows = self.rows(table, tuple(known), taken).to_pylist()
        return [{**dict.fromkeys(columns), **row} for row in rows if (row["partition"], row["offset"]) in places]

    def lines_of(self, name: TableName) -> tuple[SnapshotLine, ...]:
        """Return the snapshots of the table's main that are kept, newest first; none when there is no such table."""
        try:
            local = self._catalog.local(name)
            if local is not None:
                return local.lines()
        except (NotReadable, OSError):  # as above
            pass
        table = self.load(name)
        return () if table is None else main_line(snapshots_of(table), table.metadata.current_snapshot_id)

    def marker_of(self, name: TableName) -> Marker | None:
        """Return the newest marker of the table's main, None when there is no such table or no marker in it."""
        try:
            local = self._catalog.local(name)
            if local is not None:
                return local.marker()
        except (NotReadable, OSError):  # as above
            pass
        table = self.load(name)
        return None if table is None else self.marker(table)

    def columns_of(self, name: TableName) -> tuple[dict[str, str], frozenset[str]] | None:
        """Return the DDL types of the table's columns by name, and the names of those that identify a row.

        None when there is no such table. Of nested columns only the kind is told (`array<>`).
        """
        try:
            local = self._catalog.local(name)
            if local is not None:
                types, key = local.columns()
                return {field: _ddl(kind) for field, kind in types.items()}, key
        except (NotReadable, OSError, KeyError):  # as above
            pass
        table = self.load(name)
        if table is None:
            return None
        schema = table.schema()
        types = {field.name: _ddl(str(field.field_type)) for field in schema.fields}
        return types, frozenset(schema.identifier_field_names())

    def partitions_of(self, name: TableName) -> tuple[str, ...] | None:
        """Return the fields of the table's partition spec as `partition_field` writes them; None for no table."""
        try:
            local = self._catalog.local(name)
            if local is not None:
                return local.partitions()
        except (NotReadable, OSError, KeyError):  # as above
            pass
        table = self.load(name)
        if table is None:
            return None
        columns = {field.source_id: table.schema().find_column_name(field.source_id) for field in table.spec().fields}
        return partition_fields((str(field.transform), columns[field.source_id]) for field in table.spec().fields)

    def uuid_of(self, name: TableName) -> str | None:
        """Return Iceberg's own identity of the table, None when there is no such table."""
        try:
            local = self._catalog.local(name)
            if local is not None:
                return str(local.metadata["table-uuid"])
        except (NotReadable, OSError):  # as above
            pass
        table = self.load(name)
        return None if table is None else str(table.metadata.table_uuid)

    def load(self, name: TableName) -> "Table | None":
        """Return the table as it is now, None when there is none; raise LakeUnavailable when it cannot be read."""
        return self._catalog.load(name)

    def marker(self, table: "Table") -> Marker | None:
        """Return the newest marker of the table's main, see `local_table.newest_marker`."""
        metadata = table.metadata
        kept = metadata.refs.get(MARKER_TAG)
        tagged = kept.snapshot_id if kept is not None else None
        return newest_marker(snapshots_of(table), metadata.current_snapshot_id, tagged)

    def rows(
        self,
        table: "Table",
        columns: Sequence[str] = ("*",),
        row_filter: "str | BooleanExpression | None" = None,
        at: int | None = None,
    ) -> "pa.Table":
        """Return the table's rows: of ``columns``, all if left out, those that ``row_filter`` takes, all if left out.

        A filter with values from outside is built of PyIceberg's expressions, never as text. ``at`` is the id of the
        snapshot to read; main's if left out.
        """
        from pyiceberg.expressions import AlwaysTrue

        taken = AlwaysTrue() if row_filter is None else row_filter
        try:
            return table.scan(row_filter=taken, selected_fields=tuple(columns), snapshot_id=at).to_arrow()
        except (OSError, *DAMAGE) as error:
            raise LakeUnavailable(f"Data of the table {'.'.join(table.name())} cannot be read.", _CHECK) from error

    def batches(
        self, table: "Table", columns: Sequence[str], row_filter: "BooleanExpression | None" = None
    ) -> "Iterator[pa.RecordBatch]":
        """Give the same rows piece by piece, so that not all of them are in memory."""
        from pyiceberg.expressions import AlwaysTrue

        taken = AlwaysTrue() if row_filter is None else row_filter
        try:
            yield from table.scan(row_filter=taken, selected_fields=tuple(columns)).to_arrow_batch_reader()
        except (OSError, *DAMAGE) as error:  # the latter also where it has no such column
            raise LakeUnavailable(f"Data of the table {'.'.join(table.name())} cannot be read.", _CHECK) from error


#: What Spark calls Iceberg's types that it names otherwise.
_SPARK_TYPES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}


def _ddl(iceberg: str) -> str:
    kind, _, parameters = iceberg.partition("(")
    if kind == "decimal":
        return f"decimal({parameters.replace(' ', '')}"
    nested = {"list": "array<>", "map": "map<>", "struct": "struct<>"}.get(kind.partition("<")[0])
    return nested or _SPARK_TYPES.get(kind) or ("binary" if kind.startswith("fixed") else kind)


def snapshots_of(table: "Table") -> Iterator[SnapshotLine]:
    """Give every snapshot that PyIceberg's table keeps, of all its branches."""
    log = [(entry.snapshot_id, entry.timestamp_ms) for entry in table.metadata.snapshot_log]
    return with_seen(_snapshots(table), log)


def _snapshots(table: "Table") -> Iterator[SnapshotLine]:
    for found in table.metadata.snapshots:
        summary: Mapping[str, str] = {}
        if found.summary:
            summary = {"operation": found.summary.operation.value, **found.summary.additional_properties}
        numbers = found.snapshot_id, found.parent_snapshot_id, found.sequence_number or 0
        yield SnapshotLine(*numbers, summary, found.timestamp_ms)


def needs_spark(config: CatalogConfig) -> bool:
    """Whether only Spark can open a catalog of this kind."""
    given = reveal(config.properties)
    return config.sqlite_path is None and (given.get("catalog-impl") or given.get("type", "")) not in _KINDS


def open_tables(config: CatalogConfig, deadline: Deadline = NEVER) -> Tables:
    """Open the catalog of ``config`` for reading; raise LakeUnavailable where PyIceberg cannot open its kind.

    A SQLite catalog whose file is not there yet has no tables; it is not made. Neither a lock on it nor a REST
    catalog's answer is waited for past the deadline.
    """
    path = config.sqlite_path
    if path is not None:
        return Tables(_SqliteCatalog(config, path, deadline))
    return Tables(_RemoteCatalog(config, deadline))


class _SqliteCatalog:
    """Iceberg's JDBC catalog in a SQLite file."""

    def __init__(self, config: CatalogConfig, path: "Path", deadline: Deadline) -> None:
        self._name, self._path, self._deadline = config.name, path, deadline
        # What is left is for the file system: `s3.endpoint` and the like.
        self._file_properties = {k: v for k, v in reveal(config.properties).items() if k not in {"type", "uri"}}

    def load(self, name: TableName) -> "Table | None":
        """Return the table as it is now, None when there is none."""
        location = self._metadata_location(name)
        if location is None:
            return None
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.table import StaticTable

        try:
            return StaticTable.from_metadata(location, self._file_properties)
        except ValidationError as error:
            if _is_no_json(error):
                raise _damaged(name, location) from error
            raise LakeUnavailable(
                f"The table {name} has something that PyIceberg does not know, such as a column of type variant.",
                "Take out what another program has added; `--debug` shows what it is.",
            ) from error
        except DAMAGE as error:
            raise _damaged(name, location) from error
        except OSError as error:
            raise LakeUnavailable(f"The metadata of the table {name} cannot be read.", _CHECK) from error

    def local(self, name: TableName) -> LocalTable | None:
        """Return the table as it is now, None when there is none; raise NotReadable where it is not on this disk."""
        location = self._metadata_location(name)
        return None if location is None else LocalTable.open(location)

    def _metadata_location(self, name: TableName) -> str | None:
        if not self._path.exists():
            return None
        # Not `mode=ro`: after a killed commit the next reader has to roll back its journal, and may only then read.
        address = f"file:{quote(str(self._path))}?mode=rw"
        try:
            with closing(
                sqlite3.connect(address, uri=True, timeout=self._deadline.within(SQLITE_WAIT_S))
            ) as connection:
                return _find_metadata(connection, self._name, name)
        except sqlite3.Error as error:
            raise LakeUnavailable(
                f"The catalog file {self._path.name} cannot be read: {error}.",
                "Check that it is Iceberg's SQLite catalog and that no other process keeps it locked.",
            ) from error


def _is_no_json(error: Exception) -> bool:
    """Whether PyIceberg says so of a metadata file; of what it does not know in one it raises the same error."""
    from pydantic import ValidationError

    cause = error.__cause__
    return isinstance(cause, ValidationError) and any(found["type"] == "json_invalid" for found in cause.errors())


def _damaged(name: TableName, location: str) -> LakeUnavailable:
    what = f"The metadata file of the table {name} is damaged, as a full disk or a power cut leaves one: {location}."
    return LakeUnavailable(what, "Put it back from a copy, or have the catalog name the one before it.")


def _find_metadata(connection: sqlite3.Connection, catalog: str, name: TableName) -> str | None:
    connection.row_factory = sqlite3.Row
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone() is None:
        return None
    row: Mapping[str, str | None] | None = connection.execute(
        "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
        (catalog, ".".join(name.namespace), name.name),
    ).fetchone()
    # `iceberg_type` tells views from tables; catalogs of version 0 have neither views nor that column.
    if row is None or ("iceberg_type" in row.keys() and row["iceberg_type"] not in {None, "TABLE"}):  # noqa: SIM118
        return None
    return row["metadata_location"]


def _client(name: str, properties: dict[str, str], deadline: Deadline) -> "Catalog":
    if properties["type"] == "rest":
        from cdc_materializer.catalog.rest import PatientRestCatalog

        return PatientRestCatalog(name, deadline, properties)
    from pyiceberg.catalog import load_catalog

    return load_catalog(name, **properties)


class _RemoteCatalog:
    """A catalog that PyIceberg has a client for."""

    def __init__(self, config: CatalogConfig, deadline: Deadline) -> None:
        properties = reveal(config.properties)
        given = properties.pop("catalog-impl", None) or properties.get("type", "")
        if given not in _KINDS:
            raise LakeUnavailable(
                f"The catalog `{config.name}` is of the kind `{given}`, which can only be read through Spark.",
                "Use a command that starts it (`cdcm run`, `cdcm verify`, `cdcm why TABLE`, `cdcm query SQL`), or a "
                "catalog of the kind REST, Glue, Hive or SQLite.",
            )
        self._name = config.name
        try:
            self._catalog = _client(config.name, {**properties, "type": _KINDS[given]}, deadline)
        except Exception as error:  # each client has its own errors, down to those of its HTTP library
            is_there = type(error).__name__ != "NotInstalledError"
            do = _CHECK if is_there else f"Its client is not installed: `pip install 'pyiceberg[{_KINDS[given]}]'`."
            raise LakeUnavailable(f"The catalog `{config.name}` cannot be opened.", do) from error

    def load(self, name: TableName) -> "Table | None":
        """Return the table as it is now, None when there is none."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog.load_table((*name.namespace, name.name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:  # as above
            raise LakeUnavailable(
                f"The table {name} cannot be loaded from the catalog `{self._name}`.", _CHECK
            ) from error

    def local(self, name: TableName) -> None:
        """Return None: what a server says of a table is for PyIceberg to follow."""
