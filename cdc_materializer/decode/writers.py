"""From the schemas that a batch names to the decoders that read it.

On the driver, once a batch: the distinct writers of the batch (a handful; dozens after much DDL) are looked up, parsed
and turned into one `Writer` each. Always the writer's own schema, never a reader's: defaults are not data (§4).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from cdc_materializer.decode import json_texts
from cdc_materializer.decode.framing import PLAIN_JSON
from cdc_materializer.decode.json_schema import parse_json_schema
from cdc_materializer.decode.protobuf import translation
from cdc_materializer.decode.protobuf_reader import as_avro
from cdc_materializer.decode.reading import Form
from cdc_materializer.decode.wire import NULL, PRIMITIVES, WireSchemaInvalid, WireType, parse_avro, parse_connect
from cdc_materializer.names import is_letter_of_java, quote
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX


@dataclass(frozen=True)
class Writer:
    """One decoder.

    Attributes:
        selector: the text by which messages choose it (see `framing.selector`).
        form: whether Spark's Avro or JSON reader delivers the values.
        wire: the type of the decoded datum.
        avro: the Avro schema for Spark's reader; None for JSON.
        protobuf: the program that writes a Protobuf message as an Avro datum (`protobuf`); None for others.
        wrapped: whether the datum stands under `payload`, beside its schema block.
        bare: whether the datum is one value and no record; its type shows it as the only field of one.
        members: the writers that it stands for (`merging`), whose data it gives in one form; none for itself alone.
    """

    selector: str
    form: Form
    wire: WireType
    avro: str | None = None
    wrapped: bool = False
    protobuf: str | None = None
    bare: bool = False
    members: tuple[Writer, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether only the messages themselves show which columns they have: JSON whose types a contract declares."""
        return self.selector == PLAIN_JSON

    @property
    def leaves_texts(self) -> bool:
        """Whether its reader gives the bytes of texts as they are, whether they are texts or not."""
        return self.avro is not None and not all(member.protobuf for member in self.members or (self,))

    @property
    def selectors(self) -> tuple[str, ...]:
        """The texts by which messages choose it."""
        return tuple(member.selector for member in self.members) or (self.selector,)

    @property
    def reads_objects(self) -> bool:
        """Whether it reads JSON objects, for which `json_texts` has the texts."""
        return self.avro is None and not self.bare

    def datum(self, octets: Column, chosen: Column, ddl: str, told: Column | None = None) -> Column:
        """The decoded datum: a struct for `ddl`; all NULL where the bytes are not what the schema says.

        NULL for messages that did not choose it.

        Args:
            octets: the binary key or value, without what names its schema (`framing.datum`).
            chosen: the selector of the message.
            ddl: the fields that are wanted, as Spark DDL (`op string, after struct<…>`); Avro is read whole.
            told: the message's column of `json_texts`, for one that `reads_objects`; None where it is not there.
        """
        if self.avro is not None:
            return self._from_avro(octets, chosen)
        fields = f"payload struct<{ddl}>" if self.wrapped else ddl
        is_read = chosen.isin(*self.selectors)
        if self.bare:
            fields, text = ddl.replace(quote(self.wire.fields[0][0]), "payload", 1), octets.cast("string")
            around = F.when(text.rlike(_SCALAR), F.concat(F.lit('{"payload":'), text, F.lit("}")))
            ended = json_texts.ended_text(text if self.wrapped else F.coalesce(around, F.lit(json_texts.NO_TEXT)))
        else:
            ended = json_texts.ended_text(octets.cast("string")) if told is None else told
            # No value, as a payload that is null is none. Whatever is asked of a column twice, Spark leaves a column.
            is_value = ended.startswith("{") | (F.trim(ended) != "null")
            is_read = is_read & (ended.isNotNull() if self.wrapped else is_value)
        read = read_json(ended, f"{fields}, {json_texts.END} boolean, {CORRUPT} string")
        return F.when(is_read, read)

    def _from_avro(self, octets: Column, chosen: Column) -> Column:
        options = {"mode": "PERMISSIVE"}
        written: dict[tuple[str, str | None], list[str]] = {}
        for member in self.members or (self,):
            written.setdefault((member.avro or "", member.protobuf), []).append(member.selector)
        if len({avro for avro, _ in written}) > 1:
            options["avroSchema"] = self.avro or ""
        read = []
        for (avro, program), selectors in written.items():
            datum = octets if program is None else as_avro(octets, program)
            read.append((selectors, from_avro(F.concat(datum, F.lit(_END)), avro, options)))
        found = F.when(chosen.isin(*read[0][0]), read[0][1])
        for selectors, one in read[1:]:
            found = found.when(chosen.isin(*selectors), one)
        return found

    def body(self, datum: Column) -> Column:
        """The struct of the datum's own fields."""
        if self.avro is not None:
            return datum["datum"]
        if self.bare:
            return F.struct(datum["payload"].alias(self.wire.fields[0][0]))
        return datum["payload"] if self.wrapped else datum

    def is_corrupt(self, datum: Column) -> Column:
        """Whether the bytes are not what the schema says."""
        if self.avro is not None:
            return ~datum["end"].eqNullSafe(F.lit(_END))
        return datum[CORRUPT].isNotNull() | (datum.isNotNull() & datum[json_texts.END].isNull())


def read_json(ended: Column, fields: str) -> Column:
    """A JSON text, or one that a reading of it found to be corrupt (`CORRUPT`), as a struct.

    Args:
        ended: the text, with its end (`json_texts`).
        fields: the struct's fields as Spark's DDL, or the struct's type as Spark's JSON.
    """
    return F.from_json(ended, fields, _JSON_OPTIONS)


#: Spark's JSON reader turns one bad field into NULL and goes on; with this column it tells us, so that we hold the
#: message.
CORRUPT = "__cdc_corrupt"
#: Avro has no end of its own: Spark's reader takes what it needs and leaves the rest unseen. So each datum is read with
#: these bytes behind it, as the first of two fields; if the second is not they, the datum was longer or shorter.
#: No sender knows them.
_END = secrets.token_bytes(8)
#: A text, a number, or one of JSON's words: what a key alone may be. Possessive, since Java goes one call deeper for
#: each turn of another loop over alternatives, and a stack that overflows ends Spark's JVM.
_SCALAR = r'^\s*+("([^"\\]++|\\.)*+"|-?[0-9.eE+-]++|true|false|null)\s*+$'
#: The types of values that a key may be without a record around them; none of a floating-point number, which is no key.
_BARE = frozenset({"boolean", "int", "long", "string", "enum", "bytes", "fixed"})
_COMPLEX = frozenset({"record", "enum", "fixed", "array", "map"})
#: What named types have besides their names and, for records, their fields.
_OWN: Mapping[str, tuple[str, ...]] = {"record": (), "enum": ("symbols",), "fixed": ("size",)}
#: How long a schema may be with each named type written out wherever it is used, in characters: four thousand columns
#: with long names, before and after a change, are a quarter of it.
SCHEMA_LENGTH_MAX = 4_000_000
#: About so many characters stand around a name in a schema.
_AROUND = 40
_END_TYPE = {"type": "fixed", "name": "__cdc_end", "size": len(_END)}
#: How long a text may be for Spark's JSON reader, which by itself ends at 20 million characters: as long as for Avro's.
JSON_TEXT_MAX = 128 * 2**20
_JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "maxStringLen": str(JSON_TEXT_MAX),
}


def avro_writer(selector: str, text: str, column: str | None = None) -> Writer:
    """The decoder for an Avro schema.

    Args:
        selector: the text by which messages choose it.
        text: the schema.
        column: what one value that is no record is called; None where it cannot be read.

    Raises:
        WireSchemaInvalid: the text is no Avro schema that has a table form.
    """
    wire, schema = parse_avro(text), json.loads(text)
    bare = _is_bare(wire, column)
    if bare:
        # A record of one field has the bytes of that field.
        schema = {"type": "record", "name": "bare", "fields": [{"name": column, "type": schema}]}
        wire = parse_avro(json.dumps(schema))
    elif wire.literal != "record":
        message = "the schema is not a record"
        raise WireSchemaInvalid(message)
    try:
        datum = _ForSpark().write(schema, "datum")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        message = "the registered text is not an Avro schema that can be read"
        raise WireSchemaInvalid(message) from error
    fields = [{"name": "datum", "type": datum}, {"name": "end", "type": _END_TYPE}]
    avro = json.dumps({"type": "record", "name": "__cdc_message", "fields": fields})
    return Writer(selector, "avro", wire, avro=avro, bare=bare)


def _is_bare(wire: WireType, column: str | None) -> bool:
    return column is not None and wire.literal in _BARE


def _with_name(selector: str, wire: WireType, column: str | None, *, wrapped: bool, kind: str) -> Writer:
    """The decoder of JSON for a record, or for one value that is the column."""
    if column is not None and _is_bare(wire, column):
        named = WireType("record", fields=((column, wire),))
        return Writer(selector, "json", named, wrapped=wrapped, bare=True)
    if wire.literal != "record":
        message = f"the schema is not {kind}"
        raise WireSchemaInvalid(message)
    return Writer(selector, "json", wire, wrapped=wrapped)


def block_writer(selector: str, text: str, column: str | None = None) -> Writer:
    """The decoder for Connect's JSON with its schema block; the arguments are those of `avro_writer`.

    Raises:
        WireSchemaInvalid: the text is no Connect schema of a struct.
    """
    try:
        block = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = "the schema block is not JSON"
        raise WireSchemaInvalid(message) from error
    return _with_name(selector, parse_connect(block), column, wrapped=True, kind="a struct")


def json_writer(selector: str, text: str, column: str | None = None) -> Writer:
    """The decoder for JSON with a JSON Schema in a registry; the arguments are those of `avro_writer`.

    Raises:
        WireSchemaInvalid: the text is no JSON Schema of an object with properties.
    """
    return _with_name(selector, parse_json_schema(text), column, wrapped=False, kind="an object")


def protobuf_writer(selector: str, text: str, index: bytes | None, exact: Container[str] | None) -> Writer:
    """The decoder for a schema in Protobuf.

    Args:
        selector: the text by which messages choose it.
        text: the schema's text and those that it imports (`proto_files.bundle`).
        index: as `protobuf.translation` takes it.
        exact: as it takes that, too.

    Raises:
        WireSchemaInvalid: the text is no Protobuf schema of a message that has a table form.
    """
    found = translation(text, index, exact)
    return replace(avro_writer(selector, found.avro), protobuf=found.program)


def declared(types: Mapping[str, str], more: Mapping[str, Mapping[str, str]] | None = None) -> WireType:
    """The wire type of a JSON row without a schema, from the column types that a contract declares.

    Args:
        types: the columns' types.
        more: what else the contract says of columns: that they are sets of MySQL's, how their times are counted.
    """
    fields = [
        (name, WireType("declared", optional=True, parameters={"ddl": ddl, **(more or {}).get(name, {})}))
        for name, ddl in types.items()
    ]
    return WireType("record", optional=True, fields=tuple(fields))


class _ForSpark:
    """Writes a schema as Spark's reader gets it: no logical types but decimals that it reads exactly, no references.

    Spark converts logical types by its own rules. Each named type is written out where it is used, under the name of
    its place: bytes hold no names, and two writers' schemas of one place have to have one.
    """

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        self._length = 0

    def write(self, schema: Any, place: str, space: str = "") -> Any:  # noqa: ANN401 - JSON
        """The schema of a place, its names looked up in a namespace first.

        Raises:
            WireSchemaInvalid: it would be too long, or Spark's parser does not take it.
        """
        if isinstance(schema, list):
            return self._union(schema, place, space)
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self._reference(schema, place, space)
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in _COMPLEX:
            return _plain(schema, self.write(kind, place, space))
        if kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            inner = self.write(schema[part], f"{place}_0", space)
            # Of these a few bytes may say that there are millions, which are more than there is memory.
            _check(kind == "map" or not _takes_nothing(inner), "the items of an array take no bytes")
            return {"type": kind, part: inner}
        declared = schema.get("namespace", space)
        full = schema["name"] if "." in schema["name"] else f"{declared}.{schema['name']}".lstrip(".")
        space = full.rpartition(".")[0]
        self._named[full] = (schema, space)
        own = {name: schema[name] for name in _OWN[kind]}
        self._count(place, *own.get("symbols", ()))
        if kind == "enum":
            symbols = own["symbols"]
            _check(isinstance(symbols, list) and len(set(symbols)) == len(symbols), "an enum has a symbol twice")
            _check(all(_is_name(symbol) for symbol in symbols), "a symbol has other characters than letters")
        if kind == "fixed":
            _check(type(own["size"]) is int and own["size"] > 0, "the size of a fixed is no number above 0")
        if kind != "record":
            return _plain(schema, {"type": kind, "name": place, **own})
        fields = [(field["name"], field["type"]) for field in schema["fields"]]
        self._count(*[name for name, _ in fields])
        _check(all(_is_name(name) for name, _ in fields), "a field's name has other characters than letters")
        # A default is never data to us, and one that its type does not allow stops Avro's parser.
        written = [(name, self.write(part, f"{place}_{len(name)}_{name}", space)) for name, part in fields]
        # Of what takes no byte, always NULL or a record without fields, no column is made.
        told = [{"name": name, "type": part} for name, part in written if not _takes_nothing(part)]
        return {"type": "record", "name": place, "fields": told}

    def _reference(self, name: str, place: str, space: str) -> Any:  # noqa: ANN401 - JSON
        full = name if "." in name else f"{space}.{name}".lstrip(".")
        found, around = self._named[full if full in self._named else name]
        return self.write(found, place, around)

    def _union(self, schema: list[Any], place: str, space: str) -> list[Any]:
        parts = [branch for branch in schema if branch != NULL]
        if not parts:
            # It has a byte, which says that it is NULL, and Spark has no type for it.
            return [*schema, "boolean"]
        ends = [""] if len(parts) == 1 else [f"_{at}" for at in range(len(parts))]
        read = iter([self.write(part, place + end, space) for part, end in zip(parts, ends, strict=True)])
        written = [NULL if branch == NULL else next(read) for branch in schema]
        kinds = [part if isinstance(part, str) else part["type"] for part in written if not isinstance(part, list)]
        plain = [kind for kind in kinds if kind not in _OWN]
        _check(len(kinds) == len(written) and len(set(plain)) == len(plain), "a union has a type twice, or a union")
        return written

    def _count(self, *texts: str) -> None:
        self._length += sum(len(text) + _AROUND for text in texts)
        _check(self._length <= SCHEMA_LENGTH_MAX, "the schema is too long with all that it refers to")


def _check(is_fine: bool, message: str) -> None:  # noqa: FBT001 - a check of it
    if not is_fine:
        raise WireSchemaInvalid(message)


def _takes_nothing(written: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a type as Spark's reader gets it has values of no bytes."""
    return bool(written == NULL) or (isinstance(written, dict) and written.get("fields") == [])


def _is_name(name: str) -> bool:
    """Whether Avro's Java parser takes it: letters of any script, digits and `_`, no digit first.

    It looks at units of 16 bits, of which a letter that takes two has none that is one.
    """
    letters = name.replace("_", "a")
    return is_letter_of_java(letters[:1]) and all(is_letter_of_java(sign) or sign.isdecimal() for sign in letters)


def _plain(schema: Mapping[str, Any], read: Any) -> Any:  # noqa: ANN401 - JSON
    """A type with its precision and scale, where it is a decimal that Spark reads exactly; else without a meaning."""
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    exact = (
        schema.get("logicalType") == "decimal"
        and schema["type"] == "bytes"
        and type(precision) is type(scale) is int
        and precision > 0
        and 0 <= scale <= precision < DECIMAL_DIGITS_MAX
    )
    if not exact:
        return read
    decimal = {"logicalType": "decimal", "precision": DECIMAL_DIGITS_MAX, "scale": scale}
    return {**(read if isinstance(read, dict) else {"type": read}), **decimal}
