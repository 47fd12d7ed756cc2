"""How masked columns are read, and the types in which rules see them: the same whatever else a batch has."""

from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.changes.options import Options
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decoders import Decoders, Lookup, decoders_of
from cdc_materializer.schema import Column, TableSchema
from cdc_materializer.testing import MemoryRegistry, avro_envelope_schema, avro_key_schema
from tests.unit.contracts import write
from tests.unit.test_decoders import row

_TABLE = TableSchema((Column("id", "bigint"), Column("pay", "string")), ("id",))


def _decoders(tmp_path: Path, declared: str, mask: str, *columns: object) -> Decoders:
    """What decodes the messages of some writers of a mirror that has the masked column `pay` already."""
    hides = f"customProperties: [{mask}], required: true"
    contract = load_contract(write(tmp_path, f"- {{name: pay, physicalType: '{declared}', {hides}}}"))
    fields: list[dict[str, Any]] = [{"id": "long"} | ({"pay": one} if one is not None else {}) for one in columns]
    schemas = {at: avro_envelope_schema("t", one) for at, one in enumerate(fields, 2)}
    registry = MemoryRegistry({1: avro_key_schema("t", {"id": "long"}), **schemas})
    sent = [row(f"id:{at:08X}", "id:00000001") for at in schemas]
    return decoders_of(sent, Lookup(registry, contract, Options(masks=contract.masks), _TABLE, ("t",)))


_REDACT, _HASH = "{property: mask, value: redact}", "{property: mask, value: hash}"


@pytest.mark.parametrize("mask", [_HASH, _REDACT, "{property: mask, value: null}", "{property: drop, value: true}"])
def test_a_masked_text_is_read_as_declared_whatever_came_before_it(tmp_path: Path, mask: str) -> None:
    """The mirror has no number for which it would have to stay a text."""
    found = []
    for sent in (["double", "string"], ["string"]):
        writer = _decoders(tmp_path, "numeric(12,2)", mask, *sent).writers.changes[-1]
        kinds = dict((Options().row(writer) or writer.wire).fields)
        found.append(column_type(kinds["pay"]))

    assert found == ["decimal(12,2)", "decimal(12,2)"]
