"""How a message says which schema it was written with (changelog-semantics §4).

Column functions over the binary `key` or `value` of a message and its headers. The selector is a short text that is
equal for two messages exactly when one decoder serves both; for a schema of a registry it is a `naming.SchemaName`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.naming import (
    FINGERPRINT_BYTES,
    GUID_BYTES,
    ID_BYTES,
    LOOKUPS,
    MAGIC_GUID,
    MAGIC_ID,
    MAGIC_SINGLE_OBJECT,
    NAME_BYTES_MAX,
    NEGATIVE,
)
from cdc_materializer.decode.refusals import CLOUD_EVENT_FIELDS, CLOUD_EVENTS, EXT_JSON

#: Selector of JSON without a schema block; its types are declared by a contract.
PLAIN_JSON = "json"
#: What selectors begin with of such JSON whose type the format itself knows (`Format.other_types`).
OWN_JSON = "json:"
#: Selector of a CloudEvent in JSON, which is an envelope of another kind.
CLOUD_EVENT = "cloudevent"
#: Selector of JSON that names its schema by an id beside it, as Apicurio's ExtJsonConverter writes it.
JSON_BY_ID = "json-by-id"
#: The selectors of what is recognised and not read, with what it is.
UNREAD: Mapping[str, str] = {CLOUD_EVENT: CLOUD_EVENTS, JSON_BY_ID: EXT_JSON}
#: Selector of bytes that begin like nothing we know.
UNKNOWN = "unknown"
#: What selectors begin with of messages that bring their schema.
BLOCK = "block:"
#: What they begin with where a header says that the datum is written in another way than Avro's binary one.
ENCODING = "encoding:"
#: Stands for the selectors of schemas that are not looked up this time.
UNASKED = "unasked"

Side = Literal["key", "value"]

#: How Confluent's serializers and Apicurio's name their headers.
_CONFLUENT = "__{side}_schema_id"
_APICURIO = "apicurio.{side}.{part}"
_APICURIO_ID_BYTES = 8
#: What JsonConverter writes around an object that has no schema, where it is to write schemas.
_NO_SCHEMA = b'{"schema":null,"payload":'
_BY_ID = '^\\{"schemaId":\\d+,"payload":\\{'


def _of_id(octets: Column, id_bytes: int) -> Column:
    return (F.length(octets) > id_bytes) & F.startswith(octets, F.lit(MAGIC_ID)) & _is_positive(octets, 2)


def _is_positive(octets: Column, begin: int) -> Column:
    return F.substring(octets, begin, 1) < F.lit(NEGATIVE)


def _of_guid(octets: Column) -> Column:
    return (F.length(octets) > GUID_BYTES) & F.startswith(octets, F.lit(MAGIC_GUID))


def _of_fingerprint(octets: Column) -> Column:
    enough = F.length(octets) >= len(MAGIC_SINGLE_OBJECT) + FINGERPRINT_BYTES
    return enough & F.startswith(octets, F.lit(MAGIC_SINGLE_OBJECT))


def _named(kind: str, octets: Column) -> Column:
    return F.concat(F.lit(f"{kind}:"), F.hex(octets))


def _named_in_bytes(octets: Column, id_bytes: int) -> Column:
    """The name in the first bytes; NULL for none. `naming.named_in_bytes` says the same of one message."""
    return (
        F.when(_of_id(octets, id_bytes), _named("id", F.substring(octets, 2, id_bytes)))
        .when(_of_guid(octets), _named("guid", F.substring(octets, 2, GUID_BYTES)))
        .when(_of_fingerprint(octets), _named("fingerprint", F.substring(octets, 3, FINGERPRINT_BYTES)))
    )


def datum(octets: Column, named: Column, id_bytes: int = ID_BYTES) -> Column:
    """The bytes behind what names the schema, or beside a schema that is null; all of them where a header names one.

    Args:
        octets: the key or value.
        named: the schema's name from the headers (`named_in_headers`), NULL for none.
        id_bytes: how many bytes an id has.
    """
    header_bytes = (
        F.when(_of_id(octets, id_bytes), 1 + id_bytes)
        .when(_of_guid(octets), 1 + GUID_BYTES)
        .when(_of_fingerprint(octets), len(MAGIC_SINGLE_OBJECT) + FINGERPRINT_BYTES)
        .otherwise(0)
    )
    behind = F.substring(octets, header_bytes + 1, F.length(octets))
    return F.when(named.isNotNull(), octets).when(header_bytes == 0, _without_block(octets)).otherwise(behind)


def _without_block(octets: Column) -> Column:
    """The object beside a schema that is null; all of the bytes where there is none, as in a row with more columns."""
    begins = F.startswith(octets, F.lit(_NO_SCHEMA + b"{")) & F.endswith(octets, F.lit(b"}"))
    is_block = begins & _has_only(octets.cast("string"), "schema", "payload")
    behind = len(_NO_SCHEMA) + 1
    return F.when(is_block, F.substring(octets, F.lit(behind), F.length(octets) - behind)).otherwise(octets)


def _has_only(text: Column, *names: str) -> Column:
    """Whether a JSON object has fields of these names, in this order, and no others."""
    return F.coalesce(F.json_object_keys(text) == F.array(*[F.lit(name) for name in names]), F.lit(False))


def _cut(octets: Column) -> Column:
    # A name of any length would go to the driver; one byte too many tells as well that no schema has it.
    return F.substring(octets, 1, NAME_BYTES_MAX + 1)


def named_in_headers(headers: Column, side: Side) -> Column:
    """The name that headers give the schema of a key or value; NULL where no header does.

    Where a name comes twice its last one counts, as for Kafka's own deserializers. A header that is none of the forms
    that its serializer writes names nothing, and the bytes of the message speak for themselves.

    Args:
        headers: array<struct<key: string, value: binary>>.
        side: whose schema it is.
    """
    parts = ("contentId", "globalId", "contentHash", "groupId", "artifactId", "version", "encoding")
    apicurio = {part: _APICURIO.format(side=side, part=part) for part in parts}
    confluent = _CONFLUENT.format(side=side)
    found = {part: _cut(_last(headers, name)) for part, name in apicurio.items()}
    artifact = [F.coalesce(F.hex(found[part]), F.lit("")) for part in ("groupId", "artifactId", "version")]
    encoding = found["encoding"]
    named = F.coalesce(
        F.when(F.upper(encoding.cast("string")) != "BINARY", _named("encoding", encoding)),
        _confluent_name(_last(headers, confluent)),
        _apicurio_number("content", found["contentId"]),
        _apicurio_number("global", found["globalId"]),
        _named("hash", found["contentHash"]),
        # A group or version that is not told is an empty text here.
        F.when(found["artifactId"].isNotNull(), F.concat(F.lit("artifact:"), F.concat_ws("/", *artifact))),
    )
    # Most topics have headers of other kinds, or none; they pay one look at the names.
    names = F.array(*[F.lit(name) for name in (confluent, *apicurio.values())])
    return F.when(F.arrays_overlap(headers["key"], names), named)


def _last(headers: Column, name: str) -> Column:
    return F.get(F.reverse(headers["value"]), F.array_position(F.reverse(headers["key"]), F.lit(name)).cast("int") - 1)


def _confluent_name(octets: Column) -> Column:
    named = F.when(_of_id(octets, ID_BYTES), _told("id", octets, ID_BYTES)).when(
        _of_guid(octets), _told("guid", octets, GUID_BYTES)
    )
    return F.when(F.length(octets) <= NAME_BYTES_MAX, named)


def _told(kind: str, octets: Column, size: int) -> Column:
    """A name, and behind it which message of a Protobuf file it is."""
    index = F.substring(octets, 2 + size, NAME_BYTES_MAX)
    named = _named(kind, F.substring(octets, 2, size))
    return F.when(F.length(octets) > 1 + size, F.concat(named, F.lit("/"), F.hex(index))).otherwise(named)


def _apicurio_number(kind: str, octets: Column) -> Column:
    return F.when((F.length(octets) == _APICURIO_ID_BYTES) & _is_positive(octets, 1), _named(kind, octets))


def schema_id(octets: Column, named: Column, id_bytes: int = ID_BYTES) -> Column:
    """The number by which a message names its schema; NULL for other names, none, or one beyond an `int`."""
    name = F.coalesce(named, _named_in_bytes(octets, id_bytes))
    digits = F.substring_index(F.substring_index(name, ":", -1), "/", 1)
    number = F.when(name.rlike("^(id|content|global):"), digits)
    return F.conv(number, 16, 10).cast("decimal(20,0)").try_cast("int")


def schema_block(octets: Column) -> Column:
    """The text of the `schema` block of Connect's JSON; NULL where the message has none.

    JsonConverter writes the block first, and its type first in it. Cutting it out there costs a search; a full parse of
    a message that is nine tenths schema is paid only for other producers. A row may have columns of these two names:
    what has no type is no block.
    """
    text = octets.cast("string")
    first = F.substring_index(F.substring(text, F.lit(len('{"schema":') + 1), F.length(text)), ',"payload":', 1)
    # A parameter of a field may be called so as well. Parameters are texts, and the block is an object.
    is_cut = text.startswith('{"schema":{"type":') & first.endswith("}")
    # Every envelope has quotes and a `schema`, in its source; the word that few have is looked for first.
    may_have = F.contains(text, F.lit("payload")) & _is_object(text)
    for name in ('"payload"', '"schema"'):
        may_have = may_have & F.contains(text, F.lit(name))
    has_type = F.get_json_object(text, "$.schema.type").isNotNull()
    return F.when(is_cut, first).when(may_have & has_type, F.get_json_object(text, "$.schema"))


def _is_object(text: Column) -> Column:
    # Nearly all begin with the brace; for a search, Spark makes a text of Java's first.
    return text.startswith("{") | text.rlike("^\\s*\\{")


def selector(octets: Column, named: Column, id_bytes: int = ID_BYTES) -> Column:
    """The text that names the writer of a key or value; NULL for NULL bytes.

    Args:
        octets: the key or value.
        named: the schema's name from the headers (`named_in_headers`), NULL for none.
        id_bytes: how many bytes an id has.
    """
    block = schema_block(octets)
    text = octets.cast("string")
    required = F.array(*[F.lit(name) for name in sorted(CLOUD_EVENT_FIELDS)])
    has_fields = F.size(F.array_except(required, F.json_object_keys(text))) == 0
    is_cloud_event = F.contains(text, F.lit("specversion")) & F.coalesce(has_fields, F.lit(False))
    is_by_id = text.startswith('{"schemaId":') & text.rlike(_BY_ID) & _has_only(text, "schemaId", "payload")
    object_ = F.when(is_cloud_event, CLOUD_EVENT).when(is_by_id, JSON_BY_ID).otherwise(PLAIN_JSON)
    in_bytes = _named_in_bytes(octets, id_bytes)
    return (
        F.when(octets.isNull(), F.lit(None).cast("string"))
        .when(named.isNotNull(), named)
        .when(in_bytes.isNotNull(), in_bytes)
        .when(block.isNotNull(), F.concat(F.lit(BLOCK), F.hex(F.xxhash64(block)), F.lit(":"), F.length(block)))
        .when(_is_object(text), object_)
        .otherwise(UNKNOWN)
    )


def names_schema(chosen: Column) -> Column:
    """Whether a selector is of a schema: one that is looked up by its name, or that the message brings along."""
    kind = F.substring_index(chosen, ":", 1)
    return F.coalesce(kind.isin(*sorted(LOOKUPS), BLOCK.removesuffix(":"), UNASKED), F.lit(False))


def of_one_kind(chosen: Column) -> Column:
    """A selector, one for all encodings that headers name: of none of them anything is read."""
    return F.when(chosen.startswith(ENCODING), F.lit(ENCODING)).otherwise(chosen)
