"""Whether a text fits a JSON schema of a contract: a yes or no for every text there is."""

import pickle
import sys
from typing import Any

import pytest

from cdc_materializer.contract.json_schemas import fitting

_PRICE = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01}}}
_LISTS = {"properties": {"items": {"$ref": "#"}}, "type": "object"}


def _nested(levels: int) -> str:
    return '{"items": ' * levels + "{}" + "}" * levels


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        (_PRICE, '{"price": 1.5}', True),
        (_PRICE, '{"price": "x"}', False),
        (_PRICE, '{"price": NaN}', False),
        (_PRICE, '{"price": Infinity}', False),
        (_PRICE, '{"price": 1e400}', False),
        ({"type": "object"}, '{"price": -Infinity}', False),
        ({"type": "object"}, '{"price": 1e400}', True),
        ({}, "NaN", False),
        ({}, "not json", False),
        ({}, "", False),
        ({}, "{'a': 1}", False),
        ({}, "null", True),
        ({}, "[" * 100_000 + "]" * 100_000, False),
        ({}, "9" * 5_000, False),
        (_LISTS, _nested(3), True),
        (_LISTS, '{"items": {"items": 5}}', False),
        (_LISTS, _nested(400), False),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1}, "1", False),
    ],
    ids=lambda value: None if isinstance(value, bool) else str(value)[:40],
)
def test_every_text_fits_a_schema_or_does_not(schema: dict[str, Any], text: str, fits: bool) -> None:  # noqa: FBT001
    """What is no JSON fits none, and neither does a value that cannot be judged by it; nothing is raised."""
    assert fitting(schema)(text) is fits


def test_null_is_neither() -> None:
    """The rule is not about it."""
    assert fitting({})(None) is None


def test_what_goes_to_the_executors_needs_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the library of schemas and may not have this package, so the function is sent whole."""
    from pyspark import cloudpickle

    sent = cloudpickle.dumps(fitting({"type": "object"}))  # type: ignore[no-untyped-call]
    monkeypatch.setitem(sys.modules, fitting.__module__, None)

    assert [pickle.loads(sent)(text) for text in ("{}", "[]", "NaN")] == [True, False, False]  # noqa: S301
