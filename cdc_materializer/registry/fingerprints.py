"""Fingerprints of Avro schemas, by which messages in Avro's single-object encoding name them."""

import json

from fastavro.schema import SchemaParseException, fingerprint, to_parsing_canonical_form

from cdc_materializer.registry.references import Fetch, ReferenceMissingError, Registered, standalone

_ALGORITHM = "CRC-64-AVRO"


def fingerprint_of(registered: Registered, fetch: Fetch) -> str | None:
    """The fingerprint of a schema as messages carry it, in upper-case hexadecimal; None where it has none.

    Args:
        registered: the schema; any but an Avro schema has no fingerprint.
        fetch: asks for the schemas that it refers to.
    """
    if registered.kind != "AVRO":
        return None
    try:
        form = to_parsing_canonical_form(json.loads(standalone(registered, fetch)))
    except (
        ReferenceMissingError,
        SchemaParseException,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return None
    # Little-endian, as the encoding asks for (Avro specification, "Single-object encoding").
    return str(fingerprint(form, _ALGORITHM)).upper()
