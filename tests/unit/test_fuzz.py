"""Any bytes at all, and schemas that are nearly right: what reads them first does no harm (`tests/fuzz/targets.py`)."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import targets
from tests.fuzz.seeds import seeds

_NAMES = st.sampled_from(
    ["a", "b", "A", "s.R", "R", "Value", "op", "after", "before", "source", "é", "a b", "", "__cdc_x"]
)
_MEANINGS = st.sampled_from(
    [
        "io.debezium.time.Date",
        "io.debezium.time.Timestamp",
        "io.debezium.time.StructuredDate",
        "io.debezium.data.VariableScaleDecimal",
        "org.apache.kafka.connect.data.Decimal",
        "decimal",
        "uuid",
        "timestamp-micros",
    ]
)
_WORDS = st.sampled_from(
    ["null", "boolean", "int", "int64", "long", "integer", "number", "string", "bytes", "double", "R", "s.R", "object"]
)
_SOME = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


def _kinds(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types of Avro, Connect and JSON Schema at once: each reads its own words in them."""
    fields = st.lists(
        st.fixed_dictionaries({"name": _NAMES, "field": _NAMES, "type": inner}, optional={"doc": _SOME}), max_size=3
    )
    told = {
        **dict.fromkeys(("connect.name", "logicalType", "title"), _MEANINGS | _SOME),
        **dict.fromkeys(("name", "namespace"), _NAMES | _SOME),
        **{name: st.integers(-3, 80) | _SOME for name in ("scale", "precision", "size")},
        **dict.fromkeys(("items", "values", "keys", "additionalProperties"), inner),
        "fields": fields | _SOME,
        "symbols": st.lists(_NAMES) | _SOME,
        "optional": _SOME,
        "connect.parameters": st.dictionaries(st.sampled_from(["scale", "connect.decimal.precision"]), _SOME) | _SOME,
        "properties": st.dictionaries(_NAMES, inner, max_size=3) | _SOME,
        "oneOf": st.lists(inner, max_size=2) | _SOME,
    }
    words = st.sampled_from(["record", "enum", "fixed", "array", "map", "struct", "object"])
    return st.lists(inner, max_size=3) | st.fixed_dictionaries({"type": words | _WORDS | inner}, optional=told)


_SCHEMAS = st.recursive(_WORDS | _SOME, _kinds, max_leaves=12)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """What connectors send, with some of its bytes changed, left out or put in."""
    octets = bytearray(draw(st.sampled_from(seeds())))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(octets)))
        octets[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(octets)


@pytest.mark.parametrize("target", targets.TARGETS.values(), ids=targets.TARGETS.keys())
@given(st.binary(max_size=600) | _damaged())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_bytes_do_harm(target: Any, data: bytes) -> None:  # noqa: ANN401 - a function of bytes
    """Whatever is in a topic or a registry is read, refused as what it is, or held; nothing else happens."""
    target(data)


@pytest.mark.parametrize("target", [targets.schemas, targets.references, targets.writers, targets.messages])
@given(st.lists(_SCHEMAS, min_size=1, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_schema_does_harm(target: Any, made: list[Any]) -> None:  # noqa: ANN401 - a function of bytes
    """Types that are nearly right: what they lack is found where it is read, and told as one error."""
    target("\n".join(json.dumps(schema) for schema in made).encode())


def test_the_seeds_are_read() -> None:
    """Fuzzing that begins with what nothing reads would reach little."""
    for seed in seeds():
        for target in targets.TARGETS.values():
            target(seed)
