"""What a registry answers: a schema that stands alone, found by its id."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One schema as the writer of a message registered it.

    Attributes:
        id: the number that messages carry.
        kind: `AVRO`, `JSON` or `PROTOBUF`, as the registry names it.
        text: the schema's text; for Avro with every referenced type written into it, so that it stands alone.
    """

    id: int
    kind: str
    text: str


class Registry(Protocol):
    """Finds schemas by id. What an id names never changes, so answers are kept for ever."""

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Find one schema.

        Returns:
            The schema, or None where the registry answers that it does not know the id (or a schema that
            it refers to); that answer is never kept, because the schema may be registered later.

        Raises:
            RegistryUnavailable: the registry cannot be asked, or its answer makes no sense.
        """
        ...
