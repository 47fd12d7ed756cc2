"""Snapshots of other programs in a table of ours, told by what they say of themselves. Pure."""

from collections.abc import Mapping

from cdc_materializer.marker.marker import MARKER_PREFIX


def is_foreign(operation: str | None, summary: Mapping[str, str]) -> bool:
    """Whether a snapshot changed rows and no batch of ours has made it; compaction changes none.

    Args:
        operation: Iceberg's word for what it did.
        summary: what it says of itself.
    """
    counted = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
    changes = any(summary.get(name, "0") != "0" for name in counted)
    return operation != "replace" and changes and f"{MARKER_PREFIX}batch" not in summary


def has_replaced(operation: str | None, first: Mapping[str, str], kept: Mapping[str, str]) -> bool:
    """Whether a snapshot that has none before it is another program's, which began anew in place of what a tag keeps.

    Some tools make what expiry has left of a line look like a whole one; its first snapshot then counts rows that it
    has not added.

    Args:
        operation: Iceberg's word for what the first snapshot did.
        first: what that says of itself.
        kept: what the marked snapshot says that the tag keeps.
    """
    total, added, deleted = (int(first.get(f"{what}-records", "0")) for what in ("total", "added", "deleted"))
    return is_foreign(operation, first) and total - added + deleted == 0 and kept.get("total-records", "0") != "0"
