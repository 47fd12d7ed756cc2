"""Contract files: loading them, and checking them before they go live.

A contract is an ODCS 3 document in YAML with the schema of one table, or of several of which one has the mirror's
name. `load_contract` refuses what it cannot follow, with file and line; `lint` tells everything that is wrong.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from open_data_contract_standard.model import OpenDataContractStandard, SchemaObject
from pydantic import ValidationError

from cdc_materializer.contract.checks import check_draft, named_columns
from cdc_materializer.contract.clock_times import clocks_of, in_microseconds
from cdc_materializer.contract.contradictions import check_further, check_rows_together, check_tables_together
from cdc_materializer.contract.document import Findings, Place, find_unknown_keys, read_document
from cdc_materializer.contract.drafts import OF_KEY, Draft, named, refuse_misplaced
from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.json_schemas import tell_formats
from cdc_materializer.contract.masking import (
    check_left_of_masks,
    check_masks,
    check_renamed,
    is_judgeable,
    read_judge,
    seen_types,
)
from cdc_materializer.contract.model import Contract, ContractColumn, Scope
from cdc_materializer.contract.ownership import read_contacts
from cdc_materializer.contract.queries import Sources, check_queries
from cdc_materializer.contract.ranges import check_ranges
from cdc_materializer.contract.relations import Elsewhere, check_references
from cdc_materializer.contract.rules import read_columns, read_rules
from cdc_materializer.contract.service_levels import read_freshness
from cdc_materializer.contract.table_checks import check_table_draft, columns_of
from cdc_materializer.contract.table_rules import read_limit
from cdc_materializer.contract.types import Family, family
from cdc_materializer.masks import Mask
from cdc_materializer.names import TableName, nearest
from cdc_materializer.report.models import LintFile, LintProblem, LintReport

_ODCS_MAJOR = "v3."
#: What pydantic finds, in words of YAML; what is not here is told in its own.
_SAYS: Mapping[str, str] = {
    "model_type": "it is not a mapping of keys",
    "dict_type": "it is not a mapping of keys",
    "list_type": "it is not a list",
    "string_type": "it is not a text",
    "bool_type": "it is not true or false",
    "bool_parsing": "it is not true or false",
    "int_type": "it is not a whole number",
    "int_parsing": "it is not a whole number",
}
_OTHER_TYPE = "Declare the type that the table has; `cdcm replay TABLE --publish` gives it this one where values allow."


def load_contract(path: Path, table: str | None = None, root: Path | None = None) -> Contract:
    """Read a contract file.

    Args:
        path: the ODCS file.
        table: name of the mirror (``shop.orders``), which picks the table where the file has several.
        root: the folder that the file's name starts from in errors.

    Raises:
        ContractInvalid: with file and line, for a file that cannot be followed in full; rules that this version does
            not know how to enforce are refused, not skipped.
    """
    findings = Findings(path, root)
    document = _document(findings)
    chosen = _choose_table(document, table, findings) if document else None
    contract = _read(document, *chosen, findings, None) if document and chosen else None
    findings.raise_first()
    if contract is None:  # no contract without a problem
        message = "a contract was neither read nor refused"
        raise AssertionError(message)
    return contract


def lint(
    path: Path,
    columns: Mapping[str, str] | None = None,
    table: str | None = None,
    root: Path | None = None,
    key: Collection[str] = (),
    renames: Mapping[str, str] = MappingProxyType({}),
    elsewhere: Elsewhere | None = None,
) -> LintReport:
    """Tell everything that is wrong with a contract file; never raises for what the file says.

    Args:
        path: the ODCS file.
        columns: the table's real columns, name to Spark DDL type, where it exists: declared columns that it lacks or
            that have a type of another kind are problems too.
        table: name of the mirror, which picks the table where the file has several; all of them are checked if left
            out.
        root: the folder that the file's name starts from where it is told.
        key: the columns by which the table tells rows apart, where it exists: a mask on one of them, and a primary key
            that lacks one, are problems too.
        renames: the name that a column has by each that it had, as the table's settings say: a mask that is left on a
            former one alone is a problem too.
        elsewhere: the other tables (`columns_elsewhere`); for a contract with a `table`. A rule that refers to a table
            or a column that is not there is a problem, and so is a column that is hashed without a key for that.
    """
    findings = Findings(path, root)
    document = _document(findings)
    own = TableName.parse(table) if table is not None else None
    sources = (
        Sources((*own.namespace, own.name), elsewhere.named) if own is not None and elsewhere is not None else Sources()
    )
    contracts = _read_all(document, table, findings, columns, sources) if document else []
    for one in contracts if len(contracts) == 1 else ():
        _check_key(one, key, findings)
        if elsewhere is not None and not elsewhere.has_key:
            _refuse_hashes(one, findings)
        check_renamed(one, renames, findings)
        if elsewhere is not None and own is not None:
            check_references(one, own, elsewhere, findings)
    contract = contracts[0] if contracts else None
    problems = sorted(dict.fromkeys(findings.problems), key=lambda problem: problem.line or 0)
    file = LintFile(
        path=findings.shown if root is not None else str(path),
        name=contract.name if contract else None,
        version=contract.version if contract else None,
        fingerprint=contract.fingerprint if contract and len(contracts) == 1 and not problems else None,
        columns=sum(len(one.columns) for one in contracts),
        rules=sum(len(one.rules) for one in contracts),
        problems=[LintProblem(line=p.line, where=p.where, message=p.message, do=p.do) for p in problems],
    )
    return LintReport(files=[file])


def _check_key(contract: Contract, key: Collection[str], findings: Findings) -> None:
    """Note where a contract and its table do not agree about what identifies a row."""
    wanted = {name.casefold() for name in key}
    for column in contract.columns:
        if column.mask is not None and column.name.casefold() in wanted and not column.primary_key:
            message = f"column {column.name} is of the table's key, which cannot be masked: rows are told apart by it."
            findings.add(
                ("schema",), message, "Remove the mask; a key is in every table and report as it is.", column.line
            )
    if contract.lacks_of_key(key):
        stated = [column for column in contract.columns if column.primary_key]
        names = ", ".join(column.name for column in stated)
        what = f"the primary key is {names}, and the table tells rows apart by {', '.join(sorted(key))} together."
        do = "Mark these with primaryKey, or name the key as `key:` in pipeline.yaml; a value may come twice else."
        findings.add(("schema",), what, do, stated[0].line)


def _refuse_hashes(contract: Contract, findings: Findings) -> None:
    """Note the columns that are hashed where no key is given for that: no run makes a hash without one."""
    for column in contract.columns:
        if column.mask is Mask.HASH:
            message = f"column {column.name} is hashed, and pipeline.yaml has no key for that."
            do = "Add `masks:` to it, with `key: ${NAME}` (an environment variable) or a `key_file`."
            findings.add(("schema",), message, do, column.line)


def _document(findings: Findings) -> OpenDataContractStandard | None:
    data = read_document(findings)
    return _validated(data, findings) if data is not None else None


def _read_all(
    document: OpenDataContractStandard,
    table: str | None,
    findings: Findings,
    actual: Mapping[str, str] | None,
    sources: Sources,
) -> list[Contract]:
    """Return the contract of the table that is meant, or where nothing says which one is, those of all tables."""
    tables = document.schema_ or []
    if table is None and len(tables) > 1:
        names = [(found.name or "").casefold() for found in tables]
        for at, name in enumerate(names):
            if name and name in names[:at]:
                message = f"the table {tables[at].name} is described twice."
                findings.add(("schema", at), message, "Keep one, or mend its name.")
        return [_read(document, found, ("schema", at), findings, None, sources) for at, found in enumerate(tables)]
    chosen = _choose_table(document, table, findings)
    return [_read(document, *chosen, findings, actual, sources)] if chosen else []


def _read(
    document: OpenDataContractStandard,
    found: SchemaObject,
    place: Place,
    findings: Findings,
    actual: Mapping[str, str] | None,
    sources: Sources | None = None,
) -> Contract:
    """Return the contract of one table as far as it can be read, with every problem noted.

    With ``sources`` also what no run is refused for: what Spark would tell, bounds that mean nothing, and rules of
    different kinds that cannot all be kept.
    """
    before = len(findings.problems)
    columns = read_columns(found, place, findings)
    stated = [draft for draft in read_rules(found, place, findings)]  # noqa: C416 - reading notes problems
    judge, limit = read_judge(found, place, findings), read_limit(found, place, findings)
    known = _types(columns, actual, place, findings)
    types, stored = seen_types(columns, known, judge), seen_types(columns, known, "after")
    clocks = {Scope.ROW: clocks_of(columns, types), Scope.TABLE: clocks_of(columns, stored)}
    sound: dict[Scope, list[Draft]] = {Scope.ROW: [], Scope.TABLE: []}
    drafts: list[Draft] = []
    for one in stated:
        known_so_far = len(findings.problems)
        draft = in_microseconds(one, clocks[one.scope], findings)
        drafts.append(draft)
        # What the table's own key says already judges nothing, and contradicts nothing.
        if len(findings.problems) > known_so_far or draft.kind == OF_KEY:
            continue
        names = named_columns(draft) if draft.expectation in ROW else columns_of(draft)
        is_stored = draft.scope is Scope.TABLE or judge == "after"
        if not is_stored or is_judgeable(draft, names, columns, findings):
            if draft.scope is Scope.ROW:
                check_draft(draft, types, findings)
            else:
                check_table_draft(draft, stored, findings)
        if sources is not None and is_stored and len(findings.problems) == known_so_far:
            check_left_of_masks(draft, names, columns, findings)
        if len(findings.problems) == known_so_far and not findings.has_within(draft.place):
            sound[draft.scope].append(draft)
    if sources is not None:
        every = [*sound[Scope.ROW], *sound[Scope.TABLE]]
        check_queries(every, stored, sources, findings)
        tell_formats(every, findings)
        check_ranges(sound[Scope.ROW], types, found, findings)
        check_ranges(sound[Scope.TABLE], stored, found, findings)
    # With a malformed rule there is nothing to compare; whatever else is wrong hides no contradiction of the others.
    lints = sources is not None
    keys = {column.name for column in columns if column.primary_key}
    check_rows_together(sound[Scope.ROW], types, keys, findings, lints=lints)
    check_tables_together(sound[Scope.TABLE], stored, sound[Scope.ROW], findings, lints=lints)
    if sources is not None:
        plain = {column.name: types.get(column.name) for column in columns if column.mask is None}
        check_further(sound[Scope.TABLE], sound[Scope.ROW], plain, findings)
    name = document.name or document.id or found.name or findings.path.stem
    rules = list(zip(drafts, named(drafts, findings), strict=True))
    own, of_key = (tuple(rule for draft, rule in rules if (draft.kind == OF_KEY) is keys) for keys in (False, True))
    contract = Contract(
        findings.path, name, document.version or "", columns, own, judge, limit,
        read_freshness(document, found, findings, lints=lints), contacts=read_contacts(document, found), of_key=of_key,
    )  # fmt: skip
    if len(findings.problems) == before:
        check_masks(contract, [(*place, "properties", index) for index in range(len(columns))], findings)
    return contract


def _validated(data: dict[str, Any], findings: Findings) -> OpenDataContractStandard | None:
    try:
        document = OpenDataContractStandard.model_validate(data)
    except ValidationError as error:
        found: dict[Place, list[Mapping[str, Any]]] = {}
        for problem in error.errors(include_url=False, include_input=False, include_context=False):
            place = tuple(step for step in problem["loc"] if isinstance(step, int) or step in _keys(data))
            found.setdefault(place, []).append(problem)
        for place, problems in found.items():
            # What can be written in two ways is told as what it was meant to be.
            if not any(other[: len(place)] == place for other in found if len(other) > len(place)):
                says = " and ".join(dict.fromkeys(_SAYS.get(one["type"], one["msg"]) for one in problems))
                findings.add(place, f"not as ODCS says: {says}.", _advice(problems[0], data))
        return None
    find_unknown_keys(data, document, findings)
    refuse_misplaced(document.customProperties, (), findings)
    if document.kind != "DataContract":
        findings.add(("kind",), "kind is not DataContract.", "Write kind: DataContract.")
    if not (document.apiVersion or "").startswith(_ODCS_MAJOR):
        findings.add(("apiVersion",), "apiVersion is not one of ODCS 3.", "Write apiVersion: v3.1.0 or later.")
    return document


def _advice(problem: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    if problem["type"] != "extra_forbidden" or len(problem["loc"]) != 1:
        return "Mend the value."
    fields = [info.alias or name for name, info in OpenDataContractStandard.model_fields.items()]
    near = nearest(str(problem["loc"][0]), [name for name in fields if name not in data])
    return f"Did you mean {near}?" if near else "Remove the key, or make it one of customProperties."


def _keys(data: object) -> set[str]:
    """Every key of a document: pydantic puts the names of union members into its paths, which are no keys."""
    if isinstance(data, dict):
        return {str(key) for key in data} | {key for value in data.values() for key in _keys(value)}
    return {key for item in data for key in _keys(item)} if isinstance(data, list) else set()


def _choose_table(
    document: OpenDataContractStandard, table: str | None, findings: Findings
) -> tuple[SchemaObject, Place] | None:
    tables = document.schema_ or []
    if len(tables) == 1:
        return tables[0], ("schema", 0)
    if not tables:
        findings.add(("schema",), "the contract has no table.", "Describe one under schema.")
        return None
    wanted = {table, table.rpartition(".")[2]} if table else set()
    matching = [i for i, found in enumerate(tables) if {found.name, found.physicalName} & wanted]
    if len(matching) == 1:
        return tables[matching[0]], ("schema", matching[0])
    which = f"not exactly one of them is {table}" if table else "nothing says which one is meant"
    do = "Keep one table a file, or give one the mirror's name."
    findings.add(("schema",), f"the contract has {len(tables)} tables and {which}.", do)
    return None


def _types(
    columns: tuple[ContractColumn, ...], actual: Mapping[str, str] | None, place: Place, findings: Findings
) -> dict[str, str | None]:
    """Return the type of each column, the table's own where it is known, noting where the two do not agree."""
    types = {column.name: column.type for column in columns}
    if actual is None:
        return types
    there = {name.casefold(): ddl for name, ddl in actual.items()}  # as Spark compares names
    for index, column in enumerate(columns):
        here = (*place, "properties", index)
        if column.mask is Mask.DROP:
            continue
        ddl = there.get(column.name.casefold())
        if ddl is None:
            near = nearest(column.name, actual)
            do = f"Did you mean {near}?" if near else "Remove the column, or add it at the source."
            findings.add(here, f"the table has no column {column.name}.", do)
            continue
        if column.mask is None and column.type and not _agree(column.type, ddl):
            message = f"column {column.name} is declared as {column.type}, the table has {ddl}."
            findings.add(here, message, _OTHER_TYPE)
        types[column.name] = ddl
    declared = {name.casefold() for name in types}
    return types | {name: ddl for name, ddl in actual.items() if name.casefold() not in declared}


def _agree(declared: str, actual: str) -> bool:
    """Whether a type is of the kind that the table has; an object whose parts nobody declares may be any text."""
    kinds = {family(declared), family(actual)}
    return len(kinds) == 1 or kinds == {Family.TEXT, Family.NESTED}
