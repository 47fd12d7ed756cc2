"""What a table's metadata says, for `maintenance.plan`: manifests are read, no data file is, and no Spark is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.catalog.catalog import Tables, snapshots_of
from cdc_materializer.catalog.local_table import DAMAGE
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.maintenance.files import DataFile
from cdc_materializer.maintenance.plan import TableFacts
from cdc_materializer.names import TableName

if TYPE_CHECKING:
    from pyiceberg.table import Table

_DATA, _DELETES = 0, 1
_DELETED_ENTRY = 2
#: Field id of the path in a position delete file (Iceberg specification, "Reserved Field IDs").
_PATH_ID = 2147483546
#: How much of a text or of bytes a file tells, unless the table says otherwise (`write.metadata.metrics.default`).
_TOLD_MAX = 16
#: Where the messages of a topic, and what is made of them, have their order.
PLACE = ("partition", "offset")


def read_facts(lake: Tables, name: TableName) -> TableFacts | None:
    """The facts of a table as it is now; None where there is no such table.

    Raises:
        LakeUnavailable: its metadata cannot be read.
    """
    table = lake.load(name)
    if table is None:
        return None
    metadata = table.metadata
    refs = {ref: (found.snapshot_id, str(found.snapshot_ref_type) == "branch") for ref, found in metadata.refs.items()}
    try:
        files, manifests = _files(table)
    except (OSError, *DAMAGE) as error:
        what = f"The manifests of {name} cannot be read."
        raise LakeUnavailable(what, "Check that the warehouse can be reached; `--debug` shows the cause.") from error
    return TableFacts(
        files=tuple(files),
        manifests=manifests,
        snapshots=tuple(snapshots_of(table)),
        refs=refs,
        head=metadata.current_snapshot_id,
        log=tuple((entry.snapshot_id, entry.timestamp_ms) for entry in metadata.snapshot_log),
        properties=dict(metadata.properties),
        is_sorted=_sorted_by(table) is not None,
    )


def _files(table: Table) -> tuple[list[DataFile], tuple[int, ...]]:
    head = table.current_snapshot()
    manifests = head.manifests(table.io) if head is not None else []
    data: list[tuple[Hashable, Mapping[str, Any]]] = []
    deleted: Counter[str] = Counter()
    vectors: Counter[str] = Counter()
    for manifest in manifests:
        for file in _entries(table, manifest.manifest_path):
            if file.get("content", _DATA) == _DATA:
                data.append(((manifest.partition_spec_id, _hashable(file["partition"])), file))
            elif (of := _deletes_of(file)) is not None:
                deleted[of] += file["record_count"]
                vectors[of] += 1
    column = _sorted_by(table)
    found = []
    for partition, file in data:
        path = file["file_path"]
        low, high = _range(table, column, file) if column is not None else (None, None)
        own = (deleted[path], vectors[path], partition, low, high)
        found.append(DataFile(file["file_size_in_bytes"], file["record_count"], *own))
    sizes = (manifest.manifest_length for manifest in manifests if int(manifest.content) == _DATA)
    return found, tuple(sizes)


def _entries(table: Table, location: str) -> Iterator[Mapping[str, Any]]:
    """The files of a manifest that are not gone; read as Avro, as PyIceberg leaves out what version 3 has more."""
    import fastavro

    with table.io.new_input(location).open() as stream:
        for entry in fastavro.reader(stream):
            if isinstance(entry, Mapping) and entry["status"] != _DELETED_ENTRY:
                yield entry["data_file"]


def _deletes_of(file: Mapping[str, Any]) -> str | None:
    """The data file that a delete file is about; None where it is about several, as Iceberg's planner sees it."""
    if file["content"] != _DELETES:
        return None
    told: str | None = file.get("referenced_data_file")
    low, high = (_bound(file, side, _PATH_ID) for side in ("lower", "upper"))
    return told if told is not None else low.decode() if low is not None and low == high else None


def _bound(file: Mapping[str, Any], side: str, field: int) -> bytes | None:
    return next((bound["value"] for bound in file.get(f"{side}_bounds") or () if bound["key"] == field), None)


def _sorted_by(table: Table) -> int | None:
    """The field by which rows are sorted first; None where there is none, or a transform of it."""
    schema = table.schema()
    orders = table.sort_order().fields
    if orders:
        return orders[0].source_id if str(orders[0].transform) == "identity" else None
    names = set(schema.column_names)
    # Raw, quarantine and history have no order of their own, but that of the topic.
    return schema.find_field(PLACE[1]).field_id if names.issuperset(PLACE) else None


def _range(table: Table, column: int, file: Mapping[str, Any]) -> tuple[Any, Any]:
    """The least and the greatest value of a column in a file; None where it tells none."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import PrimitiveType

    kind = table.schema().find_type(column)
    low, high = (_bound(file, side, column) for side in ("lower", "upper"))
    if low is None or high is None or not isinstance(kind, PrimitiveType):
        return None, None
    least, most = from_bytes(kind, low), from_bytes(kind, high)
    # Of texts and bytes files tell the beginnings, the last one moved up: where that is all in which they differ,
    # every file seems to have every value.
    is_cut = isinstance(least, str | bytes) and least[: _TOLD_MAX - 1] == most[: _TOLD_MAX - 1]
    return (least, least) if is_cut else (least, most)


def _hashable(partition: object) -> Hashable:
    values = partition.items() if isinstance(partition, Mapping) else ()
    return tuple((name, repr(value)) for name, value in values)
