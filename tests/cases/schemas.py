"""The registry of golden cases: recorded schemas by id and by GUID."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any


def write_schemas(
    folder: Path,
    schemas: Mapping[int, Mapping[str, Any]],
    others: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Write schemas, and those of other kinds than Avro, as recorded ones, beside those that are there."""
    ids, guids = folder / "ids", folder / "guids"
    ids.mkdir(parents=True, exist_ok=True)
    guids.mkdir(exist_ok=True)
    bodies = {number: {"schema": json.dumps(schema), "schemaType": "AVRO"} for number, schema in schemas.items()}
    for number, other in others.items():
        schema = other.get("schema", "")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        bodies[number] = {"schema": text, "schemaType": other["kind"]}
    for number, body in bodies.items():
        for path in (ids / f"{number}.json", guids / f"{guid_of(number)}.json"):
            path.write_text(json.dumps(body), encoding="utf-8")


def guid_of(number: int) -> uuid.UUID:
    """The GUID that goes with an id in the registry of the cases."""
    return uuid.UUID(int=number)
