"""pipeline.yaml, read once into frozen models; nothing else reads YAML or the environment (design section 4.2).

The models of its parts are in `tables` (a table's settings), `connections` (source, registry, catalog) and `values`
(their kinds of value).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from cdc_materializer.config.connections import (
    CatalogConfig,
    RegistryConfig,
    SourceConfig,
)
from cdc_materializer.config.databases import DatabaseConfig
from cdc_materializer.config.faults import CORRECT, config_error
from cdc_materializer.config.formats import left_out
from cdc_materializer.config.globs import check_mirrors
from cdc_materializer.config.maintenance import MaintenanceConfig
from cdc_materializer.config.masks import MasksConfig
from cdc_materializer.config.references import References, plain_secrets
from cdc_materializer.config.tables import TableConfig, TableSettings
from cdc_materializer.config.values import Properties, Settings, kind_of, refusal
from cdc_materializer.errors import ConfigError
from cdc_materializer.names import shown

#: Largest pipeline.yaml that is read, in bytes.
FILE_BYTES_MAX = 1 << 20

_NAME = re.compile(r"\w[\w .:/-]{0,127}")


class PipelineFile(Settings):
    """What stands in pipeline.yaml."""

    name: str = Field(description="The pipeline's name, written into every commit.")
    source: SourceConfig = Field(description="Where messages come from.")
    registry: RegistryConfig | None = Field(default=None, description="Where the schemas of messages come from.")
    catalog: CatalogConfig = Field(
        default_factory=CatalogConfig,
        description="The Iceberg catalog, any property of it; left out: SQLite in `lake` beside the file.",
    )
    spark: Properties = Field(
        default={}, description="Spark properties, each with its `spark.` in front, passed on as they are."
    )
    masks: MasksConfig | None = Field(default=None, description="The key of the hashes that contracts ask for.")
    databases: Mapping[str, DatabaseConfig] = Field(
        default={}, description="The source databases by names of your own, for `cdcm verify --source`."
    )
    maintenance: MaintenanceConfig = Field(
        default_factory=MaintenanceConfig, description="When files are rewritten and snapshots expire."
    )
    defaults: TableSettings = Field(
        default_factory=TableSettings, description="Settings for every table that does not say otherwise."
    )
    tables: tuple[TableConfig, ...] = Field(description="The topics to mirror; one at least.")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: object) -> object:
        """Lay each table's settings over `defaults`, and leave out what has no value, so that its own default holds."""
        if not isinstance(data, Mapping):
            return data
        given = {"catalog": {}, **_with_values(data)}
        if "tables" in data:
            given.setdefault("tables", [])  # nothing behind it is an empty list, as to the eye
        defaults, tables = given.get("defaults"), given.get("tables")
        if isinstance(defaults, Mapping):
            given["defaults"] = _with_values(defaults)
        if isinstance(tables, list):
            given["tables"] = [_over(defaults if isinstance(defaults, Mapping) else {}, table) for table in tables]
        return given

    @model_validator(mode="after")
    def _check_databases(self) -> Self:
        wanted = {table.source_database for table in self.tables} - {None, *self.databases}
        if wanted:
            names = ", ".join(f"`{shown(str(name))}`" for name in sorted(map(str, wanted)))
            raise refusal(f"has tables of the `source_database` {names}, which stands not under `databases`")
        return self

    @field_validator("spark")
    @classmethod
    def _check_spark(cls, properties: Mapping[str, str | SecretStr]) -> Mapping[str, str | SecretStr]:
        other = next((name for name in properties if not name.startswith("spark.")), None)
        if other is not None:
            raise refusal(
                f"has `{shown(other)}`, and names of Spark's properties begin `spark.`",
                f"Write `spark.{shown(other)}`; Hadoop's own stand behind `spark.hadoop.`.",
            )
        return properties

    @field_validator("tables")
    @classmethod
    def _check_tables(cls, tables: tuple[TableConfig, ...]) -> tuple[TableConfig, ...]:
        if not tables:
            raise refusal("is empty: there is nothing to mirror", "Add an entry, like `- topic: shop.public.orders`.")
        return tables

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if _NAME.fullmatch(name) is None:
            raise refusal("must begin with a letter or digit and have at most 128 letters, digits and `_ . : / -`")
        return name


class Config(PipelineFile):
    """A pipeline: the file's content, complete, with absolute paths."""

    path: Path = Field(description="The file it was read from.")
    root: Path = Field(description="The folder of that file, which relative paths start from.")
    plain_secrets: tuple[str, ...] = Field(
        default=(), description="The settings that are secrets and stand in the file as plain text, by their places."
    )


def load_config(path: Path | str) -> Config:
    """Read pipeline.yaml.

    Raises:
        ConfigError: there is no such file, it is not YAML, what stands in it cannot be followed, or a variable or file
            that a value is taken from is not there; the message names the place, and never repeats a value.
    """
    path = Path(path)
    loaded = _parse(path, _read(path))
    root = Path(os.path.normpath(path.absolute().parent))
    references = References(path, root, os.environ)
    try:
        file = PipelineFile.model_validate(references.filled_in(loaded), context={"root": root})
    except ValidationError as error:
        raise config_error(path, error.errors(include_url=False)) from None  # the cause shows values
    check_mirrors(file.tables)
    return Config(**dict(file), path=path, root=root, plain_secrets=plain_secrets(file, references.places))


def config_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of pipeline.yaml, for editors."""
    schema = PipelineFile.model_json_schema()
    schema["$defs"]["CatalogConfig"]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "pipeline.yaml"}


def _with_values(given: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _over(defaults: Mapping[Any, Any], table: object) -> object:
    """Lay a table's settings over the defaults, maps key by key; one without a value falls back to its own default."""
    if not isinstance(table, Mapping):
        return table
    merged = {**defaults, **table}
    # What is said for all tables is meant for those of them whose format reads it.
    for name in left_out(merged.get("format"), merged) - table.keys():
        del merged[name]
    for name, value in table.items():
        if isinstance(value, Mapping) and isinstance(defaults.get(name), Mapping):
            merged[name] = {**defaults[name], **value}
    return _with_values(merged)


class _Loader(yaml.SafeLoader):
    """Safe YAML without its surprises: no key twice, and only `true`, `false`, null and whole numbers are not text.

    So `no`, `1.10`, `0123`, `12:30` and `2026-01-01` stay what the file says.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML reads it from the class

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's signature
    ) -> dict[Any, Any]:
        """Refuse a key that is there twice: which of the two held would be a guess."""
        keys: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else id(key_node)
            if key in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{shown(str(key))}` is there twice", problem_mark=key_node.start_mark
                )
            keys.add(key)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("int", r"0|-?[1-9][0-9]*", "-0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [*_first])
_Loader.yaml_implicit_resolvers[""] = [("tag:yaml.org,2002:null", re.compile(r"^$"))]


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no configuration file {path}.",
            "`cdcm init --bootstrap BROKER:9092` writes one from what topics show, `cdcm init --files FOLDER` from "
            "recorded ones; or name the right one with -c.",
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Name a readable file with -c.") from error
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes.", "Name a pipeline.yaml with -c.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.") from None


def _parse(path: Path, text: str) -> Mapping[Any, Any]:
    try:
        loaded = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader that refuses more
    except RecursionError:
        raise ConfigError(f"{path} nests too deeply.", CORRECT) from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line} is not valid YAML: {error.problem or error.context}.", CORRECT) from None
    except yaml.YAMLError:
        raise ConfigError(f"{path} is not valid YAML: it has a character that may not be in it.", CORRECT) from None
    except ValueError:
        raise ConfigError(f"{path} is not valid YAML: a value does not fit its kind.", CORRECT) from None
    if not isinstance(loaded, Mapping):
        fact = "is empty" if loaded is None else f"is {kind_of(loaded)}, not a map of settings"
        raise ConfigError(f"{path} {fact}.", "Begin it with `name:`, `source:` and `tables:`.")
    return loaded
