"""How JSON writes a column's values, where a contract says it: bytes have several spellings, and decimals two.

Debezium's `binary.handling.mode` decides how bytes stand in JSON, its converter's `decimal.format` how decimals do.
Without a schema no message tells it, and what a value looks like does not: `deadbeef` is Base64 too, as `1234` is.
"""

from open_data_contract_standard.model import SchemaProperty

from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.types import column_type
from cdc_materializer.decode.units import WrittenAs
from cdc_materializer.schema.types import decimal_of

PROPERTY = "written_as"
_OF_BYTES = (WrittenAs.BASE64, WrittenAs.BASE64_URL, WrittenAs.HEX)
_OF_DECIMALS = (WrittenAs.DIGITS, WrittenAs.BYTES)


def read_written_as(declared: SchemaProperty, here: Place, findings: Findings) -> WrittenAs | None:
    """How a column's values are written; None where it is not said.

    Notes a `written_as` that is none of the column's type, or that a column has whose values have one spelling.
    """
    ddl = column_type(declared) or ""
    known = _OF_BYTES if ddl == "binary" else _OF_DECIMALS if decimal_of(ddl) is not None else ()
    for index, entry in enumerate(declared.customProperties or ()):
        if entry.property != PROPERTY:
            continue
        at = (*here, "customProperties", index)
        if not known:
            what = f"{PROPERTY} stands at a column that is neither binary nor a decimal."
            findings.add(at, what, "Remove it, or give the column's type.")
        elif entry.value in known:
            return WrittenAs(str(entry.value))
        else:
            what = f"unknown {PROPERTY} {str(entry.value)[:40]!r} of a {ddl}."
            findings.add(at, what, f"Write one of {', '.join(known)}.")
    return None
