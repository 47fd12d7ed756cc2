"""What pydantic found wrong with pipeline.yaml, as one message for people.

Pure. A message names the place in the file, the kind of value that stands there and what may stand there; it never
repeats a value, because any value can be a secret.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic_core import ErrorDetails

from cdc_materializer.config.values import REFUSED, kind_of
from cdc_materializer.errors import ConfigError
from cdc_materializer.names import nearest, shown

#: What to do about a mistake that the message has described fully.
CORRECT = "Correct it in the file."

# What pydantic expected, by the beginning of its error type.
_EXPECTED = {
    "bool": "true or false",
    "dict": "a map",
    "int": "a whole number",
    "mapping": "a map",
    "model": "a map of settings",
    "path": "a path",
    "secret": "text",
    "string": "text",
    "tuple": "a list",
}


def below(place: str, key: object) -> str:
    """Return the place in the file of ``key`` in the map at ``place``, like `source.kafka`."""
    return f"{place}.{shown(str(key))}" if place else shown(str(key))


def config_error(path: Path, faults: Sequence[ErrorDetails]) -> ConfigError:
    """Return the error for the first of ``faults`` in ``path``, in the order of the file's models."""
    place = ""
    for step in faults[0]["loc"]:
        place = f"{place}[{step}]" if isinstance(step, int) else below(place, step)
    what, do = _sentence(faults[0])
    return ConfigError(f"{path}, {place} {what}." if place else f"{path} {what}.", do)


def _sentence(fault: ErrorDetails) -> tuple[str, str]:
    """Say what is wrong, in words that follow the place, and what to do."""
    context = fault.get("ctx", {})
    if fault["type"] == REFUSED:
        return str(context["what"]), str(context["do"])
    match fault["type"]:
        case "missing":
            return "is missing", "Add it to the file."
        case "literal_error":
            return _not_allowed(fault["input"], str(context["expected"]).replace("'", "`"))
        case "greater_than_equal":
            return f"must be {context['ge']} or more", CORRECT
    expected = _EXPECTED.get(fault["type"].partition("_")[0])
    return f"must be {expected}, not {kind_of(fault['input'])}" if expected else "cannot be followed", CORRECT


def _not_allowed(value: object, allowed: str) -> tuple[str, str]:
    given = "other text" if isinstance(value, str) else kind_of(value)
    meant = nearest(value, re.findall(r"`([^`]*)`", allowed)) if isinstance(value, str) else None
    return f"must be {allowed}, not {given}", f"Did you mean `{meant}`?" if meant else CORRECT
