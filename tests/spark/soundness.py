"""What must hold of the tables of a mirror whoever has written last, told from their metadata alone."""

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.invariants import broken_between, broken_in, foreign
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName


def what_is_unsound(config: Config, mirror: TableName) -> list[str]:
    """Say which invariants do not hold of a mirror, its raw table, its quarantine and its history.

    Args:
        config: the configuration whose catalog has them.
        mirror: the mirror's name.
    """
    lake = open_tables(config.catalog)
    raw, folded = marker_of(config, mirror.raw), marker_of(config, mirror)
    faults = [*broken_between(str(mirror), lake.uuid_of(mirror.raw), raw, folded)]
    for name in (mirror, mirror.raw, mirror.quarantine, mirror.history):
        faults += broken_in(str(name), lake.lines_of(name), is_raw=name == mirror.raw)
    return faults


def made_by_others(config: Config, mirror: TableName) -> list[int]:
    """The snapshots of these tables that are taken for another program's."""
    lake = open_tables(config.catalog)
    names = (mirror, mirror.raw, mirror.quarantine, mirror.history)
    return [line.snapshot_id for name in names for line in foreign(lake.lines_of(name))]


def marker_of(config: Config, name: TableName) -> Marker | None:
    """The marker that a table has; None where there is no table, or none in it."""
    lake = open_tables(config.catalog)
    return lake.marker_of(name) if lake.lines_of(name) else None
