"""The tables of pipeline.yaml: their settings, and the Iceberg properties these ask for."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from cdc_materializer.config.formats import AUTO, DEFAULT, check_format, check_settings, known_formats
from cdc_materializer.config.maintenance import RawSettings
from cdc_materializer.config.readers import Reader, check_properties, format_of, who_cannot_read
from cdc_materializer.config.values import Duration, FilePath, MirrorName, Names, Settings, read_properties, refusal
from cdc_materializer.errors import InvalidName
from cdc_materializer.names import TableName, same_name

# What Kafka allows in a topic's name (249 characters of these), and the signs of a glob.
_TOPIC = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}")
_GLOB_SIGNS = frozenset("*?[")
_OCTETS = re.compile(r"hex:([0-9A-Fa-f]{2})+")
_ONE_STAR = re.compile(r"[^*?\[]*\*[^*?\[]*")

#: How much of a mirror's file is read to find one key: files are sorted by it, and a row group is read as a whole.
#: Iceberg's own 128 MiB are a whole file. CPU-seconds to look up one of 1.1 million rows in a file of 42 MiB: 1.6 with
#: those, 0.7 with 16 MiB, 0.3 with 8, which made the file 4 % larger; a full scan took the same.
_ROW_GROUP, _ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes", 8 << 20

_TRANSFORM = re.compile(
    r"(?P<column>\w+)|(years|months|days|hours)\((?P<of>\w+)\)|(bucket|truncate)\([1-9][0-9]{0,8}, ?(?P<cut>\w+)\)"
)
_SORT = re.compile(r"(?P<transform>.+?)(?P<order> (asc|desc))?(?P<nulls> nulls (first|last))?", re.IGNORECASE)


def _transforms(given: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_TRANSFORM.fullmatch(text) for text in given):
        raise refusal(
            "has something that is no Iceberg transform",
            "Write a column, or `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(16, c)` or `truncate(8, c)`.",
        )
    return given


def _sort_orders(given: tuple[str, ...]) -> tuple[str, ...]:
    orders = [_SORT.fullmatch(text) for text in given]
    _transforms(tuple(order["transform"] if order else "" for order in orders))
    return given


def _placeholders(given: tuple[str, ...]) -> tuple[str, ...]:
    if not given or len(set(given)) != len(given) or not all(given):
        raise refusal("must have a placeholder, or several of them each once, and none may be empty")
    if any(one.startswith("hex:") and not _OCTETS.fullmatch(one) for one in given):
        raise refusal(
            "has octets that are none", "Write `hex:` and two hexadecimal digits for each, as Debezium has it."
        )
    return given


def _distinct_names(given: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(given)) != len(given) or not all(given):
        raise refusal("must name each column once, and none may be empty")
    return given


def _before_image(given: str) -> str:
    if not given or any(same_name(given, name) for name in ("data", "metadata", "control")):
        raise refusal("must be a name, and none of the other parts of a message")
    return given


def _renames(given: Mapping[str, str]) -> Mapping[str, str]:
    for old in given:
        name, met = old, {old}
        while name in given:
            name = given[name]
            if not name or name in met:
                raise refusal("renames a column to nothing, or back to a name that it had")
            met.add(name)
    return given


def _plain_properties(given: object) -> object:
    properties = read_properties(given)
    if not isinstance(properties, Mapping):
        return properties
    # Iceberg writes table properties into metadata that every reader of the table sees, so none of them is a secret.
    return {name: value if isinstance(value, str) else value.get_secret_value() for name, value in properties.items()}


class TableSettings(Settings):
    """Settings that any table can have; under `defaults:` they hold for every table that does not say otherwise."""

    contract: FilePath | None = Field(
        default=None,
        description="The table's contract, an ODCS file: columns, types, rules and what to do when one fails.",
    )
    format: Annotated[str, AfterValidator(check_format), WithJsonSchema({"enum": [AUTO, *known_formats()]})] = Field(
        default=DEFAULT,
        description="How a change is laid out in a message; `auto`: as the topic's first messages show, and where they "
        "do not, the table stops.",
    )
    added_fields: Annotated[Names, AfterValidator(_distinct_names)] = Field(
        default=(),
        description="For `debezium-flat`: the transform's `add.fields` and `add.headers`, as they stand there; left "
        "out: every field of Debezium's with the prefix.",
    )
    added_fields_prefix: str = Field(
        default="__",
        description="For `debezium-flat`: the transform's `add.fields.prefix`; an empty one needs `added_fields`.",
    )
    before_image: Annotated[str, AfterValidator(_before_image)] | None = Field(
        default=None,
        description="For `dms`: `FieldName` of the task's `BeforeImageSettings`, where it is neither "
        "`before-image` nor `before`.",
    )
    whole_rows: bool | None = Field(
        default=None,
        description="For `debezium-flat`, `iceberg-cdc` and `upsert`: whether a column that a row does not have is "
        "NULL, and not as it was. Left out, it is so of MongoDB's flattened documents alone.",
    )
    encoding: Literal["auto", "avro", "json"] = Field(
        default="auto",
        description="How values are encoded; `auto`: as their first bytes say. What is not in a named one is held.",
    )
    key: Annotated[Names, AfterValidator(_distinct_names)] = Field(
        default=(), description="The columns that identify a row, where the Kafka key does not say."
    )
    deletes: Literal["hard", "soft"] = Field(
        default="hard",
        description="What a delete does: `hard` removes the row, `soft` keeps its last values and marks it deleted.",
    )
    truncate: Literal["apply", "ignore", "stop"] = Field(
        default="apply", description="What a truncate does: empty the mirror, nothing, or stop the table (exit code 6)."
    )
    unavailable_value: Annotated[Names, AfterValidator(_placeholders)] = Field(
        default=("__debezium_unavailable_value",),
        description="The connector's placeholder for an unchanged column that it left out; of one that had another "
        "before, a list of both.",
    )
    always_known: Annotated[Names, AfterValidator(_distinct_names)] = Field(
        default=(),
        description="Columns that the connector never leaves out: that text is a value there like any other.",
    )
    special_values: Annotated[
        Literal["null", "clamp", "stop"],
        WithJsonSchema({"enum": ["null", None, "clamp", "stop"]}),  # YAML reads the word null as nothing
    ] = Field(
        default="null",
        description="What becomes of times outside the years 1 to 9999: NULL, the nearest end, or a stop (exit 5).",
    )
    incompatible_schema: Literal["quarantine", "new_column", "stop"] = Field(
        default="quarantine",
        description="What becomes of values that do not fit a column whose type changed in the source: their messages "
        "are held, they go into a column beside it (`amount__decimal_38_4`), or the table stops (exit 5).",
    )
    renames: Annotated[Mapping[str, str], AfterValidator(_renames)] = Field(
        default={},
        description="Columns that the source has renamed, each old name with its new one: the mirror's column is "
        "renamed too, and keeps its values.",
    )
    aliases: Literal["ignore", "rename"] = Field(
        default="ignore",
        description="What `aliases` of fields in registered Avro schemas are: nothing, or renames, as `renames` says "
        "them; what that says wins.",
    )
    strict: bool = Field(
        default=False, description="Hold also what would otherwise be published and reported (violation codes)."
    )
    snapshot_sweep: bool = Field(
        default=False,
        description="After a complete snapshot, end the rows that it did not show, as deletes would; not for "
        "snapshots that are filtered (`snapshot.select.statement.overrides`, `additional-conditions`).",
    )
    history: bool = Field(default=False, description="Keep every change of every row in a table beside the mirror.")
    ledger: bool = Field(
        default=False,
        description="Keep what the mirror's rows add up to in each snapshot, for `cdcm verify --ledger`. Each batch "
        "reads the rows that it replaces, and those that it has written before it publishes them.",
    )
    source_database: str | None = Field(
        default=None, description="The entry of `databases` that the table lives in, for `cdcm verify --source`."
    )
    position_regression_tolerance: Duration = Field(
        default=timedelta(hours=1),
        description="A change from an earlier position of the database stops the table if it was made later than all "
        "that were read, by more than this. Where changes of PostgreSQL tell `lsn` but no `sequence`, make it longer "
        "than your longest transaction.",
        json_schema_extra={"default": "1h"},
    )
    records_max: int = Field(
        default=500_000, ge=1, description="The most messages that one batch reads; fewer where they are large."
    )
    batch_duration: Duration = Field(
        default=timedelta(minutes=5),
        description="How long a batch is to take. After one that took longer, or that hardly found room in memory, the "
        "run's next ones read fewer messages; and more again once they are through in half the time.",
        json_schema_extra={"default": "5m"},
    )
    raw: RawSettings = Field(default_factory=RawSettings, description="What the raw table keeps.")
    partitioned_by: Annotated[Names, AfterValidator(_transforms)] = Field(
        default=(), description="Iceberg partition transforms of a new mirror, like `days(created_at)`."
    )
    sorted_by: Annotated[Names, AfterValidator(_sort_orders)] = Field(
        default=(),
        description="Iceberg sort order of a new mirror, like `customer_id` or `created_at desc nulls last`.",
    )
    readers: tuple[Reader, ...] = Field(
        default=(), description="The engines that read the mirror; its Iceberg format suits all of them."
    )
    properties: Annotated[Mapping[str, str], BeforeValidator(_plain_properties)] = Field(
        default={},
        description="Iceberg table properties; they win over what `readers` asks for.",
        json_schema_extra={"additionalProperties": {"type": ["string", "number", "boolean"]}},
    )

    @property
    def final_names(self) -> dict[str, str]:
        """The name that a column has at last, by each that it had."""
        found = {}
        for old, new in self.renames.items():
            name = new
            while name in self.renames:
                name = self.renames[name]
            found[old] = name
        return found

    @field_validator("properties")
    @classmethod
    def _check_properties(cls, properties: Mapping[str, str]) -> Mapping[str, str]:
        check_properties(properties)
        return properties

    def format_properties(self) -> dict[str, str]:
        """Return a new mirror's Iceberg properties: ours, those that suit all `readers`, and `properties` over them."""
        return {_ROW_GROUP: str(_ROW_GROUP_BYTES), **format_of(self.readers), **self.properties}

    @model_validator(mode="after")
    def _check_added(self) -> Self:
        # Of every field of Debezium's some are called as columns are: `name`, `row`, `table`.
        if not self.added_fields_prefix and not self.added_fields:
            raise refusal(
                "has an empty `added_fields_prefix` alone", "List the transform's `add.fields` in `added_fields`."
            )
        return self

    @model_validator(mode="after")
    def _check_readers(self) -> Self:
        unable = who_cannot_read(self.readers, self.format_properties())
        if unable:
            raise refusal(
                f"has `properties` that make a table which {', '.join(unable)} cannot read",
                "Leave the format and the modes of writing out: `readers` chooses them.",
            )
        return self


class TableConfig(TableSettings):
    """One entry of `tables:`: a topic, or a glob of topics, and the mirror it goes to."""

    topic: str = Field(
        description="The topic of the table's changes, or a glob of topics (`shop.public.*`): a table of each, or with "
        "a `mirror` one table of all."
    )
    given_mirror: MirrorName | None = Field(
        default=None,
        alias="mirror",
        description="The mirror's table name; left out: the last two parts of the topic's name.",
    )
    shard: str | None = Field(
        default=None,
        min_length=1,
        description="Where the topics of a glob go to one mirror and come from several servers: a key column of this "
        "name says which one, by what the glob's `*` stands for.",
    )
    source_table: str | None = Field(
        default=None,
        description="The table in its database, `schema.table` or `database.table`, for `cdcm verify --source`; left "
        "out: the last two parts of the topic's name.",
    )
    _topics: tuple[str, ...] = PrivateAttr(default=())
    _others: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if not self.renames.keys().isdisjoint(self.key):
            raise refusal("has an old name of `renames` in its `key`", "Write the new name there.")
        return self

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        check_settings(self.format, {name for name in self.model_fields_set if getattr(self, name)})
        if self.source_table is not None and self.source_database is None:
            raise refusal("has `source_table` and no `source_database`", "Name the database of `databases` it is in.")
        return self

    @property
    def is_glob(self) -> bool:
        """Whether `topic` stands for any number of topics; see `resolve_tables`."""
        return not _GLOB_SIGNS.isdisjoint(self.topic)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that go to the one mirror of a glob, once `resolve_tables` was asked; none for all others."""
        return self._topics

    def of_topics(self, topics: Iterable[str], others: Iterable[str] = ()) -> Self:
        """The same entry, with the topics that its glob stands for, and those that are other entries'."""
        found = self.model_copy()
        found._topics, found._others = tuple(topics), frozenset(others)  # noqa: SLF001 - of the same class
        return found

    def would_take(self, topic: str) -> bool:
        """Whether a topic that was made since `resolve_tables` was asked is one of `topics` from the next time on."""
        return bool(self._topics) and topic not in self._others and fnmatch.fnmatchcase(topic, self.topic)

    def key_in_rows(self, key: Iterable[str]) -> list[str]:
        """The columns of a mirror's key that its rows have at the source: all but the one that tells servers apart."""
        return [name for name in key if name != self.shard]

    def known_key(self, stored: Iterable[str] = ()) -> list[str]:
        """The columns of the key before anything was read: those of the mirror that is there, else those of `key`."""
        return self.key_in_rows(stored) or [self.final_names.get(name, name) for name in self.key]

    @property
    def mirror(self) -> TableName:
        """The mirror's name; raises InvalidName for a glob that `resolve_tables` has not been asked about."""
        return self.given_mirror or TableName.from_topic(self.topic)

    @model_validator(mode="after")
    def _check_mirror(self) -> Self:
        try:
            _ = self.is_glob or self.mirror
        except InvalidName as error:
            raise refusal(
                f"has a topic that gives no name for a mirror: {error.what.rstrip('.')}", "Add its `mirror`."
            ) from error
        return self

    @model_validator(mode="after")
    def _check_shard(self) -> Self:
        if self.shard is not None and (self.given_mirror is None or _ONE_STAR.fullmatch(self.topic) is None):
            raise refusal(
                "has `shard` and not both a `topic` with one `*` and a `mirror`",
                "Name the topics by a glob such as `shop_*.public.orders`, and the `mirror` that all of them go to.",
            )
        if self.shard is not None and (self.shard.lower().startswith("__cdc") or self.shard in self.key):
            raise refusal(
                "has a `shard` that is no name for a new column",
                "Leave it out of `key`, and begin it with other signs.",
            )
        if self.shard is not None and self.snapshot_sweep:
            raise refusal("has `snapshot_sweep` with `shard`, which is not available in this version", "Leave one out.")
        return self

    @field_validator("source_table")
    @classmethod
    def _check_source_table(cls, table: str | None) -> str | None:
        if table is not None and [part != "" for part in table.split(".")] != [True, True]:
            raise refusal("must be two names with a dot between them", "Write it like `public.orders`.")
        return table

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, topic: str) -> str:
        if _TOPIC.fullmatch(topic) is None:
            raise refusal(
                "is no name that a Kafka topic can have", "Use letters, digits, `.`, `_` and `-`, or a glob of them."
            )
        return topic
