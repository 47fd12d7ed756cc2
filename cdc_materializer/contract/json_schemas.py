"""JSON schemas in contracts: whether one can be judged by, without a surprise at some row of a batch.

GX hands a value and the schema to `jsonschema`, which raises for a schema that is none, a pattern that is none and a
reference that leads nowhere, and fetches what a reference names on the web. All of that is found here instead.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cdc_materializer.contract.document import DEPTH_MAX

#: References that mean another place by what the schema is used for, which nothing here follows.
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})


def broken_schema(stated: object) -> str | None:
    """Say why values cannot be judged by a schema; None where they can.

    Args:
        stated: what the contract has, numbers as int or Decimal.
    """
    if not isinstance(stated, dict):
        return "it is not a mapping"
    schema = plain(stated)
    return _no_schema(schema) or next(_problems(schema, schema), None)


def plain(stated: object) -> Any:  # noqa: ANN401 - what JSON has
    """Return what a contract states with numbers as JSON has them: Decimals become floats."""
    if isinstance(stated, Mapping):
        return {str(key): plain(value) for key, value in stated.items()}
    if isinstance(stated, list | tuple):
        return [plain(value) for value in stated]
    return stated if isinstance(stated, str | bool | int) or stated is None else float(str(stated))


def _no_schema(schema: dict[str, Any]) -> str | None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        at = "/".join(map(str, error.absolute_path))
        return f"{error.message[:160]}{f' (at {at})' if at else ''}"
    return None


def _problems(part: Any, schema: dict[str, Any], depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - any part of it
    if depth > DEPTH_MAX:
        yield f"it nests more than {DEPTH_MAX} deep"
    elif isinstance(part, dict):
        patterns = [part["pattern"]] if isinstance(part.get("pattern"), str) else []
        more = part.get("patternProperties")
        for pattern in [*patterns, *(more if isinstance(more, dict) else ())]:
            yield from _broken_pattern(pattern)
        for key in _DYNAMIC & part.keys():
            yield f"{key} cannot be followed"
        if depth and isinstance(part.get("$id"), str):
            yield "a part of it has an $id of its own"
        if isinstance(part.get("$ref"), str) and not _leads_somewhere(part["$ref"], schema):
            yield f"the reference {part['$ref'][:80]!r} leads nowhere within it"
        for value in part.values():
            yield from _problems(value, schema, depth + 1)
    elif isinstance(part, list):
        for value in part:
            yield from _problems(value, schema, depth + 1)


def _broken_pattern(pattern: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        yield f"the pattern {pattern[:80]!r} is none of Python's"


def _leads_somewhere(reference: str, schema: Any) -> bool:  # noqa: ANN401 - any part of one
    """Whether a reference is a JSON pointer to a schema within the document."""
    if reference == "#":
        return True
    if not reference.startswith("#/"):
        return False
    found = schema
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return False
    return isinstance(found, dict | bool)
