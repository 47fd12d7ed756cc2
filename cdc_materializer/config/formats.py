"""The names that `format:` of a table can have: those of the files in `changes/formats`, which may be any number."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from cdc_materializer.config.values import refusal
from cdc_materializer.names import nearest, shown

#: By name: the configuration stands below the formats, and knows no more of them than what they are called.
_FORMATS = "cdc_materializer.changes.formats"


def known_formats() -> tuple[str, ...]:
    """The names of all formats, in order."""
    files = pkgutil.iter_modules(importlib.import_module(_FORMATS).__path__)
    return tuple(sorted(file.name.replace("_", "-") for file in files))


#: The format of a table that is told by its messages.
AUTO = "auto"

#: The format of a table that names none.
DEFAULT = "debezium"

#: Settings that some formats alone read: under another they would be passed over. What marks the ends of a snapshot is
#: Debezium's; rows that another format says were read by one do not tell that it was complete.
OF_FORMATS = {
    "added_fields": ("debezium-flat",),
    "added_fields_prefix": ("debezium-flat",),
    "before_image": ("dms",),
    "snapshot_sweep": ("debezium", "debezium-flat"),
    "whole_rows": ("debezium-flat", "iceberg-cdc", "upsert"),
}


def left_out(format_: object, given: Iterable[str]) -> set[str]:
    """Those of some settings that a format does not read; None is the one that holds where none is named."""
    named = DEFAULT if format_ is None else format_
    return {name for name in given if named != AUTO and named not in OF_FORMATS.get(name, (named,))}


def check_settings(format_: str, given: Iterable[str]) -> None:
    """Refuse settings that a table's format does not read; ``given`` are those that were set."""
    for name in sorted(left_out(format_, given)):
        read_for = " or ".join(f"`format: {one}`" for one in OF_FORMATS[name])
        what = f"has `{name}`, which is read for {read_for} and not for `{format_}`"
        raise refusal(what, "Leave it out, or correct the `format`.")


def check_format(name: str) -> str:
    """Return a format's name; refuse one that there is none of."""
    known = known_formats()
    if name == AUTO or name in known:
        return name
    near = nearest(name, known)
    meant = f"Did you mean `{near}`? " if near else ""
    raise refusal(f"is `{shown(name)}`, which is no format", f"{meant}Formats are: {', '.join((*known, AUTO))}.")
