"""JSON schemas in contracts: whether one can be judged by, without a surprise at some row of a batch.

GX hands a value and the schema to `jsonschema`, which raises for a schema that is none, a pattern that is none and a
reference that leads nowhere, and fetches what a reference names on the web. All of that is found here instead.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cdc_materializer.contract.document import DEPTH_MAX, Findings
from cdc_materializer.contract.drafts import Draft

#: What holds values, and no schemas.
_VALUES = frozenset({"enum", "const", "default", "examples"})
#: What holds schemas by names of its own.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
#: What asks more of the very value that the schema is about.
_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
#: References that mean another place by what the schema is used for, which nothing here follows.
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})


def broken_schema(stated: object) -> str | None:
    """Say why values cannot be judged by a schema; None where they can.

    Args:
        stated: what the contract has, numbers as int or Decimal.
    """
    if not isinstance(stated, dict):
        return "it is not a mapping"
    if _has_bytes(stated):
        return "YAML reads bytes in it, of which JSON has none: put them in quotes"
    schema = plain(stated)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of what Python's patterns may mean some day
        return _no_schema(schema) or next(_problems(schema, schema), None)


def plain(stated: object) -> Any:  # noqa: ANN401 - what JSON has
    """Return what a contract states as JSON has it: Decimals become floats."""
    if isinstance(stated, Mapping):
        return {str(key): plain(value) for key, value in stated.items()}
    if isinstance(stated, list | tuple):
        return [plain(value) for value in stated]
    return float(stated) if isinstance(stated, Decimal) else stated


def fitting(stated: object) -> Callable[[str | None], bool | None]:
    """Return the function that tells whether a text fits a schema; None for NULL.

    It raises for no text: what is no JSON fits nothing, and neither does a value that makes `jsonschema` give up, by
    its depth, say. Whether the schema itself can be followed is told by `broken_schema`.

    Args:
        stated: the schema, numbers as int, float or Decimal.
    """
    schema = plain(stated)
    validators: list[Any] = []

    # Within is all that it needs: where Spark runs it there may be nothing of this package.
    def is_fitting(text: str | None) -> bool | None:
        import json

        from jsonschema.validators import validator_for

        def refuse(word: str) -> float:
            raise ValueError(word)

        if text is None:
            return None
        if not validators:
            validators.append(validator_for(schema)(schema))
        try:
            # Python's reader takes NaN and Infinity, of which JSON has neither.
            return bool(validators[0].is_valid(json.loads(text, parse_constant=refuse)))
        except Exception:  # noqa: BLE001 - one row's text must not end the job of all
            return False

    return is_fitting


def _has_bytes(stated: object) -> bool:
    if isinstance(stated, Mapping):
        return any(_has_bytes(part) for pair in stated.items() for part in pair)
    if isinstance(stated, list | tuple):
        return any(_has_bytes(part) for part in stated)
    return isinstance(stated, bytes)


def tell_formats(drafts: Sequence[Draft], findings: Findings) -> None:
    """Note the formats of rules' JSON schemas: to `jsonschema` they are notes, and so to Great Expectations."""
    for draft in drafts:
        if formats := sorted(set(_formats(draft.kwargs.get("json_schema")))):
            message = f"the JSON schema has the formats {', '.join(formats)[:80]}, which are not judged."
            findings.add(draft.place, message, "Write a pattern in their place, or remove them.")


def _formats(part: Any, *, is_map: bool = False) -> Iterator[str]:  # noqa: ANN401 - any part
    if isinstance(part, Mapping):
        if not is_map and isinstance(part.get("format"), str):
            yield part["format"]
        for name, value in part.items():
            if is_map or name not in _VALUES:
                yield from _formats(value, is_map=not is_map and name in _MAPS)
    elif isinstance(part, list):
        for value in part:
            yield from _formats(value)


def _no_schema(schema: dict[str, Any]) -> str | None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        at = "/".join(map(str, error.absolute_path))
        return f"{error.message[:160]}{f' (at {at})' if at else ''}"
    return None


def _problems(part: Any, schema: dict[str, Any], depth: int = 0, *, is_map: bool = False) -> Iterator[str]:  # noqa: ANN401 - any part
    """What is wrong with a schema, or with a map that gives names to schemas, within a whole one."""
    if depth > DEPTH_MAX:
        yield f"it nests more than {DEPTH_MAX} deep"
    elif isinstance(part, dict):
        if not is_map:
            yield from _mistakes(part, schema, is_root=depth == 0)
        for name, value in part.items():
            if is_map or name not in _VALUES:
                yield from _problems(value, schema, depth + 1, is_map=not is_map and name in _MAPS)
    elif isinstance(part, list):
        for value in part:
            yield from _problems(value, schema, depth + 1)


def _mistakes(part: dict[str, Any], schema: dict[str, Any], *, is_root: bool) -> Iterator[str]:
    """What is wrong with one schema itself."""
    patterns = [part["pattern"]] if isinstance(part.get("pattern"), str) else []
    more = part.get("patternProperties")
    for pattern in [*patterns, *(more if isinstance(more, dict) else ())]:
        yield from _broken_pattern(pattern)
    for key in _DYNAMIC & part.keys():
        yield f"{key} cannot be followed"
    if not is_root and isinstance(part.get("$id"), str):
        yield "a part of it has an $id of its own"
    reference = part.get("$ref")
    if isinstance(reference, str) and _meant(reference, schema) is None:
        yield f"the reference {reference[:80]!r} leads nowhere within it"
    elif _comes_back(part, schema, (), set()):
        yield "a reference leads back to where it stands, for one value"


def _comes_back(part: Any, schema: dict[str, Any], above: tuple[int, ...], fine: set[int]) -> bool:  # noqa: ANN401 - any part
    """Whether a schema asks for itself again of the very same value."""
    if not isinstance(part, dict) or id(part) in fine:
        return False
    if id(part) in above:
        return True
    asked = [_meant(part["$ref"], schema)] if isinstance(part.get("$ref"), str) else []
    for name in _SAME_VALUE & part.keys():
        asked += part[name] if isinstance(part[name], list) else [part[name]]
    if any(_comes_back(one, schema, (*above, id(part)), fine) for one in asked):
        return True
    fine.add(id(part))
    return False


def _broken_pattern(pattern: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        yield f"the pattern {pattern[:80]!r} is none of Python's"


def _meant(reference: str, schema: Any) -> Any:  # noqa: ANN401 - any part of one
    """The schema that a JSON pointer within the document leads to; None where it leads to none."""
    if reference == "#":
        return schema
    if not reference.startswith("#/"):
        return None
    found = schema
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return None
    return found if isinstance(found, dict | bool) else None
