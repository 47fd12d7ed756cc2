"""A lake that PyIceberg writes, with a table and a marker to put into it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from sqlalchemy import event

from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.config import CatalogConfig
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets

NAME = TableName.parse("shop.orders")
MARKER = Marker("p", "b1", "s.p.o", None, Offsets({0: 5}), {0: "x"}, None, None, {"read": 5})
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "code": pa.array(["CONTRACT", None, "KEY_NULL", "ü"]),
        "at": pa.array(
            [datetime(2026, 1, 1, tzinfo=UTC), None, *[datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)] * 2]
        ),
        "partition": pa.array([0, 1, None, 3], pa.int32()),
        "ok": pa.array([True, False, None, True]),
    }
)
COLUMNS = tuple(ROWS.column_names)


@dataclass(frozen=True)
class Lake:
    """A SQLite catalog as PyIceberg writes it, and our configuration of the same."""

    root: Path
    writer: SqlCatalog

    @property
    def tables(self) -> Tables:
        """The catalog as we open it."""
        return open_tables(CatalogConfig.model_validate({}, context={"root": self.root}))

    @property
    def metadata_file(self) -> str:
        """The address of what the table's newest version says of itself."""
        return self.writer.load_table("shop.orders").metadata_location

    def create(self, schema: pa.Schema = ROWS.schema) -> Table:
        """Make the table `shop.orders`."""
        self.writer.create_namespace_if_not_exists("shop")
        return self.writer.create_table("shop.orders", schema=schema)


def open_writer(folder: Path) -> SqlCatalog:
    """Make a catalog in a folder that is not there yet, where a pipeline of the folder above has its own."""
    folder.mkdir(parents=True)
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    writer = SqlCatalog("lake", **place, init_catalog_tables="false")
    writer.engine.dispose()
    # Each commit would wait for the disk; a folder that goes with its test need not outlive a power cut.
    event.listen(writer.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    writer.create_tables()
    return writer
