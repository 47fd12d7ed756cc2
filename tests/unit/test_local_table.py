"""The fast reader of local tables gives PyIceberg's own answers, or says that it cannot."""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from cdc_materializer.catalog import local_table
from cdc_materializer.catalog.catalog import snapshots_of
from cdc_materializer.catalog.local_table import (
    LocalTable,
    NotReadable,
    SnapshotLine,
    main_line,
    newest_marker,
    with_seen,
)
from cdc_materializer.marker.marker import Marker
from tests.unit.lakes import COLUMNS, MARKER, NAME, ROWS, Lake


def _line(snapshot_id: int, parent: int | None, marker: Marker | None = None) -> SnapshotLine:
    return SnapshotLine(snapshot_id, parent, snapshot_id, marker.to_summary() if marker else {})


def test_where_ancestors_have_expired_the_tagged_marker_counts() -> None:
    """Our tag keeps the marked snapshot; a staged or older one that it does not point to is no answer."""
    old, marked = replace(MARKER, batch="old"), MARKER
    lines = [_line(1, None, old), _line(2, 1, marked), _line(4, 3), _line(9, 2, replace(MARKER, batch="staged"))]

    assert newest_marker(lines, 4, 2) == marked
    assert newest_marker(lines, 4, None) is None
    assert newest_marker(lines, None, 2) is None
    assert newest_marker([_line(1, None)], 1, 1) is None


def test_a_tag_of_a_later_state_tells_nothing_of_an_earlier_one() -> None:
    """Main was rolled back to what has no marker and whose line is cut off; what the tag has was read since."""
    lines = [_line(4, 3), _line(6, 4, MARKER)]

    assert newest_marker(lines, 4, 6) is None
    assert newest_marker(lines, 6, 6) == MARKER


@pytest.mark.parametrize(
    ("told", "is_kept"),
    [
        ({"operation": "append", "added-records": "2", "total-records": "2"}, False),
        ({"operation": "append", "added-records": "2", "total-records": "7"}, True),
        ({"operation": "replace", "added-records": "5", "deleted-records": "5", "total-records": "5"}, True),
    ],
    ids=["replaced", "cut off", "compacted and cut off"],
)
def test_the_tag_tells_nothing_of_a_table_that_was_replaced(told: dict[str, str], is_kept: bool) -> None:  # noqa: FBT001
    """A line that begins with another program's rows, and none before them; expiry leaves one that counts more."""
    kept = SnapshotLine(2, 1, 2, {**MARKER.to_summary(), "total-records": "5"})

    assert newest_marker([kept, SnapshotLine(4, None, 4, told)], 4, 2) == (MARKER if is_kept else None)
    assert newest_marker([kept, SnapshotLine(4, 3, 4, told)], 4, 2) == MARKER


def _assert_both_ways_agree(lake: Lake, ids: list[int]) -> None:
    """Check that the fast reader and PyIceberg give the same rows, those with ``ids``."""
    table = lake.tables.load(NAME)
    assert table is not None
    by_pyiceberg = lake.tables.rows(table, COLUMNS).sort_by("id").to_pylist()
    local = LocalTable.open(table.metadata_location)

    assert sorted(local.rows(COLUMNS), key=lambda row: row["id"]) == by_pyiceberg
    assert [row["id"] for row in by_pyiceberg] == ids


def test_the_fast_reader_gives_pyicebergs_rows(lake: Lake) -> None:
    """After appends, a delete that rewrites files, and a renamed column and back."""
    table = lake.create()
    table.append(ROWS)
    table.append(ROWS.set_column(0, "id", pa.array([5, 6, 7, 8], pa.int64())))
    table.delete("id = 2")
    table.delete("id > 6")
    with table.update_schema() as update:
        update.rename_column("code", "kind")
    with table.update_schema() as update:
        update.rename_column("kind", "code")

    _assert_both_ways_agree(lake, [1, 3, 4, 5, 6])
    assert len(lake.tables.values_of(NAME, ("id", "at")) or ()) == 5


def test_an_earlier_snapshot_is_read_as_it_was(lake: Lake) -> None:
    """By its id, with what was deleted since; both ways alike."""
    table = lake.create()
    table.append(ROWS)
    table.delete("id = 2")
    newest, *_, first = lake.tables.lines_of(NAME)
    loaded = lake.tables.load(NAME)
    assert loaded is not None

    assert [row["id"] for row in lake.tables.values_of(NAME, ("id",), first.snapshot_id) or ()] == [1, 2, 3, 4]
    assert [row["id"] for row in lake.tables.values_of(NAME, ("id",), newest.snapshot_id) or ()] == [1, 3, 4]
    assert lake.tables.rows(loaded, ("id",), at=first.snapshot_id).to_pylist() == [{"id": n} for n in (1, 2, 3, 4)]


def test_the_line_of_main_is_told_newest_first(lake: Lake) -> None:
    """Parents, times and summaries, the same as PyIceberg tells them."""
    table = lake.create()
    assert lake.tables.lines_of(NAME) == ()
    for batch in ("b1", "b2"):
        table.append(ROWS, snapshot_properties=replace(MARKER, batch=batch).to_summary())
    newer, older = lines = lake.tables.lines_of(NAME)
    loaded = lake.tables.load(NAME)
    assert loaded is not None

    assert [line.summary["cdcm.batch"] for line in lines] == ["b2", "b1"]
    assert (newer.parent_id, older.parent_id) == (older.snapshot_id, None)
    by_pyiceberg = main_line(snapshots_of(loaded), loaded.metadata.current_snapshot_id)
    assert [(line.snapshot_id, line.at) for line in by_pyiceberg] == [(line.snapshot_id, line.at) for line in lines]


def _raw(lake: Lake) -> None:
    """Make `shop.orders` a raw table of two partitions in three files."""
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("id", pa.int32())])
    table = lake.create(schema)
    for partition, offsets in ((0, range(5)), (0, range(5, 9)), (1, range(5))):
        ids = [offset * 10 if offset % 2 else None for offset in offsets]
        table.append(pa.table([[partition] * len(ids), list(offsets), ids], schema=schema))


def test_what_only_came_with_a_replay_was_never_seen() -> None:
    """Main's log says so, as far back as it goes: expiry shortens it."""
    line = [SnapshotLine(number, number - 1, number, {}, 100 * number) for number in (5, 4, 3, 2, 1)]

    assert [one.is_seen for one in with_seen(line, [(2, 200), (5, 510)])] == [True, False, False, True, True]
    assert all(one.is_seen for one in with_seen(line, []))


def test_messages_are_found_by_their_place(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the files that can have them, and no others are opened; PyIceberg finds the same."""
    _raw(lake)
    places = {(0, 3), (1, 4), (7, 0)}
    opened: list[str] = []
    inner = local_table._rows_at

    def noting(path: str, *rest: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - whatever it takes
        opened.append(path)
        return inner(path, *rest)

    monkeypatch.setattr(local_table, "_rows_at", noting)
    found = lake.tables.values_at(NAME, ("id",), places)
    monkeypatch.setattr(local_table.LocalTable, "rows_at", _not_readable)

    assert sorted(found, key=lambda row: row["partition"]) == [
        {"partition": 0, "offset": 3, "id": 30},
        {"partition": 1, "offset": 4, "id": None},
    ]
    assert len(opened) == 2
    assert sorted(lake.tables.values_at(NAME, ("id",), places), key=str) == sorted(found, key=str)
    assert lake.tables.values_at(NAME, ("id",), set()) == []


def _not_readable(*_: object) -> None:
    raise NotReadable


def test_a_column_that_came_later_is_none_in_older_rows(lake: Lake) -> None:
    """Columns are found by field id, not by name or place."""
    lake.create(ROWS.schema.remove(1)).append(ROWS.drop_columns("code"))
    table = lake.writer.load_table("shop.orders")
    with table.update_schema() as update:
        update.union_by_name(ROWS.schema)
    table.append(ROWS.select(table.schema().column_names))

    _assert_both_ways_agree(lake, [1, 1, 2, 2, 3, 3, 4, 4])


def test_position_deletes_are_applied(lake: Lake) -> None:
    """A position delete file names data files and the places in them."""
    lake.create().append(ROWS)
    path = f"{lake.root}/deletes.parquet"
    schema = pa.schema([_with_id("file_path", pa.string(), 2147483546), _with_id("pos", pa.int64(), 2147483545)])
    pq.write_table(pa.table([[_data_file(lake)] * 2, [0, 2]], schema=schema), path)
    _add_deletes(lake, {"file_path": path, "file_format": "PARQUET", "record_count": 2})

    _assert_both_ways_agree(lake, [2, 4])


def test_deletion_vectors_are_applied(lake: Lake) -> None:
    """A deletion vector is a blob of a Puffin file: the places that are deleted in one data file."""
    lake.create().append(ROWS)
    blob = _vector([1, 3])
    _add_deletes(lake, _puffin(lake, blob))

    _assert_both_ways_agree(lake, [1, 3])


def test_a_deletion_vector_that_is_damaged_is_not_guessed_at(lake: Lake) -> None:
    """The checksum decides."""
    lake.create().append(ROWS)
    _add_deletes(lake, _puffin(lake, _vector([1])[:-1] + b"\x00"))

    with pytest.raises(NotReadable):
        LocalTable.open(lake.metadata_file).rows(("id",))


def test_what_the_fast_reader_does_not_read_goes_to_pyiceberg(lake: Lake) -> None:
    """A column of another type, here a decimal."""
    amounts = pa.table({"amount": pa.array([1, 2], pa.decimal128(9, 2))})
    lake.create(amounts.schema).append(amounts)
    with pytest.raises(NotReadable):
        LocalTable.open(lake.metadata_file).rows(("amount",))

    assert lake.tables.values_of(NAME, ("amount",)) == amounts.to_pylist()


@pytest.mark.parametrize("location", ["s3://bucket/v1.metadata.json", "hdfs:/x", "relative"])
def test_a_table_elsewhere_is_not_for_the_fast_reader(location: str) -> None:
    """Only this machine's disk is."""
    with pytest.raises(NotReadable):
        LocalTable.open(location)


def _data_file(lake: Lake) -> str:
    (task,) = lake.writer.load_table("shop.orders").scan().plan_files()
    return task.file.file_path


def _with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


def _vector(positions: list[int]) -> bytes:
    """Return a deletion vector as the Puffin specification lays it out."""
    bitmaps = struct.pack("<QI", 1, 0) + BitMap(positions).serialize()
    content = b"\xd1\xd3\x39\x64" + bitmaps
    return struct.pack(">I", len(content)) + content + struct.pack(">I", crc32(content))


def _puffin(lake: Lake, blob: bytes) -> dict[str, Any]:
    """Write a Puffin file of one deletion vector, and return what a manifest says of it."""
    data_file, path = _data_file(lake), lake.root / "deletes.puffin"
    properties = {"referenced-data-file": data_file, "cardinality": "2"}
    entry = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4}
    footer = json.dumps({"blobs": [{**entry, "length": len(blob), "properties": properties}]}).encode()
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1")
    place = {"referenced_data_file": data_file, "content_offset": 4, "content_size_in_bytes": len(blob)}
    return {"file_path": str(path), "file_format": "PUFFIN", "record_count": 2, **place}


def _add_deletes(lake: Lake, file: Mapping[str, Any]) -> None:
    """Put a delete file into the table's head, by changing PyIceberg's manifests: it writes no deletes itself."""
    snapshot = lake.writer.load_table("shop.orders").current_snapshot()
    assert snapshot is not None
    manifest_list = Path(snapshot.manifest_list.removeprefix("file://"))
    schema, metadata, (manifest,) = _read_avro(manifest_list)
    data_manifest = Path(manifest["manifest_path"].removeprefix("file://"))
    entry_schema, entry_metadata, (entry,) = _read_avro(data_manifest)
    _declare_places(entry_schema)
    deleting = {
        **entry,
        "data_file": {**entry["data_file"], "content": 1, "lower_bounds": None, "upper_bounds": None, **file},
    }
    delete_manifest = lake.root / "deletes.avro"
    _write_avro(delete_manifest, entry_schema, {**entry_metadata, "content": "deletes"}, [deleting])
    deletes = {
        "manifest_path": f"file://{delete_manifest}",
        "manifest_length": delete_manifest.stat().st_size,
        "content": 1,
    }
    _write_avro(manifest_list, schema, metadata, [manifest, {**manifest, **deletes}])


def _declare_places(entry_schema: dict[str, Any]) -> None:
    """Add the fields of format 3 that say where a deletion vector is."""
    (data_file,) = (field["type"] for field in entry_schema["fields"] if field["name"] == "data_file")
    places = (
        ("referenced_data_file", "string", 143),
        ("content_offset", "long", 144),
        ("content_size_in_bytes", "long", 145),
    )
    known = {field["name"] for field in data_file["fields"]}
    data_file["fields"] += [
        {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
        for name, kind, field_id in places
        if name not in known
    ]


def _read_avro(path: Path) -> tuple[dict[str, Any], dict[str, str], list[Any]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema = json.loads(reader.metadata["avro.schema"])
        return schema, {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}, list(reader)


def _write_avro(path: Path, schema: dict[str, Any], metadata: dict[str, str], records: list[Any]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, metadata=metadata)
