"""The contract that `cdcm init` drafts for a table: its columns as a run would make them, rules to switch on."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from cdc_materializer.contract.types import Family, family, physical_type
from cdc_materializer.decode.columns import is_unsigned
from cdc_materializer.decode.wire import WireType
from cdc_materializer.init.text import comment, comment_with, commented, scalar
from cdc_materializer.names import TableName
from cdc_materializer.observed import NOTHING_SEEN, Observed
from cdc_materializer.recognise import Recognised
from cdc_materializer.report.wording import quantity
from cdc_materializer.schema.schema import Column

_HEAD = """\
#
# What happens to a row that breaks a rule is the rule's own business (customProperties: action):
#   quarantine  the change is held, readers keep the row's last good version (the default)
#   block       nothing of the batch is published, the run ends with exit code 5
#   warn        the row is published, the violation is in the report"""

_MASKS = (
    "#",
    "# A mask keeps personal data out of the mirror and all that is made from it; raw keeps the bytes as they came.",
    "#   hash     a text that is the same for the same value in all tables; needs `masks: key` in pipeline.yaml",
    "#   last4    the last four characters",
    "#   redact   a fixed text",
    "#   null     nothing",
    "# `drop: true` in place of a mask leaves the column out.",
)

_LOGICAL = {
    Family.TEXT: "string",
    Family.BOOLEAN: "boolean",
    Family.DATE: "date",
    Family.TIMESTAMP: "timestamp",
    Family.TIMESTAMP_NTZ: "timestamp",
}
_NESTED = {"array": "array", "map": "object", "struct": "object"}
#: A type that YAML takes for text as it stands.
_PLAIN_TYPE = re.compile(r"[a-z_]+[a-z0-9_<>(),]*")
_INTEGERS = frozenset({"int", "bigint"})
#: What is said of integers of eight bytes without a sign: their type in the mirror alone would say that keys have one.
_UNSIGNED = ("logicalType: integer", "physicalType: bigint unsigned")
_INDENT = 8
#: At most so many different values look like a list, and only where each was seen as often.
_LIST_MAX = 12

# Words in a column's name. What they find is only ever a comment, so that a wrong guess costs a glance.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PERSONAL = frozenset(
    {"mail", "email", "phone", "mobile", "fax", "ssn", "passport", "iban", "card", "birth", "birthday", "birthdate"}
    | {"dob", "surname", "firstname", "lastname", "fullname", "address", "street", "zip", "postcode", "salary"}
    | {"password", "pin", "ip", "latitude", "longitude"}
)
_PERSONAL_PAIRS = frozenset({("first", "name"), ("last", "name"), ("full", "name"), ("e", "mail"), ("tax", "id")})
_NOT_BELOW_ZERO = frozenset(
    {"amount", "price", "qty", "quantity", "total", "count", "age", "size", "weight", "cost", "fee"}
)


def contract_text(
    found: Recognised,
    mirror: TableName,
    observed: Mapping[str, Observed] = NOTHING_SEEN,
    origin: str | None = None,
    option: str = "",
) -> str:
    """Return a contract, as ODCS 3 in YAML, for the table that was recognised.

    Args:
        found: the table.
        mirror: its name.
        observed: what rows showed of its columns.
        origin: the messages that were looked at, in words; those of the topic if left out.
        option: what comes behind a command, where the pipeline's file is not the one that is looked for.
    """
    origin = origin or f"messages of the topic {found.topic}"
    about = (
        f"The contract of the mirror {mirror}, drafted by `cdcm init` from {origin}. "
        "Columns and types are those that the mirror gets; rules to switch on stand as comments below their columns."
    )
    if observed:
        about += (
            " So does what was seen in the rows that were looked at: counts, lengths of texts, and for numbers a range "
            "that is rounded to one digit; of columns whose name looks like personal data there are counts alone."
        )
    lines = [
        *comment(about),
        comment_with(f"cdcm contract lint{option}", "Check it with"),
        *_HEAD.splitlines(),
        *([*_MASKS] if any(is_personal(column.name) for column in found.schema.columns) else []),
        "apiVersion: v3.1.0",
        "kind: DataContract",
        f"id: {scalar('-'.join((*mirror.namespace, mirror.name)))}",
        f"name: {scalar(str(mirror))}",
        "version: 0.1.0",
        "status: draft",
        "",
        "schema:",
        f"  - name: {scalar(mirror.name)}",
        "    physicalType: table",
    ]
    if found.newest is not None and found.newest.doc:
        lines.append(f"    description: {scalar(found.newest.doc)}")
    lines.append("    properties:")
    for column in found.schema.columns:
        lines += _property(found, column, observed.get(column.name))
    return "\n".join(lines) + "\n"


def _property(found: Recognised, column: Column, seen: Observed | None) -> Iterator[str]:
    pad = " " * _INDENT
    wire = found.newest.get(column.name) if found.newest is not None else None
    yield f"{' ' * (_INDENT - 2)}- name: {scalar(column.name)}"
    if column.name in found.schema.key:
        yield f"{pad}primaryKey: true"
        if len(found.schema.key) > 1:
            yield f"{pad}primaryKeyPosition: {found.schema.key.index(column.name) + 1}"
    is_unsigned_long = wire is not None and is_unsigned(wire)
    yield from (pad + line for line in (_UNSIGNED if is_unsigned_long else _type(column.type)))
    if column.name in found.required and column.name not in found.schema.key:
        yield f"{pad}required: true # so in every schema that was seen"
    doc = (wire.doc if wire is not None else None) or column.doc
    if doc:
        yield f"{pad}description: {scalar(doc)}"
    for misfit in found.misfits:
        if misfit.column == column.name:
            yield from comment(
                f"Its type became {misfit.writer_type} later; values that do not fit {misfit.table_type} are held.",
                _INDENT,
            )
    rule = list(_rule(column, wire))
    yield from rule
    if seen is not None and column.name not in found.schema.key:
        yield from _observed(found, column, seen, has_options=any("logicalTypeOptions" in line for line in rule))
    if is_personal(column.name) and column.name not in found.schema.key:
        yield from _mask()


def _type(ddl: str) -> Iterator[str]:
    kind = family(ddl)
    if kind is Family.NUMBER:
        yield f"logicalType: {'integer' if ddl in _INTEGERS else 'number'}"
    elif kind in _LOGICAL:
        yield f"logicalType: {_LOGICAL[kind]}"
    if _PLAIN_TYPE.fullmatch(ddl) and physical_type(ddl) == ddl:
        if kind is Family.NESTED:
            yield f"logicalType: {_NESTED[ddl.partition('<')[0]]}"
        yield f"physicalType: {ddl}"
    else:
        # Contracts spell the fields of structs in lower case; a column without a type is judged as the mirror has it.
        yield from comment(f"type in the mirror: {ddl}")


def _rule(column: Column, wire: WireType | None) -> Iterator[str]:
    """A rule that fits the column, as a comment."""
    words = _words(column.name)
    allowed = wire.parameters.get("allowed", "") if wire is not None else ""
    if allowed and column.type == "string":
        values = ", ".join(scalar(value) for value in allowed.split(","))
        yield from comment("The source allows only these values; to hold back a row with another:", _INDENT)
        rule = ["- name: " + scalar(f"{column.name}-known"), "  type: library", "  metric: invalidValues"]
        rule += ["  mustBe: 0", "  arguments:", f"    validValues: [{values}]"]
        yield from commented(["quality:", *["  " + line for line in rule]], _INDENT)
    elif family(column.type) is Family.NUMBER and _NOT_BELOW_ZERO & set(words):
        yield from comment("To hold back a row with a value below zero:", _INDENT)
        yield from commented(["logicalTypeOptions:", "  minimum: 0"], _INDENT)
    elif column.type == "string" and ("mail" in words or "email" in words):
        yield from comment("To hold back a row with what is no address:", _INDENT)
        yield from commented(["logicalTypeOptions:", r'  pattern: "^[^@\\s]+@[^@\\s]+$"'], _INDENT)
    elif column.type == "string" and wire is not None and wire.name.endswith(".Uuid"):
        yield from comment("To hold back a row with what is no UUID:", _INDENT)
        yield from commented(
            ["logicalTypeOptions:", '  pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"'], _INDENT
        )


def _observed(found: Recognised, column: Column, seen: Observed, *, has_options: bool) -> Iterator[str]:
    """What rows showed of the column, and the rules that would hold of them, as comments."""
    told = [f"NULL in {seen.nulls / seen.seen:.1%}" if seen.nulls else "never NULL"]
    if seen.lengths is not None:
        told.append(f"{seen.lengths[0]} to {seen.lengths[1]} characters")
    if seen.numbers is not None:
        told.append(f"between {seen.numbers[0]:f} and {seen.numbers[1]:f}")
    # So few values in so many rows look like a list that somebody keeps.
    if seen.is_enough and 0 < seen.different <= _LIST_MAX and seen.keys >= _LIST_MAX * seen.different:
        told.append(quantity(seen.different, "different value"))
    yield from comment(f"Seen in {quantity(seen.seen, 'row')}: {', '.join(told)}.", _INDENT)
    rules: list[str] = []
    if seen.is_enough and not seen.nulls and column.name not in found.required:
        rules.append("required: true")
    if seen.is_unique and (column.type == "string" or column.type in _INTEGERS):
        rules.append("unique: true")
    if seen.is_enough and seen.numbers is not None and not has_options:
        rules += ["logicalTypeOptions:", f"  minimum: {seen.numbers[0]:f}", f"  maximum: {seen.numbers[1]:f}"]
    if rules:
        yield from comment("To hold what comes to that:", _INDENT)
        yield from commented(rules, _INDENT)


def is_personal(name: str) -> bool:
    """Whether a column's name looks as if personal data were in it."""
    words = _words(name)
    return bool(_PERSONAL & set(words)) or any(pair in _PERSONAL_PAIRS for pair in pairwise(words))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _mask() -> Iterator[str]:
    yield from comment("Its name looks like personal data; to mask it:", _INDENT)
    yield from commented(["customProperties:", "  - property: mask", "    value: hash"], _INDENT)
