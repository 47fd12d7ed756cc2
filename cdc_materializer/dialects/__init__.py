"""What source databases are asked, each kind in its own SQL."""

from collections.abc import Mapping

from cdc_materializer.dialects.base import (
    BUCKETS,
    RANGE,
    SEPARATOR,
    SERVER,
    Dialect,
    Form,
    Position,
    Reading,
    SourceColumn,
    Wanted,
    position_of,
)
from cdc_materializer.dialects.mysql import MariaDB, MySQL
from cdc_materializer.dialects.postgresql import PostgreSQL

__all__ = [
    "BUCKETS",
    "DIALECTS",
    "RANGE",
    "SEPARATOR",
    "SERVER",
    "Dialect",
    "Form",
    "MariaDB",
    "MySQL",
    "Position",
    "PostgreSQL",
    "Reading",
    "SourceColumn",
    "Wanted",
    "position_of",
]

#: By what `DatabaseConfig.kind` calls them.
DIALECTS: Mapping[str, Dialect] = {"postgresql": PostgreSQL(), "mysql": MySQL()}
