"""The types of columns as golden cases spell them, and how Avro and JSON with a schema carry them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

#: Names of Connect's literal types, and the Avro types that carry them.
_AVRO = {
    "boolean": "boolean",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
    "null": "null",
}
#: Short names of Debezium's own types, with the literal that carries each.
_NAMED = {
    "date": ("int32", "io.debezium.time.Date"),
    "microtimestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    "zonedtimestamp": ("string", "io.debezium.time.ZonedTimestamp"),
    "connectdate": ("int32", "org.apache.kafka.connect.data.Date"),
    "connecttime": ("int32", "org.apache.kafka.connect.data.Time"),
    "connecttimestamp": ("int64", "org.apache.kafka.connect.data.Timestamp"),
    **{
        name: ("int64", name)
        for name in ("timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-micros")
    },
    "isodate": ("string", "io.debezium.time.IsoDate"),
    "isotimestamp": ("string", "io.debezium.time.IsoTimestamp"),
    "textinterval": ("string", "io.debezium.time.Interval"),
    "json": ("string", "io.debezium.data.Json"),
    "uuid": ("string", "io.debezium.data.Uuid"),
    "xml": ("string", "io.debezium.data.Xml"),
    "ltree": ("string", "io.debezium.data.Ltree"),
    "tsvector": ("string", "io.debezium.data.Tsvector"),
}
#: Likewise of those that tell which values there are, `debeziumenum<a,b>`.
_ALLOWED = {"debeziumenum": "io.debezium.data.Enum", "debeziumset": "io.debezium.data.EnumSet"}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
#: As many digits as a number has.
_EXACT = Context(prec=1_000)
#: Structs by what a case calls them, with their names in schemas: any, and the transaction of Debezium's envelope.
_STRUCTS = {"struct": "test.Struct", "transaction": "event.block"}
_PADDING: dict[str, Any] = {"string": "", "boolean": False, "bytes": b"", "float32": 0.0, "float64": 0.0}


def _parts(fields: str) -> Iterator[str]:
    """The fields of a struct; a comma inside brackets is between a decimal's digits, or the fields of a part."""
    start = depth = 0
    for at, letter in enumerate(fields):
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            yield fields[start:at]
            start = at + 1
    yield fields[start:]


@dataclass(frozen=True)
class ColumnType:
    """A column's type as a case spells it.

    `int64`, `optional string` (may be null), `string(20)` (cut by the connector), `decimal(12,2)`, `date`.
    """

    literal: str
    optional: bool
    name: str = ""
    precision: int = 0
    scale: int = 0
    fields: "Mapping[str, ColumnType] | None" = None
    items: "ColumnType | None" = None
    default: str | None = None
    symbols: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ColumnType":  # noqa: C901, PLR0911 - one line a type
        """Read a type; KeyError for one that cases do not know."""
        text, _, default = text.partition(" default ")
        if default:
            return replace(cls.parse(text), default=default)
        plain = text.removeprefix("optional ")
        optional = plain != text
        if plain in _WHOLE:
            return _WHOLE[plain](optional)
        if plain == "unsigned":
            return cls("int64", optional, parameters=(("__debezium.source.column.type", "BIGINT UNSIGNED"),))
        if plain.startswith("string("):
            length = plain.removeprefix("string(").removesuffix(")")
            return cls("string", optional, parameters=(("truncateLength", length),))
        if plain.startswith("decimal("):
            precision, scale = (int(part) for part in plain.removeprefix("decimal(").rstrip(")").split(","))
            return cls("bytes", optional, _DECIMAL, precision, scale)
        kind, parted, rest = plain.partition("<")
        if parted and kind in _STRUCTS:
            parts = (part.partition(":") for part in _parts(rest.removesuffix(">")))
            return cls("struct", optional, _STRUCTS[kind], fields={name: cls.parse(kind) for name, _, kind in parts})
        if parted and kind in _ALLOWED:
            return cls("string", optional, _ALLOWED[kind], parameters=(("allowed", rest.removesuffix(">")),))
        if plain.startswith("enum<"):
            symbols = plain.removeprefix("enum<").removesuffix(">").split(",")
            return cls("string", optional, symbols=tuple(symbols))
        for literal in ("array", "map"):
            if plain.startswith(f"{literal}<"):
                items = plain.removeprefix(f"{literal}<").removesuffix(">")
                return cls(literal, optional, items=cls.parse(f"optional {items}"))
        literal, name = _NAMED.get(plain, (plain, ""))
        if literal not in _AVRO:
            raise KeyError(text)
        return cls(literal, optional, name)

    def connect(self) -> dict[str, Any]:
        """The type in Connect's JSON."""
        found: dict[str, Any] = {"type": self.literal.replace("float64", "double"), "optional": self.optional}
        if self.fields is not None:
            found["fields"] = [{**kind.connect(), "field": name} for name, kind in self.fields.items()]
        if self.items is not None:
            found["items" if self.literal == "array" else "values"] = self.items.connect()
            found |= {"keys": {"type": "string", "optional": False}} if self.literal == "map" else {}
        if self.name:
            found |= {"name": self.name, "version": 1}
        if self.name == _DECIMAL:
            found["parameters"] = {"scale": str(self.scale), "connect.decimal.precision": str(self.precision)}
        if self.default is not None:
            found["default"] = self.default
        if self.parameters:
            found["parameters"] = dict(self.parameters)
        return found

    def avro(self) -> Any:  # noqa: ANN401 - JSON
        """The type in Avro, as the Avro converter registers it."""
        if self.fields is not None:
            fields = [{"name": name, "type": kind.avro()} for name, kind in self.fields.items()]
            record = {"type": "record", "name": self.name, "fields": fields, "connect.name": self.name}
            return ["null", record] if self.optional else record
        if self.items is not None:
            items = self.items.avro()
            listed = {"type": self.literal, "items" if self.literal == "array" else "values": items}
            return ["null", listed] if self.optional else listed
        found: Any = _AVRO[self.literal]
        if self.symbols:
            found = {"type": "enum", "name": "test.Enum", "symbols": list(self.symbols)}
        if self.name:
            told = {"connect.name": self.name, "connect.version": 1}
            # A name without a dot is a logical type of Avro's own.
            found = {"type": found, **(told if "." in self.name else {"logicalType": self.name})}
        if self.name == _DECIMAL:
            found |= {"scale": self.scale, "precision": self.precision, "logicalType": "decimal"}
            found["connect.parameters"] = {"scale": str(self.scale), "connect.decimal.precision": str(self.precision)}
        if self.parameters:
            found = {"type": found} if isinstance(found, str) else found
            found["connect.parameters"] = dict(self.parameters)
        if self.default is not None:
            # A default that is not null puts its type first.
            found = {**(found if isinstance(found, dict) else {"type": found}), "connect.default": self.default}
            return [found, "null"] if self.optional else found
        if found == "null":
            # The only value of a union of nothing else takes a byte.
            return ["null"] if self.optional else found
        return ["null", found] if self.optional else found

    def padding(self) -> Any:  # noqa: ANN401 - JSON
        """What a connector writes into a `before` that it does not know (changelog-semantics §1.6)."""
        return None if self.optional or self.literal == "null" else _PADDING.get(self.literal, 0)

    def wire(self, value: Any, form: str) -> Any:  # noqa: ANN401, C901, PLR0911 - JSON; one line a type
        """A value as the encoding carries it."""
        if value is None:
            return None
        if self.name.endswith(".Date"):
            return value if isinstance(value, int) else (date.fromisoformat(str(value)) - date(1970, 1, 1)).days
        if self.name.endswith("MicroTimestamp") and not isinstance(value, int):
            since = datetime.fromisoformat(str(value)) - datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if self.name == _VARIABLE:
            scale = -int(Decimal(value).as_tuple().exponent)
            octets = _unscaled(Decimal(value), scale)
            return {"scale": scale, "value": octets if form == "avro" else _base64(octets)}
        if self.name == _DECIMAL and form == "numbers":
            return f"#{value}#"
        if self.name == _DECIMAL and isinstance(value, dict):
            octets = bytes.fromhex(value["hex"])
            return octets if form == "avro" else _base64(octets)
        if self.name == _DECIMAL:
            return Decimal(value) if form == "avro" else _base64(_unscaled(Decimal(value), self.scale))
        if self.literal == "bytes":
            octets = bytes.fromhex(value["hex"]) if isinstance(value, dict) else str(value).encode()
            return octets if form == "avro" else _base64(octets)
        if self.items is not None and self.literal == "array":
            return [self.items.wire(item, form) for item in value]
        if self.items is not None:
            return {name: self.items.wire(item, form) for name, item in value.items()}
        if self.fields is not None and isinstance(value, dict):
            return {name: self.fields[name].wire(part, form) for name, part in value.items()}
        return value


def _variable(optional: bool) -> ColumnType:  # noqa: FBT001 - as the other
    """A number with a scale of its own."""
    scaled = {"scale": ColumnType("int32", optional=False), "value": ColumnType("bytes", optional=False)}
    return ColumnType("struct", optional, _VARIABLE, fields=scaled)


def _updates(optional: bool) -> ColumnType:  # noqa: FBT001 - as the other
    """What MongoDB's connector says that an update changed."""
    text, named = ColumnType("string", optional=False), "io.debezium.connector.mongodb.changestream."
    cut = {"field": text, "size": ColumnType("int32", optional=False)}
    arrays = ColumnType("struct", optional=False, name=f"{named}truncatedarray", fields=cut)
    fields = {
        "removedFields": ColumnType("array", optional=True, items=text),
        "updatedFields": ColumnType.parse("optional json"),
        "truncatedArrays": ColumnType("array", optional=True, items=arrays),
    }
    return ColumnType("struct", optional, f"{named}updatedescription", fields=fields)


#: Records that cases know by a name.
_WHOLE = {"variabledecimal": _variable, "updatedescription": _updates}


def _unscaled(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


def types_of(columns: Mapping[str, str]) -> dict[str, ColumnType]:
    """Columns with their types, from the words of a case."""
    return {name: ColumnType.parse(text) for name, text in columns.items()}


def connect_types(columns: Mapping[str, ColumnType]) -> dict[str, dict[str, Any]]:
    """Columns with their types in Connect's JSON."""
    return {name: kind.connect() for name, kind in columns.items()}


def avro_types(columns: Mapping[str, ColumnType]) -> dict[str, Any]:
    """Columns with their types in Avro."""
    return {name: kind.avro() for name, kind in columns.items()}
