"""What is recognised and not read: such messages are held with one of these names as rule, most as UNDECODABLE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_materializer.decode.wire import WireType


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the message is, and what to do so that it can be read; a sentence each."""

    what: str
    do: str


CLOUD_EVENTS = "cloudevents"
AVRO_JSON = "avro-json"
EXT_JSON = "ext-json"
WITH_SCHEMA = "with-schema"
BEFORE_IMAGE = "before-image"
CELLS = "cells"
KEY_COLUMNS = "key-columns"
#: Held as SCHEMA_UNKNOWN, for a while.
MANY_SCHEMAS = "many-schemas"

REFUSALS: Mapping[str, Refusal] = {
    CLOUD_EVENTS: Refusal(
        "The message is a CloudEvent, which is not read.",
        "Set the connector's `value.converter` to an Avro or JSON converter instead of CloudEventsConverter.",
    ),
    AVRO_JSON: Refusal(
        "The message is written in Avro's JSON encoding, which is not read.",
        "Set `apicurio.registry.avro.encoding` to BINARY in the producer.",
    ),
    EXT_JSON: Refusal(
        "The message is JSON that names its schema by `schemaId` beside it, as Apicurio's ExtJsonConverter writes it, "
        "which is not read.",
        "Set the connector's converter to Kafka Connect's JsonConverter with `schemas.enable=true`, or to Apicurio's "
        "AvroConverter.",
    ),
    WITH_SCHEMA: Refusal(
        "The message has a schema, and its table's format is read in JSON without one, by the contract's types.",
        "Have the producer write JSON without a schema: `format=json` in GoldenGate's handler for Kafka, "
        "`value.converter.schemas.enable=false` for Kafka Connect's JsonConverter.",
    ),
    BEFORE_IMAGE: Refusal(
        "The message of AWS DMS has an object beside `data` and `metadata` that is not read: a before image, it seems.",
        "Name it in the table's `before_image`, as the task's `BeforeImageSettings` do in `FieldName`, "
        "then `cdcm replay … --publish`.",
    ),
    CELLS: Refusal(
        "Each column of the message is a record that says whether it was set, as the connectors of Cassandra and "
        "YugabyteDB write it, which is not read.",
        "For YugabyteDB set the connector's transform `YBExtractNewRecordState`; Cassandra's changes cannot be read.",
    ),
    KEY_COLUMNS: Refusal(
        "The message's Kafka key, JSON without a schema, has columns beside those that the mirror's rows are known by.",
        "If the mirror's key identifies a row all the same, name it in the table's `key`, then "
        "`cdcm replay … --publish`; else mirror under another `mirror` name, with all columns of the key in `key`, and "
        "as `primaryKey` in the contract.",
    ),
    MANY_SCHEMAS: Refusal(
        "The message brings its schema along, and its batch had more schemas than are read at a time.",
        "Each run reads some of what waits. If ever more wait, see who writes such messages to the topic.",
    ),
}


#: The fields that a CloudEvent has to have.
CLOUD_EVENT_FIELDS = frozenset({"id", "source", "specversion", "type"})


def is_cloud_event(fields: frozenset[str]) -> bool:
    """Whether an object with these fields is a CloudEvent: those that its specification requires."""
    return fields >= CLOUD_EVENT_FIELDS


#: The fields of a cell: of Cassandra's, and of YugabyteDB's.
_CELLS = ({"value", "deletion_ts", "set"}, {"value", "set"})


def has_cells(row: WireType) -> bool:
    """Whether the columns of a row are records which each say whether they were set (changelog-semantics §2.1)."""
    fields = [{name for name, _ in kind.fields} for _, kind in row.fields]
    return bool(fields) and all(names in _CELLS for names in fields)


def is_ext_json(found: Mapping[str, object]) -> bool:
    """Whether an object is another one beside the id of its schema."""
    return (
        list(found) == ["schemaId", "payload"] and type(found["schemaId"]) is int and isinstance(found["payload"], dict)
    )
