"""What a registry answers: a schema that stands alone, found by its name."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from cdc_materializer.decode.naming import ID_BYTES, LEGACY_ID_BYTES, SchemaName

#: What the number in front of a datum is (`registry.id`).
IdKind: TypeAlias = Literal["confluent", "apicurio-content", "apicurio-global", "apicurio-legacy"]

#: A schema's name; a plain number is the one that stands in front of a datum.
Wanted: TypeAlias = "int | SchemaName"

#: Keywords of JSON Schema that no Avro schema has, and types that are none of Avro's.
_JSON_SCHEMAS = frozenset({"$schema", "$ref", "properties", "oneOf", "anyOf", "allOf"})
_JSON_SCHEMAS_OWN = ("object", "integer", "number")

_GLOBAL: frozenset[IdKind] = frozenset({"apicurio-global", "apicurio-legacy"})


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One schema as the writer of a message registered it.

    Attributes:
        id: how messages name it.
        kind: `AVRO`, `JSON` or `PROTOBUF`, as the registry names it.
        text: the schema's text, with everything that it refers to written into it, so that it stands alone; Protobuf's
            texts beside one another (`proto_files.bundle`).
    """

    id: Wanted
    kind: str
    text: str


class Registry(Protocol):
    """Finds schemas by name. What a name stands for never changes, so answers are kept for ever.

    Attributes:
        id_bytes: how many bytes the number in front of a datum has.
        place: which registry it is and what its numbers are, as text without a secret: in another one a number may name
            another schema.
    """

    id_bytes: int
    place: str

    @property
    def found(self) -> Collection[SchemaName]:
        """The names of the schemas that it has found so far."""
        ...

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find one schema.

        Returns:
            The schema, or None where the registry answers that it does not know the name (or a schema that
            it refers to); that answer is never kept, because the schema may be registered later.

        Raises:
            RegistryUnavailable: the registry cannot be asked, or its answer makes no sense.
            TimeOver: a deadline of the caller's came first.
        """
        ...


def id_bytes_of(ids: IdKind) -> int:
    """How many bytes a number of a kind has in front of a datum."""
    return LEGACY_ID_BYTES if ids == "apicurio-legacy" else ID_BYTES


def is_numbered(name: SchemaName, ids: IdKind) -> bool:
    """Whether a name is a number of the kind that the registry's numbers are.

    Confluent's interface of Apicurio gives its content ids.
    """
    return name.kind in ("id", apicurio_kind(ids))


def apicurio_kind(ids: IdKind) -> Literal["content", "global"]:
    """Which of Apicurio's two kinds of numbers stands in front of a datum."""
    return "global" if ids in _GLOBAL else "content"


def kind_of(text: str) -> str:
    """Tell from its text what kind a schema is, where the registry does not say."""
    try:
        found = json.loads(text)
    except ValueError:
        return "PROTOBUF"
    except RecursionError:  # JSON that nests deeper than Python goes, which no reader of a schema takes
        return "AVRO"
    if not isinstance(found, dict) or "fields" in found:
        return "AVRO"
    return "JSON" if _JSON_SCHEMAS & found.keys() or found.get("type") in _JSON_SCHEMAS_OWN else "AVRO"
