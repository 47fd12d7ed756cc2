"""A registry whose schemas are held against those that a table's messages were decoded by before (decision 35).

A name like `id:2` names a schema in one registry; in another one, or where its schema was replaced in place, the same
bytes would be read as other values without a word (changelog-semantics §4). So what each name stood for is remembered
as a digest, and a name that stands for something else stops the table. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.errors import LakeUnavailable, SchemaReplaced
from cdc_materializer.registry.references import full_names
from cdc_materializer.registry.schemas import RegisteredSchema, Registry, Wanted

#: Where it is remembered: a property of the raw table, whose bytes the names are in.
PROPERTY = "cdcm.schemas"
#: So many names are remembered, the first that were met: a table has dozens, and each is some 35 bytes in every version
#: of its metadata.
NAMES_MAX = 1_000
_DIGEST_SIGNS = 16


@dataclass(frozen=True)
class Bound:
    """What is remembered of a table.

    Attributes:
        place: the registry's at the last time that this was written (`Registry.place`); None where it never was.
        digests: of the schemas by their names.
    """

    place: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None, raw: str) -> Self:
        """What a property says; nothing where there is none.

        Args:
            text: the property.
            raw: the raw table that has it.

        Raises:
            LakeUnavailable: somebody has written it anew: which schemas were met is no longer known, and never guessed.
        """
        if text is None:
            return cls()
        try:
            told: Any = json.loads(text)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or told.keys() != {"place", "digests"} or not _is_told(**told):
            what = f"The table property `{PROPERTY}` of {raw} is not as it was written: somebody has changed it."
            do = (
                "Nothing was written. Set it to what it was, which an earlier metadata file of the table has. Where "
                "`registry:` is the one that the messages were written with, take it off (`UNSET TBLPROPERTIES`): the "
                "next batches write it anew."
            )
            raise LakeUnavailable(what, do)
        return cls(**told)

    @property
    def text(self) -> str:
        """The property; equal ones are one text."""
        return json.dumps({"place": self.place, "digests": self.digests}, sort_keys=True)

    def with_met(self, place: str, met: Mapping[str, str]) -> Bound:
        """With what has been met in a registry since; what is known stays."""
        news = [name for name in met if name not in self.digests][: NAMES_MAX - len(self.digests)]
        return Bound(place, {**self.digests, **{name: met[name] for name in news}})


def _is_told(place: object, digests: object) -> bool:
    """Whether these are a registry's place, and texts by their names."""
    texts = (*digests, *digests.values()) if isinstance(digests, dict) else (None,)
    return isinstance(place, str | None) and all(isinstance(text, str) for text in texts)


class BoundRegistry:
    """A registry as one table asks it; see `Registry` for what it promises.

    Each name costs it no more questions than the registry itself, but where the registry is another one than the last
    time: then it is asked for all that is remembered, before anything is read by it.
    """

    def __init__(self, registry: Registry, known: Callable[[], Bound], table: str) -> None:
        """Take the registry, what tells what is remembered (asked once, with the first schema), and whose that is."""
        self._registry, self._known, self._table = registry, known, table
        self._bound: Bound | None = None
        self.id_bytes, self.place = registry.id_bytes, registry.place
        #: The digests of the schemas that it has given.
        self.met: dict[str, str] = {}

    @property
    def found(self) -> Collection[SchemaName]:
        """The names of the schemas that the registry has found so far."""
        return self._registry.found

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema; see `Registry.schema`.

        Raises:
            SchemaReplaced: it is another one than messages of that name were decoded by.
        """
        found = self._registry.schema(wanted)
        if found is None:
            return None
        if self._bound is None:
            bound = self._known()
            if bound.place not in (None, self.place):
                self._check_all(bound)
            self._bound = bound
        self._check(SchemaName.of_id(wanted) if isinstance(wanted, int) else wanted, found, self._bound)
        return found

    def check_all(self) -> None:
        """Ask for all that is remembered.

        Raises:
            SchemaReplaced: as for `schema`.
        """
        self._check_all(self._known())

    def _check_all(self, bound: Bound) -> None:
        for name in filter(None, map(SchemaName.parse, bound.digests)):
            found = self._registry.schema(name)
            # What it does not have is no other schema: its messages wait, and nothing is read wrongly.
            if found is not None:
                self._check(name, found, bound)

    def _check(self, name: SchemaName, found: RegisteredSchema, bound: Bound) -> None:
        key = f"{name.kind}:{name.text}"
        # A fingerprint is made of its schema, and names all that differ in words alone.
        if key in self.met or name.kind == "fingerprint":
            return
        # By what nobody can read nothing was decoded: once it is mended, it is no other schema.
        if not found.text:
            return
        digest = digest_of(found)
        if bound.digests.get(key, digest) != digest:
            what = (
                f"In the registry {self.place} {name.shown} is another schema than the one by which messages of "
                f"{self._table} were decoded from {bound.place}. The mirror was not changed; raw keeps the messages."
            )
            do = (
                "Point `registry:` to the registry that those were written with, or to a copy that kept its ids and "
                "schemas; mirror what is written with another one under another name. If it was the former that was "
                f"wrong, take the table property `{PROPERTY}` off {self._table}__raw, and rebuild what was read by it: "
                f"`cdcm replay {self._table} --publish --restart`."
            )
            raise SchemaReplaced(what, do)
        self.met[key] = digest


def digest_of(schema: RegisteredSchema) -> str:
    """A short hash of a schema with all that it refers to.

    Registries lay out the text of a schema in their own ways: blanks, the order of its properties, and where Avro lets
    a namespace be left out. None of these makes another schema.
    """
    try:
        parsed: Any = json.loads(schema.text)
        text = json.dumps(full_names(parsed) if schema.kind == "AVRO" else parsed, sort_keys=True)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        text = schema.text  # Protobuf's language, or no schema at all
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_SIGNS]
