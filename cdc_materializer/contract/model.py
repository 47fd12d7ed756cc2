"""What a contract says, as frozen values: columns, rules, and a fingerprint of both."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Context, Decimal
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from cdc_materializer.decode.units import DeclaredType, TimeUnit, WrittenAs
from cdc_materializer.masks import Mask, Masks

#: Hexadecimal characters of a fingerprint: 64 bits tell any two versions of one contract apart.
FINGERPRINT_LENGTH = 16

_EVERY_DIGIT = Context(prec=400)


#: In place of an action: the rule is tried, and nothing is done where it fails.
SHADOW = "shadow"


#: By Spark's type, what a text of the source may be read as; of other types a contract makes nothing else.
_KINDS = {
    **dict.fromkeys(("int", "bigint", "decimal"), "number"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "moment"),
}


class Action(StrEnum):
    """What happens when a rule fails (design section 5)."""

    QUARANTINE = "quarantine"
    """The change is held and the row keeps its last good version; the default of row rules."""

    BLOCK = "block"
    """Nothing of the batch is published; the default of table rules."""

    WARN = "warn"
    """The row is published and the violation is reported."""


class Scope(StrEnum):
    """What a rule speaks about."""

    ROW = "row"
    TABLE = "table"


class ContactKind(StrEnum):
    """What somebody is that a contract names for its data."""

    OWNER = "owner"
    TEAM = "team"
    PERSON = "person"
    CHANNEL = "channel"


@dataclass(frozen=True)
class Contact:
    """Whom to tell: a name, what the contract says of it (a person's role, a channel's tool), and an address."""

    name: str
    kind: ContactKind
    role: str | None = None
    address: str | None = None

    @property
    def is_owner(self) -> bool:
        """Whether the contract calls it the owner of the data."""
        return "owner" in (self.role or "").casefold()


@dataclass(frozen=True)
class ContractColumn:
    """A column that the contract declares; ``type`` is a Spark DDL type, None when the file gives none.

    ``type`` is that of the source: a mask may make it another one. ``public`` says that its values may be shown in
    reports, where somebody asks for samples; it is no rule, and not part of the fingerprint. ``is_set`` says that it is
    a set of MySQL's, a text that some formats write as a list. ``time_unit`` says, of a time, how one is counted where
    a message has it as a number and no schema. ``is_numeric`` says that it holds numbers with scales of their own as
    texts, ``is_rounded`` that it is a floating number only because its physicalType is none that is known,
    ``is_unsigned`` that a source may send its values from 2^63 on as negative ones, ``is_flag`` that it may send some
    as booleans, ``written_as`` how JSON without a schema writes them. ``declared`` is what values are read as that a
    source sends in another type, ``line`` where the file declares the column.
    """

    name: str
    type: str | None = None
    required: bool = False
    primary_key: bool = False
    unique: bool = False
    description: str | None = None
    mask: Mask | None = None
    public: bool = False
    is_set: bool = False
    time_unit: TimeUnit | None = None
    is_numeric: bool = False
    is_rounded: bool = False
    is_unsigned: bool = False
    is_flag: bool = False
    written_as: WrittenAs | None = None
    declared: DeclaredType | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Rule:
    """One rule, stated as a Great Expectations expectation.

    ``name`` is unique within the contract and stays the same while the file's own name, id or column does.
    ``kwargs`` are the expectation's, with numbers as int or exact Decimal. ``line`` is where the file states the rule,
    ``description`` what the file says of it. A ``shadow`` rule is judged and reported, and its action is not taken.
    """

    name: str
    column: str | None
    expectation: str
    kwargs: Mapping[str, Any]
    action: Action = Action.QUARANTINE
    severity: str = "error"
    scope: Scope = Scope.ROW
    line: int | None = field(default=None, compare=False)
    description: str | None = field(default=None, compare=False)
    shadow: bool = False

    @property
    def told_action(self) -> str:
        """What quarantine and reports say of it: its action, or that it is only tried."""
        return SHADOW if self.shadow else str(self.action)

    @property
    def enforces(self) -> bool:
        """Whether what breaks it is not published."""
        return not self.shadow and self.action is not Action.WARN

    @property
    def blocks(self) -> bool:
        """Whether one row that breaks it blocks the batch."""
        return not self.shadow and self.action is Action.BLOCK

    def __post_init__(self) -> None:
        """Make ``kwargs`` read-only."""
        object.__setattr__(self, "kwargs", MappingProxyType(dict(self.kwargs)))


@dataclass(frozen=True)
class Limit:
    """How many messages of a batch may be held: a number of them, or a share in percent."""

    number: Decimal
    is_share: bool = False

    def is_exceeded(self, held: int, read: int) -> bool:
        """Whether so many held ones of so many that were read are too many."""
        return Decimal(held) * 100 > self.number * read if self.is_share else held > self.number

    def __str__(self) -> str:
        """Say it as a contract does."""
        return f"{self.number}%" if self.is_share else str(self.number)


@dataclass(frozen=True)
class Contract:
    """One table's contract, as one file states it.

    ``judge`` says whether rules see values before or after their masks, ``max_quarantined`` from where on a batch is
    blocked for what it would hold, ``freshness`` how far the table may be behind its source. ``mask_key`` is the secret
    of the hashes, which no file states (`with_key`); it is never shown. ``contacts`` are whom to tell. ``of_key`` are
    the rules that columns of the primary key state, see `of_table`.
    """

    path: Path
    name: str
    version: str
    columns: tuple[ContractColumn, ...]
    rules: tuple[Rule, ...]
    judge: Literal["before", "after"] = "before"
    max_quarantined: Limit | None = None
    freshness: timedelta | None = field(default=None, compare=False)
    mask_key: bytes | None = field(default=None, repr=False, compare=False)
    contacts: tuple[Contact, ...] = field(default=(), compare=False)
    of_key: tuple[Rule, ...] = field(default=(), compare=False)

    def of_table(self, key: Collection[str], columns: Collection[str] | None = None) -> Self:
        """The contract of a table that tells rows apart by some columns: what else its primary key has is required.

        Its own fingerprint stays the contract's: what it judges more the primary key says. Rows without a value of the
        table's key are held for that.

        Args:
            key: the table's own key.
            columns: those that the table has, where they are known; of one that it has not got yet nothing is required.
        """
        known = {name.casefold() for name in key}
        there = None if columns is None else {name.casefold() for name in columns}
        named = [(rule, (rule.column or "").casefold()) for rule in self.of_key if known]
        more = [rule for rule, name in named if name not in known and (there is None or name in there)]
        return replace(self, rules=(*self.rules, *more)) if more else self

    @property
    def row_rules(self) -> tuple[Rule, ...]:
        """The rules about single rows."""
        return tuple(rule for rule in self.rules if rule.scope is Scope.ROW)

    def place(self, rule: Rule) -> str:
        """Where the file states a rule, as errors have it."""
        return f"{self.path.name}:{rule.line}" if rule.line is not None else self.path.name

    @property
    def public(self) -> tuple[str, ...]:
        """The columns whose values a report may show: those that are called public and are not masked."""
        return tuple(column.name for column in self.columns if column.public and column.mask is None)

    def lacks_of_key(self, key: Collection[str]) -> list[str]:
        """The columns by which a table tells rows apart and that the primary key is without; none where none is stated.

        What is the primary key then may come twice.
        """
        stated = {column.name.casefold() for column in self.columns if column.primary_key}
        return [name for name in key if name.casefold() not in stated] if stated else []

    @property
    def table_rules(self) -> tuple[Rule, ...]:
        """The rules about the whole table."""
        return tuple(rule for rule in self.rules if rule.scope is Scope.TABLE)

    @property
    def hashes(self) -> bool:
        """Whether a column is hashed, which takes a key."""
        return any(column.mask is Mask.HASH for column in self.columns)

    @property
    def masks(self) -> Masks:
        """What the contract hides."""
        masked = [column for column in self.columns if column.mask is not None]
        if not masked:
            return Masks()
        judged = {column.name: column.type for column in masked if self.judge == "before" and self._reads(column.name)}
        return Masks(
            methods={column.name: column.mask for column in masked if column.mask is not None},
            judged=judged,
            declared=frozenset(column.name for column in self.columns),
            read_as={column.name: kind for column in masked if (kind := _read_as(column)) is not None},
            key=self.mask_key,
            places={column.name: f"{self.path.name}:{column.line}" for column in masked if column.line is not None},
        )

    def _reads(self, column: str) -> bool:
        """Whether a rule may read a column: it names it, or has its name anywhere in a condition."""
        name = column.casefold()
        return any(
            name == (rule.column or "").casefold() or name in str(dict(rule.kwargs)).casefold()
            for rule in self.row_rules
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over columns and rules, 16 hex characters.

        The order of columns, rules and set members does not count, and neither do descriptions, comments, or
        the version's text: two contracts that decode, mask and judge alike have one fingerprint.
        """
        content: dict[str, object] = {
            "columns": sorted((_column(c) for c in self.columns), key=str),
            "rules": sorted(
                (_rule(rule) for rule in self.rules if rule not in self.of_key),
                key=str,
            ),
        }
        if self.masks.judged or (self.masks.methods and self.judge == "after"):
            content["judge"] = self.judge
        if len(self.of_key) > 1:
            # It requires what the table's own key does not have of it (`of_table`).
            content["primary_key"] = "required"
        if self.max_quarantined is not None:
            content["max_quarantined"] = str(self.max_quarantined)
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_LENGTH]


def _read_as(column: ContractColumn) -> str | None:
    """What a contract makes of a masked column's values, where the mask shows something of them; None for nothing.

    Numbers of all types are one: equal ones have one text.
    """
    if column.mask not in {Mask.HASH, Mask.LAST4} or column.declared is None:
        return None
    kind = _KINDS.get(column.declared.ddl.partition("(")[0])
    return " ".join([kind, *([column.declared.unit] if column.declared.unit else [])]) if kind is not None else None


def _rule(rule: Rule) -> list[object]:
    stated = [rule.name, rule.column, rule.expectation, canonical(rule.kwargs), rule.action, rule.severity]
    return [*stated, SHADOW] if rule.shadow else stated


def _column(column: ContractColumn) -> list[object]:
    stated: list[object] = [column.name, column.type, column.required, column.primary_key, column.unique]
    if column.time_unit not in {None, TimeUnit.UNSETTLED}:
        stated.append({"time_unit": str(column.time_unit)})
    if column.written_as is not None:
        stated.append({"written_as": str(column.written_as)})
    # What values are read as, where the type alone does not say it.
    clock = column.declared is not None and column.declared.is_clock
    read_as = {"numeric": column.is_numeric, "set": column.is_set, "time": clock}
    read_as |= {"unsigned": column.is_unsigned, "flag": column.is_flag}
    stated += [{"read_as": name} for name, is_so in read_as.items() if is_so]
    return stated if column.mask is None else [*stated, str(column.mask)]


def canonical(value: object) -> object:
    """Give equal values one JSON form: 10 and 10.0 are the same bound, a set has no order."""
    if isinstance(value, Mapping):
        return {
            str(key): sorted((canonical(v) for v in item), key=str)
            if key == "value_set" and isinstance(item, list | tuple)
            else canonical(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | Decimal):
        return {"number": format(Decimal(value).normalize(_EVERY_DIGIT), "f")}
    return repr(value)
