"""The names that `format:` of a table can have: those of the files in `changes/formats`, which may be any number."""

from __future__ import annotations

import importlib
import pkgutil

from cdc_materializer.config_values import refusal
from cdc_materializer.names import nearest, shown

#: By name: the configuration stands below the formats, and knows no more of them than what they are called.
_FORMATS = "cdc_materializer.changes.formats"


def known_formats() -> tuple[str, ...]:
    """The names of all formats, in order."""
    files = pkgutil.iter_modules(importlib.import_module(_FORMATS).__path__)
    return tuple(sorted(file.name.replace("_", "-") for file in files))


#: The format of a table that is told by its messages.
AUTO = "auto"


def check_format(name: str) -> str:
    """Return a format's name; refuse one that there is none of."""
    known = known_formats()
    if name == AUTO or name in known:
        return name
    near = nearest(name, known)
    meant = f"Did you mean `{near}`? " if near else ""
    raise refusal(f"is `{shown(name)}`, which is no format", f"{meant}Formats are: {', '.join((*known, AUTO))}.")
