"""An ODCS table -> columns and drafts of rules. Whatever this version cannot follow is a problem, never skipped.

Not rules, by ODCS's own definition, and therefore left alone: `quality` of type `text`, the `format`, `timezone` and
`defaultTimezone` options (they describe how a value is written, and a format picks the width of a number),
descriptions, ownership, service levels. `classification` says which columns reports may show samples of, and no more.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from open_data_contract_standard.model import SchemaObject, SchemaProperty

from cdc_materializer.contract import table_rules
from cdc_materializer.contract.document import Findings, Place, path_text
from cdc_materializer.contract.drafts import (
    NOT_AVAILABLE,
    OF_KEY,
    REMOVE,
    Draft,
    read_flag,
    refuse_misplaced,
    refuse_unclear,
)
from cdc_materializer.contract.logical_types import contradiction
from cdc_materializer.contract.masking import read_mask
from cdc_materializer.contract.model import Action, ContractColumn
from cdc_materializer.contract.quality import is_rule, read_quality, read_relationships
from cdc_materializer.contract.time_units import declared_type, read_time_unit
from cdc_materializer.contract.types import (
    LOGICAL_TYPES,
    column_type,
    is_flag,
    is_numeric,
    is_rounded,
    is_set,
    is_unsigned,
)
from cdc_materializer.contract.written import read_written_as
from cdc_materializer.names import nearest

_DESCRIPTIVE_OPTIONS = frozenset({"format", "timezone", "defaultTimezone"})
_PUBLIC = "public"
#: The custom properties of a table that mean something.
_OF_TABLE = ("judge", "max_quarantined", "shadow")
_VARIANT = re.compile(r"\bvariant\b", re.IGNORECASE)
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = ("minLength", "maxLength")


def read_columns(table: SchemaObject, place: Place, findings: Findings) -> tuple[ContractColumn, ...]:
    """Return the declared columns in file order, noting unnamed, repeated and untypable ones."""
    columns: list[ContractColumn] = []
    seen: set[str] = set()
    for index, declared in enumerate(table.properties or ()):
        here = (*place, "properties", index)
        name = declared.physicalName or declared.name
        if not name:
            findings.add(here, "the column has no name.", "Give it one.")
            continue
        if name.casefold() in seen:
            findings.add(here, f"column {name} is declared twice (upper and lower case are one).", "Keep one.")
        if name.casefold().startswith("__cdc"):
            findings.add(here, f"column {name}: names that begin with __cdc are reserved.", "Rename the column.")
        seen.add(name.casefold())
        ddl = column_type(declared)
        if _VARIANT.search(declared.physicalType or ""):
            what = f"column {name}: variant is not written; several readers can read nothing of a table that has one."
            findings.add((*here, "physicalType"), what, "Use string, the text of the JSON as it came.")
        elif ddl is None and (declared.physicalType or declared.logicalType):
            _refuse_type(declared, name, here, findings)
        if (twice := contradiction(declared)) is not None:
            findings.add((*here, "logicalType"), f"column {name}: {twice}", "Mend one; the physicalType counts.")
        columns.append(
            ContractColumn(
                name, ddl, bool(declared.required), bool(declared.primaryKey), bool(declared.unique),
                declared.description, read_mask(declared, here, findings), _is_public(declared),
                is_set(declared.physicalType), read_time_unit(declared, here, findings),
                is_numeric(declared.physicalType), is_rounded(declared), is_unsigned(declared),
                is_flag(declared.physicalType), read_written_as(declared, here, findings),
                declared_type(declared, findings.line(here)), findings.line(here),
            )
        )  # fmt: skip
    return tuple(columns)


def _refuse_type(declared: SchemaProperty, name: str, here: Place, findings: Findings) -> None:
    """Note a type that this version does not know."""
    if declared.physicalType or declared.logicalType in LOGICAL_TYPES:
        what = f"column {name}: neither physicalType {declared.physicalType!r} nor logicalType is a known type."
        do = "Use a type of docs/reference/contract-types.md, or set logicalType beside it."
        findings.add((*here, "physicalType"), what, do)
        return
    near = nearest(str(declared.logicalType), LOGICAL_TYPES)
    do = f"Did you mean {near}?" if near else f"The types are {', '.join(LOGICAL_TYPES)}."
    what = f"column {name}: unknown logicalType {str(declared.logicalType)[:40]!r}."
    findings.add((*here, "logicalType"), what, do)


def _is_public(declared: SchemaProperty) -> bool:
    """Whether a column is classified as public, and nothing in it otherwise, however deep."""
    return _classification(declared) == _PUBLIC and all(map(_may_be_public, _parts(declared)))


def _may_be_public(part: SchemaProperty) -> bool:
    """Whether nothing says otherwise of a part of a public column; one that has fields has to say it of itself."""
    stated = _classification(part)
    is_silent = not stated and not part.properties
    return (stated == _PUBLIC or is_silent) and all(map(_may_be_public, _parts(part)))


def _classification(declared: SchemaProperty) -> str:
    return (declared.classification or "").strip().casefold()


def _parts(declared: SchemaProperty) -> list[SchemaProperty]:
    """The fields of an object, the items of an array, and the keys and values of a map."""
    of_map = [declared.map.key, declared.map.value] if declared.map is not None else []
    return [part for part in (*(declared.properties or ()), declared.items, *of_map) if part is not None]


def read_rules(table: SchemaObject, place: Place, findings: Findings) -> Iterator[Draft]:
    """Yield every rule that a table's schema object states, noting those this version cannot follow.

    Where the table says `shadow`, all of them are only tried.
    """
    shadow = any(
        read_flag(entry, (*place, "customProperties", index), findings)
        for index, entry in enumerate(table.customProperties or ())
        if entry.property == "shadow"
    )
    for draft in _stated_rules(table, place, findings):
        yield replace(draft, shadow=True) if shadow else draft


def _stated_rules(table: SchemaObject, place: Place, findings: Findings) -> Iterator[Draft]:
    refuse_misplaced(table.customProperties, place, findings, known=(*_OF_TABLE, "mask", "drop"))
    refuse_unclear(table.customProperties, place, findings, _OF_TABLE)
    for index, declared in enumerate(table.properties or ()):
        here = (*place, "properties", index)
        name = declared.physicalName or declared.name
        if not name:
            continue
        refuse_misplaced(declared.customProperties, here, findings, known=("mask", "drop", "time_unit", "written_as"))
        if declared.unique:
            yield replace(table_rules.unique(name, (*here, "unique")), action=Action.BLOCK)
        _refuse_nested(declared, here, findings)
        yield from _column_rules(declared, name, here, findings)
        yield from read_quality(declared.quality, name, here, findings)
        yield from read_relationships(declared.relationships, name, here, findings)
    yield from read_quality(table.quality, None, place, findings)
    yield from read_relationships(table.relationships, None, place, findings)


def _column_rules(declared: SchemaProperty, name: str, here: Place, findings: Findings) -> Iterator[Draft]:
    options: Mapping[str, Any] = declared.logicalTypeOptions or {}
    at = (*here, "logicalTypeOptions")
    if declared.required:
        yield Draft((*here, "required"), "expect_column_values_to_not_be_null", {}, name, kind="required")
    elif declared.primaryKey:
        yield Draft((*here, "primaryKey"), "expect_column_values_to_not_be_null", {}, name, kind=OF_KEY)
    if declared.enum == []:
        findings.add((*here, "enum"), f"enum lists no value, so column {name} could have none.", "Add values.")
    if declared.enum:
        values = [entry.value for entry in declared.enum]
        yield Draft((*here, "enum"), "expect_column_values_to_be_in_set", {"value_set": values}, name, kind="enum")
    if any(key in options for key in _BOUNDS):
        yield Draft(at, "expect_column_values_to_be_between", _bounds(options, at, findings), name)
    if any(key in options for key in _LENGTHS):
        lengths = {
            kwarg: options[key]
            for kwarg, key in zip(("min_value", "max_value"), _LENGTHS, strict=True)
            if key in options
        }
        yield Draft(at, "expect_column_value_lengths_to_be_between", lengths, name)
    if "pattern" in options:
        yield Draft((*at, "pattern"), "expect_column_values_to_match_regex", {"regex": options["pattern"]}, name)
    known = {*_BOUNDS, *_LENGTHS, *_DESCRIPTIVE_OPTIONS, "pattern"}
    for key in options.keys() - known:
        near = nearest(key, sorted(known - options.keys()))
        do = f"Did you mean {near}? {REMOVE}" if near else REMOVE
        findings.add((*at, key), f"the option {key} of column {name} {NOT_AVAILABLE}.", do)


def _bounds(options: Mapping[str, Any], at: Place, findings: Findings) -> dict[str, Any]:
    """Return minimum and maximum; an exclusive bound is a value of its own (ODCS 3) or a flag (JSON Schema 4)."""
    kwargs: dict[str, Any] = {}
    for kwarg, strict, plain, exclusive in (
        ("min_value", "strict_min", "minimum", "exclusiveMinimum"),
        ("max_value", "strict_max", "maximum", "exclusiveMaximum"),
    ):
        bound, other = options.get(plain), options.get(exclusive)
        if isinstance(other, bool) or other is None:
            if other and bound is None:
                findings.add(
                    (*at, exclusive), f"{exclusive} is a flag without {plain}.", f"Set {exclusive} to a value."
                )
            kwargs |= {kwarg: bound} if bound is not None else {}
            kwargs |= {strict: True} if other else {}
        elif bound is not None:
            findings.add((*at, exclusive), f"{plain} and {exclusive} are both given.", "Keep the one that is meant.")
        else:
            kwargs |= {kwarg: other, strict: True}
    return kwargs


def _refuse_nested(declared: SchemaProperty, here: Place, findings: Findings) -> None:
    """Note rules on the fields of an object or the items of an array: only whole columns are judged."""
    inner = [((*here, "properties", i), field) for i, field in enumerate(declared.properties or ())]
    inner += [((*here, "items"), declared.items)] if declared.items else []
    of_map = {"key": declared.map.key, "value": declared.map.value} if declared.map is not None else {}
    inner += [((*here, "map", name), part) for name, part in of_map.items() if part is not None]
    for place, field in inner:
        stated = [key for key in ("required", "unique", "quality", "enum") if getattr(field, key)]
        stated += ["relationships"] if any(map(is_rule, field.relationships or ())) else []
        options: Mapping[str, Any] = field.logicalTypeOptions or {}
        if stated or options.keys() - _DESCRIPTIVE_OPTIONS:
            findings.add(place, f"a rule about a part of a column ({path_text(place)}) {NOT_AVAILABLE}.", REMOVE)
        refuse_misplaced(field.customProperties, place, findings)
        _refuse_nested(field, place, findings)
