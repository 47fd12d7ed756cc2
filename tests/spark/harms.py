"""What another engine may do to the rows of a mirror: it changes one, removes one, doubles one or adds one.

The mirror has to be of Iceberg's format v2, in which PyIceberg writes.
"""

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.spark.shops import Shop

#: Marks of modules that do it: what PyIceberg says of tables whose rows others delete without writing files anew, of a
#: filter that no row passes, and of the size of row groups, which its files do not follow.
WARNS = (
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records"),
    pytest.mark.filterwarnings(r"ignore:Parquet writer option\(s\) \['write.parquet.row-group-size-bytes'\]"),
)


def _writer(shop: Shop, name: str) -> Table:
    """A table in the hands of another engine."""
    lake = shop.config.root / "lake"
    place = {"uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    return SqlCatalog("lake", **place).load_table(name)


def change(shop: Shop) -> None:
    """Make the price of a row another one."""
    table = _writer(shop, shop.mirror)
    rows = table.scan().to_arrow()
    ids, prices = (rows.column(name).to_pylist() for name in ("id", "price"))
    prices = [price + 1 if row == 1 else price for row, price in zip(ids, prices, strict=True)]
    at = rows.schema.get_field_index("price")
    field = rows.schema.field("price")
    table.overwrite(rows.set_column(at, field, pa.array(prices, field.type)))


def remove(shop: Shop, row: int = 3) -> None:
    """Delete a row."""
    _writer(shop, shop.mirror).delete(f"id = {row}")


def double(shop: Shop) -> None:
    """Append a row once more."""
    table = _writer(shop, shop.mirror)
    table.append(table.scan("id = 3").to_arrow())


def add(shop: Shop) -> None:
    """Append a row of a key that there is none of."""
    table = _writer(shop, shop.mirror)
    row = table.scan("id = 3").to_arrow()
    table.append(row.set_column(row.schema.get_field_index("id"), row.schema.field("id"), [[9]]))


def add_bare(shop: Shop) -> None:
    """Append such a row without our own column."""
    table = _writer(shop, shop.mirror)
    row = table.scan("id = 3").to_arrow().drop_columns(["__cdc"])
    table.append(row.set_column(row.schema.get_field_index("id"), row.schema.field("id"), [[9]]))


#: Each of them, and what is found of it then: keys that are missing, unexpected and different.
HARMS = (
    pytest.param(change, (0, 0, 1), id="changed"),
    pytest.param(remove, (1, 0, 0), id="removed"),
    pytest.param(double, (0, 1, 0), id="doubled"),
    pytest.param(add, (0, 1, 0), id="added"),
    pytest.param(add_bare, (0, 1, 0), id="added without our own column"),
)
