"""A registry whose schemas are held against those that a table's messages were decoded by before (decision 35).

A name like `id:2` names a schema in one registry; in another one, or where its schema was replaced in place, the same
bytes would be read as other values without a word (changelog-semantics §4). So what each name stood for is remembered
as a digest, and a name that stands for something else stops the table. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.errors import LakeUnavailable, SchemaReplaced
from cdc_materializer.registry.references import full_names
from cdc_materializer.registry.schemas import RegisteredSchema, Registry, Wanted

#: What the properties of the raw table, whose bytes the names are in, begin with: one a name, since what two processes
#: write at once is put together a property by every catalog, and within one by none (a REST catalog compares nothing).
PREFIX = "cdcm.schemas."
#: The registry's place at the last time that one of them was written.
PLACE = f"{PREFIX}place"
#: Where it all stood in one property, which is read on and never written.
FORMER = "cdcm.schemas"
#: So many names are remembered, the first that were met: a table has dozens, and each is some 50 bytes in every version
#: of its metadata.
NAMES_MAX = 1_000
#: How long a name may be for a property to be called by it: the Hive metastore ends at 256 characters.
_NAME_LENGTH_MAX = 128
_DIGEST_SIGNS = 16
_DIGEST = re.compile(r"[0-9a-f]{16}")


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
    def of(cls, properties: Mapping[str, str], raw: str) -> Self:
        """What a table's properties say; nothing where they have none of these.

        Args:
            properties: all of the table's.
            raw: the raw table that has them.

        Raises:
            LakeUnavailable: somebody has written one anew: which schema was met is no longer known, and never guessed.
        """
        former = _former(properties.get(FORMER), raw)
        digests = dict(former["digests"])
        for key, text in sorted(properties.items()):
            if not key.startswith(PREFIX) or key == PLACE:
                continue
            digest, _, name = text.partition(" ")
            if not _DIGEST.fullmatch(digest):
                raise _changed(key, raw)
            digests[name or key.removeprefix(PREFIX)] = digest
        return cls(properties.get(PLACE) or former["place"], digests)

    def with_met(self, place: str, met: Mapping[str, str]) -> Bound:
        """With what has been met in a registry since; what is known stays."""
        news = [name for name in met if name not in self.digests][: max(0, NAMES_MAX - len(self.digests))]
        return Bound(place, {**self.digests, **{name: met[name] for name in news}})

    def beyond(self, known: Bound) -> dict[str, str]:
        """The properties that say what was not known yet; none where nothing is new."""
        news = {name: digest for name, digest in self.digests.items() if name not in known.digests}
        places = {PLACE: self.place} if self.place is not None and self.place != known.place else {}
        return places | dict(_property(name, digest) for name, digest in news.items())


def _property(name: str, digest: str) -> tuple[str, str]:
    if len(name) <= _NAME_LENGTH_MAX:
        return f"{PREFIX}{name}", digest
    return f"{PREFIX}long:{hashlib.sha256(name.encode()).hexdigest()}", f"{digest} {name}"


def _former(text: str | None, raw: str) -> dict[str, Any]:
    """What the one property says that there was; nothing where there is none."""
    if text is None:
        return {"place": None, "digests": {}}
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.keys() != {"place", "digests"} or not _is_told(**told):
        raise _changed(FORMER, raw)
    return told


def _is_told(place: object, digests: object) -> bool:
    """Whether these are a registry's place, and texts by their names."""
    texts = (*digests, *digests.values()) if isinstance(digests, dict) else (None,)
    return isinstance(place, str | None) and all(isinstance(text, str) for text in texts)


def _changed(key: str, raw: str) -> LakeUnavailable:
    what = f"The table property `{key}` of {raw} is not as it was written: somebody has changed it."
    do = (
        "Nothing was written. Set it to what it was, which an earlier metadata file of the table has. Where "
        "`registry:` is the one that the messages were written with, take it off (`UNSET TBLPROPERTIES`): the "
        "next batches write it anew."
    )
    return LakeUnavailable(what, do)


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
        #: The names of those by which messages are told that are not held: of these the digests are to be remembered.
        self.used: set[str] = set()

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
            raise self._replaced(name, bound)
        self.met[key] = digest
        # What was used before needs no telling.
        self.used |= {key} & bound.digests.keys()

    @property
    def kept(self) -> Mapping[str, str]:
        """The digests of the schemas that were used."""
        return {name: digest for name, digest in self.met.items() if name in self.used}

    def hold_against(self, bound: Bound) -> None:
        """Compare what the registry has given with what is remembered by now, which other processes write, too.

        Raises:
            SchemaReplaced: one of them has decoded messages by another schema of a name since this registry was asked.
        """
        for key, digest in self.kept.items():
            name = SchemaName.parse(key)
            if name is not None and bound.digests.get(key, digest) != digest:
                raise self._replaced(name, bound)

    def _replaced(self, name: SchemaName, bound: Bound) -> SchemaReplaced:
        what = (
            f"In the registry {self.place} {name.shown} is another schema than the one by which messages of "
            f"{self._table} were decoded from {bound.place}. The mirror was not changed; raw keeps the messages."
        )
        do = (
            "Point `registry:` to the registry that those were written with, or to a copy that kept its ids and "
            "schemas; mirror what is written with another one under another name. If it was the former that was "
            f"wrong, take the table properties that begin with `{FORMER}` off {self._table}__raw, and rebuild what was "
            f"read by it: `cdcm replay {self._table} --publish --restart`."
        )
        return SchemaReplaced(what, do)


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
