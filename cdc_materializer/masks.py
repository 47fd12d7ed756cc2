"""What a contract hides of a row: which columns are masked and how, and which rules see them unmasked.

Pure; `changes.masking` has the Spark columns. Column names are compared without regard to case, as Spark compares them:
a mask on `Email` that missed the column `email` would publish what it is there to hide.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from cdc_materializer.errors import ContractInvalid
from cdc_materializer.names import nearest, shown
from cdc_materializer.schema.schema import Column, TableSchema, plan_schema
from cdc_materializer.schema.types import judged_as

#: What the name of a column's unmasked twin begins with, while rows are folded and judged; no source may use it.
PLAIN = "__cdc_plain_"
#: What stands in place of every value of a column that is redacted.
REDACTED = "***"
#: Characters of the key's fingerprint: enough to notice another key, and no help in finding this one.
_KEY_PRINT_LENGTH = 8


class Mask(StrEnum):
    """How a column is hidden."""

    NULL = "null"
    """Always NULL; the column keeps its type."""

    REDACT = "redact"
    """A fixed text in place of every value; NULL stays NULL, so that it shows whether there is a value."""

    HASH = "hash"
    """HMAC-SHA-256 of the value as text, in hexadecimal: equal values stay equal, in all tables with the same key."""

    LAST4 = "last4"
    """The last four characters behind four asterisks; none of a value that has fewer than eight."""

    DROP = "drop"
    """No column at all; one that the mirror already has is NULL from then on."""

    @property
    def hides_all(self) -> bool:
        """Whether nothing of a value is left, not even that there is one."""
        return self in {Mask.NULL, Mask.DROP}


def source_name(column: str) -> str:
    """The column of the source that a column of the fold is from."""
    return column.removeprefix(PLAIN)


def judged_types(folded: TableSchema) -> dict[str, str]:
    """The DDL types of the columns as rules see them, by name: unmasked, where a column has a twin that is."""
    own = {name: ddl for name, ddl in folded.types.items() if not name.startswith(PLAIN)}
    return own | {source_name(name): ddl for name, ddl in folded.types.items() if name.startswith(PLAIN)}


def told_of_lost(old: str, new: str) -> str:
    """What to do where a column was renamed away from its mask."""
    return f"Say in the contract how `{new}` is masked; if it is to be seen, take the mask off `{old}`."


@dataclass(frozen=True)
class Masks:
    """The masks of one table.

    Attributes:
        methods: how each masked column is hidden, by its name as the contract spells it.
        judged: the masked columns that rules read before the mask, with the type that the contract declares, if it
            declares one.
        declared: the names of all columns that the contract declares.
        read_as: what the contract says of the values of columns that are hashed or shown by their ends, where it says
            that these are no texts: a value's text is that of its type.
        key: the secret of the hashes; never shown.
        places: the file and line that declare each masked column, for errors.
    """

    methods: Mapping[str, Mask] = field(default_factory=dict)
    judged: Mapping[str, str | None] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    read_as: Mapping[str, str] = field(default_factory=dict)
    key: bytes | None = field(default=None, repr=False)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def of(self, column: str) -> Mask | None:
        """How a column is hidden; None where it is not."""
        if not self.methods:
            return None
        folded = column.casefold()
        return next((mask for name, mask in self.methods.items() if name.casefold() == folded), None)

    def shows(self, column: str) -> bool:
        """Whether anything is to be seen of a column's values, be it by rules alone."""
        folded = column.casefold()
        is_shown = self.of(column) in {None, Mask.HASH, Mask.LAST4}
        return is_shown or any(name.casefold() == folded for name in self.judged)

    def _file(self, column: str) -> str:
        known = {name.casefold(): place for name, place in self.places.items()}
        place = known.get(column.casefold())
        return f"Contract {place}" if place is not None else "The contract"

    def told(self) -> dict[str, str]:
        """What a marker says of them, by column: the method, of hashes a fingerprint of the key, and `read_as`."""
        text = {name.casefold(): str(mask) for name, mask in self.methods.items()}
        if self.key is not None:
            digest = hmac.new(self.key, b"cdcm mask key", hashlib.sha256).hexdigest()[:_KEY_PRINT_LENGTH]
            text |= {name: f"{mask}:{digest}" for name, mask in text.items() if mask == Mask.HASH}
        return text | {name.casefold(): f"{text[name.casefold()]}:{said}" for name, said in self.read_as.items()}

    def changed(
        self, told: Mapping[str, str], columns: Iterable[str], then: Mapping[str, str] = MappingProxyType({})
    ) -> list[str]:
        """The columns of a mirror whose rows were masked otherwise, by what its marker told.

        A mask on a column that the mirror has not got yet changes none of its rows; the end of a `drop` does, because
        rows from before would lack what messages have told.

        Args:
            told: what the marker of the rows says.
            columns: those of the mirror.
            then: the names that columns had when the rows were written, where they are others.
        """
        now = self.told()
        there = {name.casefold(): then.get(name, name).casefold() for name in columns}
        past = {name: mask for name, mask in told.items() if name not in {*there, *there.values()}}
        past |= {name: told[old] for name, old in there.items() if old in told}
        differing = {name for name in {*now, *past} if now.get(name) != past.get(name)}
        return sorted(name for name in differing if name in there or past.get(name) == Mask.DROP)

    def unhidden(self, told: Mapping[str, str], columns: Iterable[str], renames: Mapping[str, str]) -> list[str]:
        """The columns of an earlier state that are hidden by now and were not then, or not so.

        Args:
            told: what the marker of that state says.
            columns: those that it had.
            renames: the name that a column has by now by each that it had.
        """
        now = self.told()
        hidden = [(name, now.get(renames.get(name, name).casefold())) for name in columns]
        return sorted(name for name, mask in hidden if mask is not None and told.get(name.casefold()) != mask)

    def check_whole(self, whole: str, columns: Iterable[str]) -> None:
        """Refuse to hide a column beside one that shows the same as a part of it.

        Args:
            whole: the column that shows all.
            columns: those of the table.

        Raises:
            ContractInvalid: says what to do.
        """
        names = list(columns)
        hidden = next((name for name in names if name != whole and self.of(name) is not None), None)
        if whole in names and hidden is not None and self.of(whole) is None:
            what = f"{self._file(hidden)} hides `{hidden}`, and `{whole}`, which the mirror has too, shows it as it is."
            do = f"Declare `{whole}` with `drop: true` or a mask, and rebuild the mirror: "
            raise ContractInvalid(what, f"{do}`cdcm replay TABLE --publish`.")

    def stored(self, schema: TableSchema) -> TableSchema:
        """A mirror's columns as it stores them under these masks."""
        if not self.methods:
            return schema
        columns = tuple(
            column if (mask := self.of(column.name)) is None or mask.hides_all else replace(column, type="string")
            for column in schema.columns
        )
        return TableSchema(columns, schema.key)

    def written(self, schema: TableSchema) -> TableSchema:
        """A writer's columns as they are stored, less those that are dropped."""
        if not self.methods:
            return schema
        kept = tuple(column for column in schema.columns if self.of(column.name) is not Mask.DROP)
        return self.stored(TableSchema(kept, schema.key))

    def with_plain(self, target: TableSchema, writers: Sequence[TableSchema]) -> TableSchema:
        """The columns that are folded: the mirror's, and unmasked twins of those that rules read before the mask.

        Args:
            target: the mirror's columns.
            writers: the columns of those whose messages are folded, unmasked, in the order of their first messages.
        """
        if not self.judged:
            return target
        wanted = {name.casefold() for name in self.judged}
        plain = [
            TableSchema(tuple(column for column in writer.columns if column.name.casefold() in wanted))
            for writer in writers
        ]
        types = plan_schema(None, plain).target.types
        # Twice: what a boolean does not take, it takes once a later number has become its type.
        for column in (column for _ in range(2) for writer in plain for column in writer.columns):
            types[column.name] = judged_as(types[column.name], column.type)[0]
        # What the contract calls a text is one to its rules, whatever a batch's writers send.
        texts = {name.casefold() for name, ddl in self.judged.items() if ddl == "string"}
        types |= {name: "string" for name in types if name.casefold() in texts}
        met = {name.casefold() for name in types}
        # A batch without a writer that has the column can still judge rows of the past.
        spelled = {name.casefold(): name for name in target.types}
        types |= {
            spelled.get(name.casefold(), name): ddl or "string"
            for name, ddl in self.judged.items()
            if name.casefold() not in met
        }
        former = {column.name: column.former for column in target.columns}
        twins = tuple(Column(PLAIN + name, ddl, former=(name, *former.get(name, ()))) for name, ddl in types.items())
        return TableSchema((*target.columns, *twins), target.key)

    def lost(self, renames: Mapping[str, str]) -> list[tuple[str, str]]:
        """The masked names that columns had, each with the name that it has and that nothing masks."""
        if not self.methods:
            return []
        return [(old, new) for old, new in sorted(renames.items()) if self.of(old) is not None and self.of(new) is None]

    def check_renamed(self, renames: Mapping[str, str]) -> None:
        """Refuse masks on names that columns had, where nothing hides those columns under the names that they have.

        Args:
            renames: the name that a column has by each that it had (`Evolution.renames`).

        Raises:
            ContractInvalid: the values would be shown under the new name.
        """
        for old, new in self.lost(renames):
            was, now = shown(old), shown(new)
            what = f"{self._file(old)} masks `{was}`, which is renamed to `{now}`, and `{now}` has no mask."
            raise ContractInvalid(what, told_of_lost(was, now))

    def check(self, topic: str, columns: Iterable[str], key: Sequence[str]) -> None:
        """Refuse masks that would not do what they say.

        Args:
            topic: where the messages come from.
            columns: the columns that they have.
            key: those that identify a row.

        Raises:
            ContractInvalid: a column of the key is masked, or a mask names no column and one is named nearly so.
        """
        if not self.methods:
            return
        names = list(columns)
        for name in key:
            if self.of(name) is not None:
                what = f"{self._file(name)} masks `{name}`, which is of the key of {topic}: rows are told apart by it."
                raise ContractInvalid(what, "Remove the mask; a key is in every table and report as it is.")
        there = {name.casefold() for name in names}
        others = [name for name in names if name.casefold() not in {known.casefold() for known in self.declared}]
        for name in self.methods if names else ():
            near = nearest(name, others) if name.casefold() not in there else None
            if near is not None:
                what = f"{self._file(name)} masks `{name}`, which {topic} has not, and says nothing of its `{near}`."
                raise ContractInvalid(what, f"If `{near}` is meant, mend the name; else declare `{near}` too.")
