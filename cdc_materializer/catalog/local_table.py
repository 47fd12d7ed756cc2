"""A small Iceberg table on this machine's disk, read without PyIceberg.

`cdcm report` has to answer within a second. PyIceberg and pandas, which its scan pulls in, take longer than that to be
imported. What a report needs is little: the newest marker, and a few plain columns of our own quarantine tables. This
module reads just that, from the files that the Iceberg specification describes (table metadata, manifest lists,
manifests, Parquet, position deletes and deletion vectors), and says `NotReadable` to everything else; `catalog.py` then
asks PyIceberg. A test holds both to the same answers.
"""

import gzip
import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cdc_materializer.marker.foreign import has_replaced
from cdc_materializer.marker.marker import MARKER_TAG, Marker
from cdc_materializer.names import TRANSFORM

if TYPE_CHECKING:
    import pyarrow as pa

_DATA, _POSITION_DELETES = 0, 1
_DELETED_ENTRY = 2
# Reserved field ids of the columns of a position delete file (Iceberg specification, "Reserved Field IDs").
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_MILLISECONDS = 1_000
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added where the column has one


class NotReadable(Exception):
    """Raised where a table has what this module does not read; another reader has to."""


#: What the readers of JSON, Avro, Parquet and of packed files raise where one is cut or damaged, as by a full disk.
DAMAGE = (ValueError, EOFError, LookupError, gzip.BadGzipFile, zlib.error, struct.error)


@contextmanager
def _intact() -> Iterator[None]:
    """Leave a damaged file to another reader, which tells of it as of any that it cannot read."""
    try:
        yield
    except DAMAGE as error:
        raise NotReadable from error


@dataclass(frozen=True)
class SnapshotLine:
    """One snapshot as the metadata lists it.

    `is_seen` says whether readers of main have stood on it, as far back as the table's log goes: what a replay folds
    comes into main's line all at once, and only its last snapshot is seen.
    """

    snapshot_id: int
    parent_id: int | None
    sequence: int
    summary: Mapping[str, str]
    timestamp_ms: int = 0
    is_seen: bool = True

    @property
    def at(self) -> datetime:
        """When the snapshot was made."""
        return datetime.fromtimestamp(self.timestamp_ms / _MILLISECONDS, UTC)


def rows_in(summary: Mapping[str, str]) -> int:
    """Rows that a reader of a snapshot sees: those written, less those that deletes took away by their position."""
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))


def with_seen(snapshots: Iterable[SnapshotLine], log: Iterable[tuple[int, int]]) -> Iterator[SnapshotLine]:
    """Snapshots, with whether main has stood on them.

    Args:
        snapshots: of a table.
        log: which of them main has stood on since when, in milliseconds since 1970; expiry shortens it.
    """
    since = dict(log)
    first = min(since.values(), default=None)
    for snapshot in snapshots:
        is_older = first is None or snapshot.timestamp_ms < first
        yield replace(snapshot, is_seen=is_older or snapshot.snapshot_id in since)


def main_line(snapshots: Iterable[SnapshotLine], head: int | None) -> tuple[SnapshotLine, ...]:
    """Return ``head`` and its ancestors, newest first, as far as they are kept."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    line: list[SnapshotLine] = []
    next_id = head
    while next_id is not None and next_id in by_id:
        line.append(by_id[next_id])
        next_id = by_id[next_id].parent_id
    return tuple(line)


def newest_marker(snapshots: Iterable[SnapshotLine], head: int | None, tagged: int | None) -> Marker | None:
    """Return the newest marker of main: that of ``head``, else of the nearest ancestor that has one.

    Maintenance leaves snapshots without a marker and can expire those between head and the marked one; a tag keeps that
    one (design section 3), so the ``tagged`` snapshot counts where no ancestor that is left has a marker, unless it is
    younger than ``head``: then main was rolled back, and the tag tells of what is not in it.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    next_id, first = head, None
    while next_id is not None and next_id in by_id:
        marker = Marker.from_summary(by_id[next_id].summary)
        if marker is not None:
            return marker
        first, next_id = by_id[next_id], by_id[next_id].parent_id
    if head is None or tagged not in by_id or (head in by_id and by_id[tagged].sequence > by_id[head].sequence):
        return None
    kept = by_id[tagged].summary
    is_whole = first is not None and first.parent_id is None
    if first is not None and is_whole and has_replaced(first.summary.get("operation"), first.summary, kept):
        # Another program has made the table anew: what the tag tells of is gone.
        return None
    return Marker.from_summary(kept)


def partition_fields(fields: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    """Name the fields of a partition spec by Iceberg's transform and the column; `void` ones partition nothing."""
    named = [(transform, column) for transform, column in fields if transform != "void"]
    return tuple(f"{column}" if transform == "identity" else f"{transform}({column})" for transform, column in named)


def partition_field(text: str) -> str:
    """A field of `partitioned_by` as a partition spec names it: `days(placed_at)` is `day(placed_at)` there."""
    match = TRANSFORM.fullmatch(text.strip())
    if match is None:
        return text.strip()
    name, width, column = match[1].lower().removesuffix("s"), match[2], match[3].strip()
    return f"{name}[{width}]({column})" if width else f"{name}({column})"


@dataclass(frozen=True)
class LocalTable:
    """A table as one metadata file describes it."""

    metadata: Mapping[str, Any]

    @classmethod
    def open(cls, metadata_location: str) -> Self:
        """Read the metadata file; raise NotReadable unless it is on this machine's disk, and whole."""
        content = _path(metadata_location).read_bytes()
        with _intact():
            return cls(json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content))

    @property
    def head(self) -> int | None:
        """The id of main's snapshot; None where nothing was written yet, which old metadata says as -1."""
        head = self.metadata.get("current-snapshot-id")
        return None if head in {None, -1} else head

    def marker(self) -> Marker | None:
        """Return the newest marker of main, see `newest_marker`."""
        kept = self.metadata.get("refs", {}).get(MARKER_TAG)
        return newest_marker(self._snapshots(), self.head, kept["snapshot-id"] if kept is not None else None)

    def lines(self) -> tuple[SnapshotLine, ...]:
        """Return the snapshots of main that are kept, newest first."""
        log = [(entry["snapshot-id"], entry["timestamp-ms"]) for entry in self.metadata.get("snapshot-log", ())]
        return main_line(with_seen(self._snapshots(), log), self.head)

    def columns(self) -> tuple[dict[str, str], frozenset[str]]:
        """Return Iceberg's types of the columns by name, of nested ones only the kind, and who identifies a row."""
        schemas = {schema["schema-id"]: schema for schema in self.metadata["schemas"]}
        schema = schemas[self.metadata["current-schema-id"]]
        types = {field["name"]: field["type"] for field in schema["fields"]}
        key = {field["name"] for field in schema["fields"] if field["id"] in schema.get("identifier-field-ids", ())}
        return {name: kind if isinstance(kind, str) else kind["type"] for name, kind in types.items()}, frozenset(key)

    def partitions(self) -> tuple[str, ...]:
        """Return the fields of the partition spec, see `partition_fields`; NotReadable for a nested column's."""
        schemas = {schema["schema-id"]: schema for schema in self.metadata["schemas"]}
        names = {field["id"]: field["name"] for field in schemas[self.metadata["current-schema-id"]]["fields"]}
        specs = {spec["spec-id"]: spec["fields"] for spec in self.metadata["partition-specs"]}
        fields = specs[self.metadata["default-spec-id"]]
        if not all(field["source-id"] in names for field in fields):
            raise NotReadable
        return partition_fields((field["transform"], names[field["source-id"]]) for field in fields)

    def rows(self, columns: Sequence[str], at: int | None = None) -> list[dict[str, Any]]:
        """Return ``columns`` of every row, as Python values; times with a zone are in UTC.

        Args:
            columns: plain columns of the table.
            at: id of the snapshot; main's if left out.

        Raises NotReadable for other than plain columns, files that are not Parquet on this disk, and equality deletes.
        """
        fields = self._field_ids(columns)
        data, deletes = self._files(self.head if at is None else at)
        gone = _deleted_positions(deletes)
        paths = [file["file_path"] for file in data]
        return [row for path in paths for row in _live_rows(path, fields, gone[path])]

    def rows_at(self, columns: Sequence[str], places: Collection[tuple[int, int]]) -> list[dict[str, Any]]:
        """Return ``columns`` of those rows of a raw table that hold the messages at ``places``: (partition, offset).

        Files whose bounds say that they have none of them are not opened. Raises NotReadable as `rows` does, and for
        a table from which rows were deleted, which raw never is.
        """
        where = ("partition", "offset")
        fields = self._field_ids((*where, *columns))
        data, deletes = self._files(self.head)
        if deletes:
            raise NotReadable
        ids = tuple(fields[name] for name in where)
        files = [file["file_path"] for file in data if _may_hold(file, ids, places)]
        return [row for path in files for row in _rows_at(path, fields, places)]

    def _snapshots(self) -> Iterator[SnapshotLine]:
        for s in self.metadata.get("snapshots", ()):
            numbers = s["snapshot-id"], s.get("parent-snapshot-id"), s.get("sequence-number", 0)
            yield SnapshotLine(*numbers, s.get("summary", {}), s.get("timestamp-ms", 0))

    def _field_ids(self, columns: Sequence[str]) -> dict[str, int]:
        schemas = self.metadata.get("schemas", ())
        schema = next((s for s in schemas if s["schema-id"] == self.metadata.get("current-schema-id")), None)
        if schema is None:
            raise NotReadable
        by_name = {field["name"]: field for field in schema["fields"]}
        if not all(column in by_name and "initial-default" not in by_name[column] for column in columns):
            raise NotReadable
        return {column: by_name[column]["id"] for column in columns}

    def _files(self, at: int | None) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Return the entries of a snapshot's data files and of its delete files."""
        snapshot = next((s for s in self.metadata.get("snapshots", ()) if s["snapshot-id"] == at), None)
        if snapshot is None:
            return [], []
        data: list[Mapping[str, Any]] = []
        deletes: list[Mapping[str, Any]] = []
        for manifest in _avro(snapshot.get("manifest-list", "")):
            for entry in _avro(manifest["manifest_path"]):
                file = entry["data_file"]
                if entry["status"] == _DELETED_ENTRY:
                    continue
                if file.get("content", _DATA) == _DATA and file["file_format"].lower() == "parquet":
                    data.append(file)
                elif file.get("content") == _POSITION_DELETES:
                    deletes.append(file)
                else:
                    raise NotReadable
        return data, deletes


def _path(location: str) -> Path:
    """Return the path of a location, which Iceberg writes as it is, never percent-encoded."""
    path = "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location
    if not path.startswith("/"):
        raise NotReadable
    return Path(path)


def _avro(location: str) -> list[Any]:
    import fastavro

    with _path(location).open("rb") as file, _intact():
        return list(fastavro.reader(file))


def _deleted_positions(deletes: Iterable[Mapping[str, Any]]) -> defaultdict[str, set[int]]:
    """Return the positions of deleted rows by data file."""
    gone: defaultdict[str, set[int]] = defaultdict(set)
    for file in deletes:
        if file["file_format"].lower() == "puffin":
            gone[file["referenced_data_file"]].update(_vector(file))
        else:
            for row in _parquet_rows(file["file_path"], {"path": _PATH_ID, "position": _POSITION_ID}):
                gone[row["path"]].add(row["position"])
    return gone


def _vector(file: Mapping[str, Any]) -> Iterator[int]:
    """Yield the positions of a deletion vector (Puffin specification, blob type `deletion-vector-v1`)."""
    from pyroaring import BitMap

    with _path(file["file_path"]).open("rb") as puffin:
        puffin.seek(file["content_offset"])
        blob = puffin.read(file["content_size_in_bytes"])
    with _intact():
        magic_and_bitmaps = blob[4:-4]
        if magic_and_bitmaps[:4] != _VECTOR_MAGIC or zlib.crc32(magic_and_bitmaps) != struct.unpack(">I", blob[-4:])[0]:
            raise NotReadable
        (bitmap_count,) = struct.unpack_from("<Q", magic_and_bitmaps, 4)
        at = 12
        for _ in range(bitmap_count):
            (high,) = struct.unpack_from("<I", magic_and_bitmaps, at)
            bitmap = BitMap.deserialize(magic_and_bitmaps[at + 4 :])
            at += 4 + len(bitmap.serialize())
            yield from ((high << 32) | low for low in bitmap)


def _live_rows(location: str, fields: Mapping[str, int], gone: set[int]) -> list[dict[str, Any]]:
    rows = _parquet_rows(location, fields)
    return [row for position, row in enumerate(rows) if position not in gone] if gone else rows


def _may_hold(file: Mapping[str, Any], ids: tuple[int, ...], places: Collection[tuple[int, int]]) -> bool:
    """Tell whether a data file's bounds of two columns (ids of an int and a long) leave room for one of ``places``."""
    lower, upper = (
        {bound["key"]: int.from_bytes(bound["value"], "little", signed=True) for bound in file.get(name) or ()}
        for name in ("lower_bounds", "upper_bounds")
    )
    return any(
        all(
            lower.get(column, value) <= value <= upper.get(column, value)
            for column, value in zip(ids, place, strict=True)
        )
        for place in places
    )


def _parquet_rows(location: str, fields: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return ``fields`` (id by name) of a Parquet file; a field that the file does not have is None in every row."""
    columns, count = _parquet_columns(location, fields)
    values = [[None] * count if column is None else _values(column) for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _parquet_columns(
    location: str, fields: Mapping[str, int], group: int | None = None
) -> tuple[dict[str, "pa.ChunkedArray | None"], int]:
    """Return ``fields`` (id by name) of a Parquet file, None for one that it has not, and how many rows it has.

    Of a file with several row groups one, by its number, where that is asked for.
    """
    from pyarrow.parquet import ParquetFile

    with _intact(), ParquetFile(_path(location), memory_map=True) as file:
        name_by_id = {_field_id(field): field.name for field in file.schema_arrow}
        taken = {name: name_by_id.get(field_id) for name, field_id in fields.items()}
        groups = range(file.num_row_groups) if group is None else [group]
        table = file.read_row_groups(groups, columns=[name for name in taken.values() if name is not None])
    return {name: None if own is None else table.column(own) for name, own in taken.items()}, table.num_rows


def _rows_at(location: str, fields: Mapping[str, int], places: Collection[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Give the rows of a Parquet file that have the messages at ``places``.

    Of row groups without any of them no more is read than where, as bytes of messages are large. Row by row, as Arrow's
    own filters would import pandas.
    """
    from pyarrow.parquet import ParquetFile

    with _intact(), ParquetFile(_path(location), memory_map=True) as file:
        groups = file.num_row_groups
    for group in range(groups):
        where = _parquet_columns(location, {name: fields[name] for name in ("partition", "offset")}, group)[0].values()
        if any(column is None for column in where):
            raise NotReadable
        lying = zip(*[_values(column) for column in where if column is not None], strict=True)
        found = [at for at, place in enumerate(lying) if place in places]
        columns = _parquet_columns(location, fields, group)[0] if found else {}
        for at in found:
            yield {
                name: None if column is None else _values(column.slice(at, 1))[0] for name, column in columns.items()
            }


def _field_id(field: "pa.Field") -> int:
    field_id = (field.metadata or {}).get(b"PARQUET:field_id")
    if field_id is None:
        raise NotReadable
    return int(field_id)


def _values(column: "pa.ChunkedArray") -> list[Any]:
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(column.type):
        return [moment for chunk in column.chunks for moment in _moments(chunk)]
    plain = (types.is_string, types.is_large_string, types.is_int32, types.is_int64, types.is_boolean, types.is_binary)
    if not any(is_plain(column.type) for is_plain in plain):
        raise NotReadable
    values: list[Any] = column.to_pylist()
    return values


def _moments(chunk: "pa.Array") -> list[datetime | None]:
    """Return a chunk of microsecond timestamps; Arrow's own conversion would import pandas, half a second."""
    import pyarrow as pa

    if chunk.type.unit != "us":
        raise NotReadable
    zero = _EPOCH if chunk.type.tz is None else _EPOCH.replace(tzinfo=UTC)
    ticks = chunk.view(pa.int64()).to_pylist()
    return [None if tick is None else zero + timedelta(microseconds=tick) for tick in ticks]
