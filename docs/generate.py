"""Write the reference pages from the code, so that they cannot say anything else: `make docs`.

With a folder as argument the pages go there; the tests compare them with those in the repository.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import typer
from open_data_contract_standard.model import SchemaProperty
from pydantic import BaseModel

from cdc_materializer import errors
from cdc_materializer.cli import app
from cdc_materializer.config import TableConfig, config_json_schema
from cdc_materializer.config.readers import READERS, TRIED
from cdc_materializer.config.references import SECRET_FILE_BYTES_MAX
from cdc_materializer.config.tables import TableSettings
from cdc_materializer.contract.expectations import REFUSED, ROW, RowExpectation
from cdc_materializer.contract.table_expectations import TABLE, TableExpectation
from cdc_materializer.contract.types import INTEGER_FORMATS, PLAIN, SIZED, Family, column_type, physical_type
from cdc_materializer.demo import DemoReport
from cdc_materializer.environment import VARIABLES
from cdc_materializer.errors import EXIT_CODES_WORST_FIRST, CdcError, Code, Handling
from cdc_materializer.merge import RAW_SCHEMA, cdc_struct, history_schema
from cdc_materializer.merge_quarantine import QUARANTINE_SCHEMA
from cdc_materializer.report import (
    maintain_models,
    models,
    plan_models,
    query_models,
    replay_models,
    row_models,
    setup_models,
    trial_models,
    violation_models,
)
from cdc_materializer.report.remedies import REMEDIES
from cdc_materializer.schema.schema import TableSchema

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py from the code (`make docs`); do not edit. -->"


class _Parameter(Protocol):
    """An option or argument as typer keeps it; its own classes have other names from version to version."""

    param_type_name: str
    name: str
    metavar: str | None
    opts: list[str]
    nargs: int
    required: bool
    help: str | None
    default: object
    is_flag: bool
    type: Any


class _Command(Protocol):
    """A command, or a group of them."""

    help: str | None
    params: list[_Parameter]


_EXIT_MEANINGS = {
    0: "done",
    2: "usage or configuration",
    3: "source or registry unavailable",
    4: "lake unavailable, or another writer won",
    5: "contract blocked the batch",
    6: "the source lost or rewound data",
    7: "outcome of a commit unknown; running again settles it",
    8: "`verify` or `replay` found a difference",
    70: "a bug of this program",
}

_NUMBERED = "Where several topics go to one mirror, they are [numbered through](../topics.md)."
_RAW = {
    "topic": "Topic of the message.",
    "partition": f"Partition. {_NUMBERED}",
    "offset": "Offset; with topic and partition the message's identity. In a topic that was made again they go on.",
    "timestamp": "The record's timestamp.",
    "timestamp_type": "0: set by the producer, 1: set by the broker.",
    "key": "The key's bytes, as they came; null: none.",
    "value": "The value's bytes, as they came; null: a tombstone.",
    "headers": "The headers, in their order; null: none.",
    "key_schema_id": "Number of the key's schema, in its first bytes or a header; null: it has no number, or none.",
    "value_schema_id": "Number of the value's schema, likewise.",
    "batch_id": "The batch that landed it.",
    "key_schema_name": "How a header names the key's schema: what it is (`id`, `guid`, `content`, `global`, `hash`, "
    "`artifact`), a colon, the bytes in hexadecimal; null: no header does.",
    "value_schema_name": "How a header names the value's schema, likewise.",
}
_QUARANTINE = {
    "topic": "Topic of the message.",
    "partition": f"Partition of the message. {_NUMBERED}",
    "offset": "Offset of the message; the message itself is in the raw table.",
    "timestamp": "Timestamp of the message.",
    "key": "The row's key as JSON text; null: it could not be read.",
    "code": "Violation code, see [codes](codes.md).",
    "rule": "Rule of the contract, for the code `CONTRACT`; for `UNDECODABLE` what the message is, if known.",
    "severity": "Severity that the rule states.",
    "action": "What was done with the message.",
    "status": "`open`, `superseded` (a later good version took its place) or `released`.",
    "column": "Column concerned; null when none or several are.",
    "detected_at": "When it was detected.",
    "batch_id": "The batch that detected it.",
}
_HISTORY = {
    "op": "`c` create, `u` update, `d` delete, `r` read by a snapshot, `t` truncate.",
    "before": "The row as readers saw it before the change; null: there was none.",
    "after": "The row after it; null: there is none.",
    "source_ts": "When the source database made the change.",
    "position": "Where the source database says the change happened, comparable as text.",
    "epoch": "Number of the source's life: positions of one epoch can be compared.",
    "topic": "Topic of the message.",
    "partition": f"Its partition. {_NUMBERED}",
    "offset": "Its offset.",
    "timestamp": "Its timestamp.",
    "transaction": "The source's transaction and the place in it; null: the connector sends no transaction metadata.",
    "source_table": "The table of the source that was changed; null: the message names none, or the row was written "
    "by a version that did not keep it.",
    "place": "What the change was ordered by among those of its row, in an epoch: `sort` as text, `time`, offset, "
    "partition, and `part`, its number in the message. `sort` and `time` are null where the order of offsets told all; "
    "of a truncate `reach` is the position up to which it ends rows of snapshots. Null in rows of versions that did "
    "not keep it.",
}
_CDC = {
    "op": "Operation that wrote the row: `c` create, `u` update, `r` read by a snapshot; with soft deletes also `d` "
    "delete, `t` truncate.",
    "source_ts": "When the source database made the change.",
    "position": "Where the source database says the change happened (an LSN, a binlog place), comparable as text.",
    "epoch": "Number of the source's life: positions of one epoch can be compared.",
    "topic": "Topic of the message that wrote the row.",
    "partition": f"Its partition. {_NUMBERED}",
    "offset": "Its offset.",
    "deleted": "Whether the row was deleted; only in mirrors with `deletes: soft`.",
    "source_table": "The source table that the row is from; only in mirrors that several feed. Null in rows from "
    "before the second one came: then the first, which `cdcm.source-table` in the snapshots' summaries names.",
}


def pages() -> dict[str, str]:
    """Return every generated file: its path below docs, and its text."""
    return {
        "reference/commands.md": _page("Commands", _commands()),
        "reference/configuration.md": _page("pipeline.yaml", _configuration()),
        "reference/tables.md": _page("Tables", _tables()),
        "reference/readers.md": _page("Readers", _readers()),
        "reference/codes.md": _page("Violation codes", _codes()),
        "reference/expectations.md": _page("Expectations", _expectations()),
        "reference/contract-types.md": _page("Types of contracts", _contract_types()),
        "reference/environment.md": _page("Environment variables", _environment()),
        "reference/exit-codes.md": _page("Exit codes", _exit_codes()),
        "reference/reports.md": _page("JSON documents", _reports()),
        "reference/report.schema.json": _schema(violation_models.ViolationReport),
        "pipeline.schema.json": json.dumps(config_json_schema(), indent=2, ensure_ascii=False) + "\n",
    }


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", NOTE, "", *lines]).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from (_row(row) for row in rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"


# --- commands -------------------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield "Every command ends with one of the [exit codes](exit-codes.md)."
    yield "With `--json` its standard output is one JSON document and nothing else, described in [reports](reports.md);"
    yield 'a command that fails prints `{"error": {"code": …, "message": …}}` instead.'
    yield "Logs and progress go to standard error."
    yield ""
    root = cast("_Command", typer.main.get_command(app))
    for path, command in _walk("cdcm", root):
        yield from _command(path, command)


def _walk(path: str, command: _Command) -> Iterator[tuple[str, _Command]]:
    children: Mapping[str, _Command] = getattr(command, "commands", {})
    if not children or path == "cdcm":
        yield path, command
    for name, child in children.items():
        yield from _walk(f"{path} {name}", child)


def _command(path: str, command: _Command) -> Iterator[str]:
    arguments = [_argument(param) for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]" if path != "cdcm" else "[OPTIONS] COMMAND", *arguments])
    paragraphs = [" ".join(text.split()) for text in (command.help or "").split("\n\n")]
    yield from (f"## {path}", "", f"`{usage}`", "")
    for paragraph in paragraphs:
        yield from (paragraph, "")
    yield from _table(("option", "meaning", "default"), [_option(param) for param in command.params])


def _argument(param: _Parameter) -> str:
    name = f"{(param.metavar or param.name.upper()).strip('[].…')}{'…' if param.nargs == -1 else ''}"
    return name if param.required else f"[{name}]"


def _option(param: _Parameter) -> tuple[str, str, str]:
    if param.param_type_name == "argument":
        return f"`{_argument(param)}`", param.help or "", "required" if param.required else _plain(param.default)
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    values = "" if param.is_flag else _values(param)
    return f"`{names}{values}`", param.help or "", _plain(param.default)


def _plain(default: object) -> str:
    return "" if default is None or default is False else f"`{getattr(default, 'value', default)}`"


def _values(param: _Parameter) -> str:
    choices = getattr(param.type, "choices", None)
    if choices:
        return " " + "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return f" {param.metavar or param.type.name.upper()}"


# --- configuration --------------------------------------------------------------------------------------------------


def _configuration() -> Iterator[str]:
    schema = config_json_schema()
    yield "Paths are relative to the file; `$${` is a plain `${`."
    yield (
        "In any text `${NAME}` takes an environment variable, and `${file:PATH}` the text of a file: UTF-8 of at most "
        f"{SECRET_FILE_BYTES_MAX >> 10} KiB, without the line ends behind it."
    )
    yield "A variable that is not set and a file that is not there or empty are errors that name the setting."
    yield "An unknown key is an error that names the nearest known one; secrets never appear in any output."
    yield "For an editor: [pipeline.schema.json](../pipeline.schema.json) is the same as a JSON Schema."
    yield ""
    definitions: Mapping[str, Any] = schema["$defs"]
    yield from _section("The file", schema)
    for title, name in (
        ("source", "SourceConfig"),
        ("registry", "RegistryConfig"),
        ("registry.basic_auth", "BasicAuth"),
        ("registry.tls", "TlsFiles"),
        ("masks", "MasksConfig"),
        ("databases, each", "DatabaseConfig"),
        ("maintenance", "MaintenanceConfig"),
        ("raw, of a table", "RawSettings"),
        ("catalog", "CatalogConfig"),
    ):
        yield from _section(title, definitions[name])
    yield "`catalog` takes any other Iceberg catalog property as well, and passes it on."
    yield ""
    yield from _section("An entry of tables", definitions["TableConfig"])
    shared = TableSettings.model_fields
    own = ", ".join(
        f"`{field.alias or name}`" for name, field in TableConfig.model_fields.items() if name not in shared
    )
    yield f"All of these but {own} can stand under `defaults`, for tables that do not say otherwise."


def _section(title: str, schema: Mapping[str, Any]) -> Iterator[str]:
    required = set(schema.get("required", ()))
    yield from (f"## {title}", "")
    if title != "The file":
        yield from (schema["description"].split("\n")[0], "")
    rows = [
        (f"`{name}`", _kind(part), "required" if name in required else _default(part), part["description"])
        for name, part in schema["properties"].items()
    ]
    yield from _table(("key", "value", "default", "meaning"), rows)


def _kind(part: Mapping[str, Any]) -> str:
    if "$ref" in part:
        return "a map"
    if "anyOf" in part:
        return " or ".join(_kind(one) for one in part["anyOf"] if one.get("type") != "null")
    if "enum" in part:
        return ", ".join(f"`{json.dumps(one).strip(chr(34))}`" for one in part["enum"] if one is not None)
    kind = part.get("type", "")
    if isinstance(kind, list):
        return "a name or a list of names"
    names = {
        "array": "a list",
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "object": "a map",
        "string": "text",
    }
    of = part.get("items", {}).get("enum", ())
    return names[kind] + (" of " + ", ".join(f"`{one}`" for one in of) if of else "")


def _default(part: Mapping[str, Any]) -> str:
    value = part.get("default")
    return "" if value in (None, [], {}) else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _environment() -> Iterator[str]:
    yield "What the program itself reads of the environment; Java, Spark and the libraries below read more."
    yield "In [pipeline.yaml](configuration.md) `${NAME}` takes any variable, and `${file:PATH}` a file."
    yield "Empty is as unset for those of this page; in pipeline.yaml it is an empty text."
    yield ""
    yield from _table(("variable", "what it is for"), [(f"`{name}`", said) for name, said in VARIABLES.items()])


# --- tables, codes --------------------------------------------------------------------------------------------------


def _tables() -> Iterator[str]:
    yield "For a mirror `shop.orders` there are these tables, made when they are first needed."
    yield ""
    yield from ("## shop.orders", "")
    yield "One row a live key (with `deletes: soft` also one a deleted key, with its last values):"
    yield "the source's columns by name and in their order,"
    yield from ("then the struct `__cdc`, which says where the row comes from:", "")
    inner = cdc_struct(soft=True, routed=True).removeprefix("struct<").removesuffix(">").split(",")
    fields = [part.split(":") for part in inner]
    yield from _table(
        ("field of `__cdc`", "type", "meaning"), [(f"`{name}`", f"`{kind}`", _CDC[name]) for name, kind in fields]
    )
    yield from ("## shop.orders__raw", "", "One row a message, ever; only appended to.", "")
    yield from _columns(RAW_SCHEMA, _RAW)
    yield from ("## shop.orders__quarantine", "", "One row a message and violation. No row values but the key.", "")
    yield from _columns(QUARANTINE_SCHEMA, _QUARANTINE)
    yield from ("## shop.orders__history", "")
    yield "With `history: true`: one row a change that was applied, appended when it is; see [history](../history.md)."
    yield ""
    columns = history_schema(TableSchema(())).columns
    rows = [(column.name, "the row" if column.type == "struct<>" else f"`{column.type}`") for column in columns]
    yield from _table(("column", "type", "meaning"), [(f"`{name}`", kind, _HISTORY[name]) for name, kind in rows])
    yield "Reserved: column names that begin `__cdc`, table names that end `__raw`, `__quarantine` or `__history`."


def _expectations() -> Iterator[str]:
    yield "Every expectation that Great Expectations 1.24 registers; a [contract](../contracts.md) names one with"
    yield "`type: custom` and `engine: greatExpectations`."
    yield "Those about rows take `mostly`, `row_condition` and `condition_parser` too; with `mostly` below 1 they speak"
    yield "of the table, and are measured in one pass over it."
    yield "Arguments in bold are needed."
    yield ""
    yield "## About rows"
    yield ""
    yield "GX's own condition is asked for and evaluated with the batch; a row that breaks it can be held."
    yield ""
    rows = [_expectation(name, (*one.columns, *one.kwargs), one) for name, one in ROW.items()]
    yield from _table(("expectation", "arguments", "kinds of columns"), rows)
    yield "## About the table, measured in one pass"
    yield ""
    yield from _table(("expectation", "arguments", "kinds of columns"), _of_tables(is_measured=True))
    yield "## About the table, in jobs of their own"
    yield ""
    yield "GX's own verdict on what the batch has staged."
    yield "`…_increasing` and `…_decreasing` look at rows in the order of the mirror's key, since a table has none;"
    yield "the query of `unexpected_rows_expectation` has to ask `{batch}`, and can only read."
    yield ""
    yield from _table(("expectation", "arguments", "kinds of columns"), _of_tables(is_measured=False))
    yield "## Refused"
    yield ""
    yield "GX itself cannot judge these on Spark; a contract that names one is an error with file and line."
    yield ""
    yield from _table(
        ("expectation", "why"), [(f"`{name}`", f"{why[0].upper()}{why[1:]}.") for name, why in REFUSED.items()]
    )


def _of_tables(*, is_measured: bool) -> list[tuple[str, str, str]]:
    chosen = {name: one for name, one in TABLE.items() if (one.measure is not None) is is_measured}
    return [_expectation(name, (*one.columns, *one.kwargs), one) for name, one in chosen.items()]


def _expectation(name: str, arguments: Sequence[str], known: RowExpectation | TableExpectation) -> tuple[str, str, str]:
    needed = {*known.columns, *known.needed}
    told = [f"**`{key}`**" if key in needed else f"`{key}`" for key in arguments]
    kinds = "all" if known.families is None or len(known.families) == len(Family) else ", ".join(sorted(known.families))
    return f"`{name}`", ", ".join(told), kinds if known.columns else ""


#: Spellings of `physicalType` that are read by a rule, and what is said of it.
_SPELLED = (
    (
        "decimal(12,2)",
        "`dec`, `numeric` and `number` likewise; 1 to 38 digits, of which the second number is behind the point",
    ),
    ("number(*,2)", "Oracle's `*` is 38 digits"),
    ("number(5,-2)", "a negative scale is so many zeros before the point"),
    ("decimal(12,2) unsigned", "`unsigned` changes nothing of decimal and floating-point numbers"),
    ("int unsigned zerofill", "`zerofill` is unsigned too"),
    ("float(24)", "up to 24 bits"),
    ("float(53)", "more than 24 bits"),
    ("bit", "`bit(1)` too"),
    ("bit(8)", "more than one bit"),
    ("text[]", "an array of any known type"),
    ("_text", "the same, as PostgreSQL itself calls it"),
    ("array<date>", "Spark's own, of known types; so are the next two"),
    ("map<string,int>", ""),
    ("struct<a:int,b:date>", "names of fields as written"),
)
#: What `logicalType` can be, and the options that make another type of it.
_LOGICAL: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("string", {}),
    ("boolean", {}),
    ("integer", {}),
    *(("integer", {"format": name}) for name in INTEGER_FORMATS),
    ("number", {}),
    ("number", {"format": "f32"}),
    ("date", {}),
    ("time", {}),
    ("timestamp", {}),
    ("timestamp", {"timezone": False}),
    ("array", {}),
    ("vector", {}),
    ("object", {}),
    ("map", {}),
)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _contract_types() -> Iterator[str]:
    yield "The types that a [contract](../contracts.md#types-of-columns) can declare, and Spark's name of the column."
    yield "`physicalType` counts where it is known, else `logicalType`."
    yield "In a `physicalType` capitals make no difference, and a blank is the same as `_`."
    yield ""
    yield from ("## physicalType, by name", "")
    yield "A name with `(…)` may have a length or a precision in brackets, which changes nothing."
    yield ""
    names: dict[str, list[str]] = {}
    for name, ddl in PLAIN.items():
        names.setdefault(ddl, []).append(f"`{name.replace('_', ' ')}`" + ("(…)" if name in SIZED else ""))
    yield from _table(("column", "`physicalType`"), [(f"`{ddl}`", ", ".join(same)) for ddl, same in names.items()])
    yield "A column of `time` has microseconds since midnight."
    yield ""
    yield from ("## physicalType, by rule", "")
    yield from _table(
        ("`physicalType`", "column", ""),
        [(f"`{text}`", _code(str(physical_type(text))), said) for text, said in _SPELLED],
    )
    yield from ("## logicalType", "")
    yield "Options are those under `logicalTypeOptions`."
    yield ""
    rows = []
    for name, options in _LOGICAL:
        ddl = column_type(SchemaProperty(name="a", logicalType=name, logicalTypeOptions=dict(options) or None))
        rows.append(
            (
                f"`{name}`",
                ", ".join(f"`{key}: {json.dumps(one).strip(chr(34))}`" for key, one in options.items()),
                f"`{ddl}`",
            )
        )
    yield from _table(("`logicalType`", "option", "column"), rows)
    yield "An `array` and a `vector` with `items` have elements of their type."
    yield "An `object` and a `map` with `properties` are a struct of these."
    yield "With `map`, and `key` and `value` in it, both are a map of these."
    yield "An `object` without any is the text of its JSON."


def _readers() -> Iterator[str]:
    yield "What `readers` of a table knows of the engines that read Iceberg, and what it makes of that."
    yield "A table has the best form that all of its readers can read: deletion vectors in format 3,"
    yield "else position deletes in format 2, else format 2 with files written anew (copy-on-write), which costs most."
    yield "Equality deletes are never written."
    yield "`properties` may choose another form, but none that a named reader cannot read."
    yield ""
    yes = {True: "yes", False: "no"}
    yield from _table(
        ("reader", "deletion vectors", "position deletes", "version or date", "known from"),
        [
            (f"`{name}`", yes[reads.vectors], yes[reads.positions], reads.since, f"<{reads.source}>")
            if reads.source.startswith("https:")
            else (f"`{name}`", yes[reads.vectors], yes[reads.positions], reads.since, reads.source)
            for name, reads in READERS.items()
        ],
    )
    yield f"{TRIED.capitalize()}: a table of 1,010 rows, 100 of them deleted, was read and counted."
    yield "All others are as their makers say."


def _columns(schema: TableSchema, meanings: Mapping[str, str]) -> Iterator[str]:
    rows = [(f"`{column.name}`", f"`{column.type}`", meanings[column.name]) for column in schema.columns]
    yield from _table(("column", "type", "meaning"), rows)


#: What `strict` holds of what is published and reported.
_STRICT = (
    "With `strict: true` they are held instead; a key that is `ORDER_AMBIGUOUS` stays as the mirror has it. "
    "A snapshot's last record that waits for other partitions is not held."
)
_HANDLINGS = (
    (Handling.HELD, "Held", "The row stays at its last good version, the message stays in raw, the batch goes on."),
    (Handling.PUBLISHED, "Published and reported", _STRICT),
    (Handling.STOP, "Stop", "Nothing is written to that mirror; the other tables go on."),
)


def _codes() -> Iterator[str]:
    yield "What can be said of a message, in the quarantine table, in reports and in errors."
    yield ""
    for handling, title, meaning in _HANDLINGS:
        yield from (f"## {title}", "", meaning, "")
        rows = [(f"`{code}`", code.explanation, REMEDIES[code]) for code in Code if code.handling is handling]
        yield from _table(("code", "what happened", "what to do"), rows)


def _exit_codes() -> Iterator[str]:
    yield "What a command ends with."
    yield "When several tables end differently, it is the first of"
    yield f"{', '.join(map(str, EXIT_CODES_WORST_FIRST))} that occurred."
    yield "`cdcm run` that was asked twice to end (SIGINT, SIGTERM) ends at once, with 128 and the signal's number."
    yield "Who reads what is written decides nothing (`cdcm report | head -1`)."
    yield "Where standard output has no room for it, what would have been 0 is 2."
    yield ""
    yield "Any command that is interrupted (SIGINT) ends with 130, and its JSON document has the code `Interrupted`."
    yield ""
    rows = [
        (f"`{code}`", meaning, ", ".join(dict.fromkeys(_errors_of(code)))) for code, meaning in _EXIT_MEANINGS.items()
    ]
    yield from _table(("exit code", "meaning", "`error.code` in JSON documents"), rows)


def _errors_of(code: int) -> Iterator[str]:
    classes: list[type[CdcError]] = [CdcError]
    for cls in classes:
        classes += [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    yield from (f"`{cls.code or cls.__name__}`" for cls in classes[1:] if cls.exit_code == code)
    if code == errors.EXIT_BUG:
        yield "`BUG`"


# --- JSON documents -------------------------------------------------------------------------------------------------

_DOCUMENTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("cdcm run --json", models.RunReport),
    ("cdcm run --plan --json", plan_models.PlanReport),
    ("cdcm maintain --json", maintain_models.MaintainReport),
    ("cdcm query --json", query_models.QueryReport),
    ("cdcm status --json", models.StatusReport),
    ("cdcm report --json", violation_models.ViolationReport),
    ("cdcm verify --json", models.VerifyReport),
    ("cdcm replay --json", replay_models.ReplayReport),
    ("cdcm adopt --json", models.AdoptReport),
    ("cdcm why --json", row_models.WhyReport),
    ("cdcm as-of --json", query_models.AsOfReport),
    ("cdcm quarantine list --json", violation_models.QuarantineList),
    ("cdcm quarantine show --json", violation_models.QuarantineDetails),
    ("cdcm quarantine release --json", models.ReleaseReport),
    ("cdcm contract lint --json", models.LintReport),
    ("cdcm contract test --json", trial_models.TrialReport),
    ("cdcm demo --json", DemoReport),
    ("cdcm init --json", setup_models.InitReport),
    ("cdcm doctor --json", setup_models.DoctorReport),
)


def _reports() -> Iterator[str]:
    yield "What each command prints with `--json`. Times are UTC in ISO 8601."
    yield "No field carries a row's values, but for the rows of `query` and `as-of` and samples of `report`."
    yield "For programs: [report.schema.json](report.schema.json) is the violation report as a JSON Schema."
    yield ""
    told: set[str] = set()
    for command, model in _DOCUMENTS:
        schema = model.model_json_schema(mode="serialization")
        yield from (f"## {command}", "", _first_line(schema), "")
        yield from _fields(schema)
        for name, part in schema.get("$defs", {}).items():
            if name in told or "properties" not in part:
                continue
            told.add(name)
            yield from (f"### {name}", "", _first_line(part), "")
            yield from _fields(part)


def _schema(model: type[BaseModel]) -> str:
    """Return the JSON Schema of a document."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _first_line(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description", "")).split("\n\n")[0].replace("``", "`")


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    rows = [(f"`{name}`", _type(part), part.get("description", "")) for name, part in schema["properties"].items()]
    yield from _table(("field", "type", "meaning"), rows)


def _type(part: Mapping[str, Any]) -> str:
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if "anyOf" in part:
        return " or ".join(_type(one) for one in part["anyOf"])
    if "enum" in part:
        return ", ".join(f"`{one}`" for one in part["enum"])
    kind = part.get("type", "")
    if kind == "array":
        return f"list of {_type(part['items'])}"
    if kind == "object":
        return f"map of text to {_type(part['additionalProperties'])}"
    return ("time" if part.get("format") == "date-time" else "text") if kind == "string" else str(kind)


def write(folder: Path, tell: Callable[[str], object] = sys.stdout.write) -> None:
    """Write every page below a folder, and tell which."""
    for place, text in pages().items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        tell(f"{path}\n")


def main() -> None:
    """Write the pages to the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Write the reference pages from the code.")
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS, help="where they go; docs if left out")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
