"""Where the source says a change happened, as text that sorts as the database orders (changelog-semantics §2.1).

Numbers are padded, so that comparing texts compares numbers: `99` stands before `100`. Only hexadecimal log numbers of
fixed width stay as they are. A connector that is not listed gives NULL, as does one that leaves a part out: its changes
are ordered by Kafka offset alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes.source_fields import OF_DOCUMENTS, OWN_FIELDS, RANK_FIELDS, SOURCE_FIELDS
from cdc_materializer.names import quote

_BINLOG = ("mysql", "mariadb")
#: What the names of logs begin with: those whose transactions have ids, and series of files.
GTID_LOG, FILE_LOG = "gtid:", "file:"
_LONG_DIGITS = 20
_ROW_DIGITS = 10
#: PostgreSQL's `sequence`: a list in JSON of two numbers, as texts, each of which can be null.
_SEQUENCE = r"^\s*\[\s*(?:null|\"?(\d+)\"?)\s*(?:,\s*(?:null|\"?(\d+)\"?)\s*)?[],]"
#: A binlog's file, and the ids of transactions: a server's uuid (and tag), or MariaDB's domain, and the number in it.
#: Other texts are none, since the marker keeps each log.
_FILE = r"^(.*)\.(\d+)$"
_MYSQL_GTID = r"(?i)^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[a-z_][a-z0-9_]{0,31})?):(\d{1,18})\z"
_MARIADB_GTID = r"^(0|[1-9]\d{0,9})-\d{1,10}-(\d{1,18})\z"
#: SQL Server's and Db2's: hexadecimal numbers with colons between them; and what a position has behind the commit's.
_LSN = "^[0-9A-Fa-f]++(:[0-9A-Fa-f]++)++$"
_IN_COMMIT = r"(:[0-9a-f]+)/[0-9a-f:]*/\d+$"
#: A connector's version.
_VERSION = r"^(\d+)\.(\d+)\."
#: Oracle's system change numbers can be longer than a 64-bit number.
_SCN_DIGITS = 40
#: A position of Oracle's without a number in its SCN.
_UNNUMBERED = rf"\d{{{_SCN_DIGITS}}}/\d{{{_ROW_DIGITS}}}/\d{{{_SCN_DIGITS}}}/0{{{_LONG_DIGITS}}}$"
#: Positions of one change each, behind their epoch and server.
_OF_ONE = r"^(?:~\d+/)?(?:[^@/]*@)?(?:\d{20}/(?!0{20}$)\d{20}|[0-9a-f]++(?::[0-9a-f]++)++/[0-9a-f:]+/\d+)$"
#: Where a change is in what Oracle's XStream sends: bytes that compare. Of the 33 that newer servers write, the
#: first 8 are the number of the commit.
_LCR, _LCR_OF_33 = "^[0-9a-f]+$", "^[0-9a-f]{66}$"
_COMMIT, _CHANGE, _BASE, _FILE_NUMBER = "__cdc_at_commit", "__cdc_at_change", "__cdc_log_base", "__cdc_log_file"
_SERVER, _OF_SERVER, _DOMAIN, _IN_DOMAIN = "__cdc_server", "__cdc_of_server", "__cdc_domain", "__cdc_in_domain"
#: By column: the text of the source block that has it as a part, of which connectors, and as which group of what.
_PARTS: dict[str, tuple[str, tuple[str, ...], str, int]] = {
    _COMMIT: ("sequence", ("postgresql",), _SEQUENCE, 1),
    _CHANGE: ("sequence", ("postgresql",), _SEQUENCE, 2),
    _BASE: ("file", _BINLOG, _FILE, 1),
    _FILE_NUMBER: ("file", _BINLOG, _FILE, 2),
    _SERVER: ("gtid", _BINLOG, _MYSQL_GTID, 1),
    _OF_SERVER: ("gtid", _BINLOG, _MYSQL_GTID, 2),
    _DOMAIN: ("gtid", _BINLOG, _MARIADB_GTID, 1),
    _IN_DOMAIN: ("gtid", _BINLOG, _MARIADB_GTID, 2),
}


#: All that a format may say of a change's place in its source, with the types in which it is wanted.
SAID_FIELDS = SOURCE_FIELDS | RANK_FIELDS | OWN_FIELDS


@dataclass(frozen=True)
class Source:
    """What the messages of some writers say of their source: those of SAID_FIELDS that one of them tells.

    A writer's schema shows which these are. What none of them tells is NULL in all messages: it takes no place in rows,
    and what would be made of it is no part of the plan. Of eight kinds of positions one is left as a rule.

    Attributes:
        struct: a struct with a field for each.
        fields: their names.
    """

    struct: Column
    fields: frozenset[str]

    @classmethod
    def told_by(cls, struct: Column, said: Iterable[Mapping[str, Column]]) -> Source:
        """The source of messages of which some writers say this much, as a struct column with these fields."""
        # Which connector it is is always asked; without one there are no positions.
        fields = frozenset({"connector"}.union(*said))
        return cls(struct, fields if "ord" in fields else fields - OF_DOCUMENTS)

    def __getitem__(self, name: str) -> Column:
        """A field; NULL where no writer tells it."""
        return self.struct[name] if name in self.fields else F.lit(None).cast(SAID_FIELDS[name])

    def part(self, name: str) -> Column:
        """A column of `with_parts`; NULL where no writer tells what it is a part of."""
        return F.col(name) if self.has_part(name) else F.lit(None).cast("string")

    def has_part(self, name: str) -> bool:
        """Whether `with_parts` makes a column."""
        return _PARTS[name][0] in self.fields

    @property
    def ddl(self) -> str:
        """The type of the struct."""
        fields = [f"{quote(name)}:{ddl}" for name, ddl in SAID_FIELDS.items() if name in self.fields]
        return f"struct<{','.join(fields)}>"

    def of(self, said: Mapping[str, Column]) -> Column:
        """The struct, of what one writer says."""
        unknown = sorted(said.keys() - SAID_FIELDS.keys())
        if unknown:
            message = f"a format tells of a source what nothing reads: {', '.join(unknown)}"
            raise AssertionError(message)
        fields = {name: ddl for name, ddl in SAID_FIELDS.items() if name in self.fields}
        parts = {
            name: said[name].try_cast(ddl) if name in said else F.lit(None).cast(ddl) for name, ddl in fields.items()
        }
        return F.struct(*[part.alias(name) for name, part in parts.items()])


def with_parts(frame: DataFrame, source: Source) -> DataFrame:
    """Add the columns that `position` and `log` look at: parts of the texts of a source block, NULL or empty for none.

    In a projection of their own: an expression would be searched for anew wherever one is looked at, six times a
    message of PostgreSQL's.
    """

    def part(text: str, connectors: Sequence[str], pattern: str, group: int) -> Column:
        return F.when(source["connector"].isin(*connectors), F.regexp_extract(source[text], pattern, group))

    return frame.withColumns({name: part(*told) for name, told in _PARTS.items() if source.has_part(name)})


def position(source: Source) -> Column:
    """The position of a change, in a frame with `with_parts`."""
    found = F.lit(None).cast("string")
    # The first of the table is asked for first: a message of the last connector would be compared with all the others.
    for connectors, (encode, needed) in reversed(_ENCODINGS.items()):
        if source.fields & needed:
            found = F.when(source["connector"].isin(*connectors), encode(source)).otherwise(found)
    return F.coalesce(source["position"], found)


def moment(position: Column, log: Column) -> Column:
    """What of a position orders changes; the rest only tells them apart.

    Of a binlog's not the number of the row, which MySQL counts anew in each statement of a compressed transaction. Of
    SQL Server's the commit: in one of those, changes come in the order of their commands (`__$command_id`), which no
    message tells, and their own numbers (`__$seqval`) are in another.

    Args:
        position: from `position`.
        log: from `log`, which only binlogs have.
    """
    event = F.substring(position, F.lit(1), F.length(position) - F.lit(_ROW_DIGITS + 1))
    commit = F.regexp_replace(position, _IN_COMMIT, "$1")
    return F.when(log.isNotNull(), event).when(F.contains(position, F.lit(":")), commit).otherwise(position)


def is_of_several(position: Column) -> Column:
    """Whether changes of several rows may have a position: Oracle's, where nothing numbers those of one SCN (§2.1).

    Args:
        position: from `position`, with an epoch before it or without.
    """
    return position.rlike(_UNNUMBERED)


def has_own_place(position: Column) -> Column:
    """As `is_of_one`, of a column."""
    return F.coalesce(position.rlike(_OF_ONE), F.lit(False))


def is_of_one(position: str) -> bool:
    """Whether each change has a place of its own where there are positions like this one.

    PostgreSQL's, Informix's that tell a change's number, and SQL Server's and Db2's are; of a compressed transaction
    all have one in a binlog, one SCN of Oracle's and one count of MongoDB's oplog have many, and of others nobody says.
    """
    return re.fullmatch(_OF_ONE, position) is not None


def numbers_count(source: Source) -> Column:
    """Whether what a change's transaction counts it as tells it from others at its place; else a place is of one.

    A connector that begins anew in the middle of a transaction counts from one again, so that the number of a change
    that is sent once more is another one.
    """
    return ~has_own_place(position(source))


def file_name(position: str) -> str:
    """As `file_of`, of a position at hand."""
    return position[: -(_LONG_DIGITS + _ROW_DIGITS + 2)]


def file_of(position: Column) -> Column:
    """The file of a binlog that a position is in; all of a transaction is in one.

    Args:
        position: from `position`, of a source that has logs.
    """
    return F.substring(position, F.lit(1), F.length(position) - F.lit(_LONG_DIGITS + _ROW_DIGITS + 2))


def log(source: Source) -> tuple[Column, Column]:
    """The log of MySQL's or MariaDB's that a change was read from, and the number of its transaction there.

    Of a frame with `with_parts`.

    With GTIDs the log is the server's uuid (and tag) or MariaDB's domain, whose numbers only rise, whichever server
    sends them; a change with a number that was not seen is new, wherever its file and place are. Without them it is
    the series of files, and another one cannot be told from a server that was restored (§0.2 "MySQL").

    Returns:
        Two columns, text and number: `gtid:<uuid>` or `gtid:<domain>`, and the number; `file:<base>`, and NULL; both
        NULL for other sources.
    """
    of_server, in_domain, base = source.part(_OF_SERVER), source.part(_IN_DOMAIN), source.part(_BASE)
    name = (
        F.when(of_server != "", F.concat(F.lit(GTID_LOG), F.lower(source.part(_SERVER))))
        .when(in_domain != "", F.concat(F.lit(GTID_LOG), source.part(_DOMAIN)))
        .when(base != "", F.concat(F.lit(FILE_LOG), base))
    )
    return name, F.when(of_server != "", of_server).when(in_domain != "", in_domain).cast("bigint")


def source_table(source: Source) -> Column:
    """The table that a change comes from, `database.schema.table` or what the source has of that; NULL for none."""
    table = F.nullif(source["table"], F.lit(""))
    return F.when(table.isNotNull(), F.concat_ws(".", source["db"], source["schema"], table))


def snapshot_place(source: Source) -> Column:
    """What a record of a snapshot that reads whole tables says of its place in it (§1.5); NULL for all others."""
    marker = F.lower(source["snapshot"])
    return F.when(~marker.isin("false", "", "incremental"), marker)


def _postgresql(source: Source) -> Column:
    # sequence = ["<LSN of the last commit before>", "<LSN of the change>"]; transactions arrive in commit order while
    # their LSNs interleave, so the first decides (§2.1).
    # A transaction's own commit, where a connector tells it (debezium#7764), is in the same order, before as after it
    # begins to: the last commit before a later transaction is this one's or a later one's.
    # A parser of JSON would be a fifth of what decoding takes: Spark makes a new one, with buffers, for each field.
    commit, change = _padded(source.part(_COMMIT)), _padded(source.part(_CHANGE))
    if "commit_lsn" in source.fields:
        commit = F.coalesce(_number(source["commit_lsn"]), commit)
    lsn = F.coalesce(change, _number(source["lsn"].cast("string")))
    return _joined(F.coalesce(commit, lsn), lsn)


def _binlog(source: Source) -> Column:
    # The file's number is compared as a number: mysql-bin.999999 comes before mysql-bin.1000000.
    base, number = source.part(_BASE), source.part(_FILE_NUMBER)
    file = F.when(number != "", F.concat(base, F.lit("."), _padded(number, _ROW_DIGITS)))
    place, row = source["pos"].cast("string"), F.coalesce(source["row"], F.lit(0)).cast("string")
    # The binlog that InnoDB keeps for MariaDB from 12.3 on has no places; a transaction's number in its domain is one.
    domain, sequence = source.part(_DOMAIN), source.part(_IN_DOMAIN)
    is_numbered = F.coalesce(source["file"].endswith(".ibb") & (sequence != ""), F.lit(False))
    file = F.when(is_numbered, F.concat(F.lit("gtid-"), domain)).otherwise(file)
    place = F.when(is_numbered, sequence).otherwise(place)
    return _joined(file, _number(place), _number(row, _ROW_DIGITS))


def _hexadecimal(source: Source) -> Column:
    """SQL Server and Db2: log sequence numbers of fixed width; a change's own is in no order (`moment`)."""
    serial = F.coalesce(source["event_serial_no"], F.lit("0"))
    commit, change = (F.when(lsn.rlike(_LSN), F.lower(lsn)) for lsn in (source["commit_lsn"], source["change_lsn"]))
    return _joined(commit, F.coalesce(change, F.lit("")), _number(serial, _ROW_DIGITS))


def _informix(source: Source) -> Column:
    return _joined(_number(source["commit_lsn"]), _number(F.coalesce(source["change_lsn"], F.lit("0"))))


def _oracle(source: Source) -> Column:
    commit = F.coalesce(source["commit_scn"], source["scn"])
    thread = F.coalesce(source["redo_thread"], F.lit("0"))
    # One SCN has many changes of a transaction. From Debezium 3.2 on they are numbered; `ssn` has been 0 in all.
    number = F.coalesce(source["txSeq"], source["ssn"], F.lit("0"))
    mined = _joined(
        _number(commit, _SCN_DIGITS),
        _number(thread, _ROW_DIGITS),
        _number(F.coalesce(source["scn"], commit), _SCN_DIGITS),
        _number(number),
    )
    # XStream numbers each change. Of the commit connectors before 3.3 tell nothing else.
    lcr = F.lower(source["lcr_position"])
    committed = F.when(lcr.rlike(_LCR_OF_33), F.conv(F.substring(lcr, 1, 16), 16, 10)).otherwise(commit)
    return F.when(lcr.rlike(_LCR), _joined(_number(committed, _SCN_DIGITS), lcr)).otherwise(mined)


def _mongodb(source: Source) -> Column:
    # The oplog's own clock in seconds, and the count within one. From 3.4 on the connector tells the wall clock in its
    # place (DBZ-9683) where it knows that, of servers from 6.0 on. It can be set back, so that it is no order.
    major, minor = (F.regexp_extract(source["version"], _VERSION, part).try_cast("int") for part in (1, 2))
    is_earlier = F.struct(major, minor) < F.struct(F.lit(3), F.lit(4))
    is_of_oplog = major.isNotNull() & (is_earlier | (F.coalesce(source["wallTime"], F.lit(0)) == 0))
    return F.when(is_of_oplog, _joined(_number(source["ts_ms"].cast("string")), _number(source["ord"], _ROW_DIGITS)))


def _spanner(source: Source) -> Column:
    return _joined(
        _number(source["ts_ns"].cast("string")),
        source["server_transaction_id"],
        _number(source["sequence"]),
        _number(F.coalesce(source["mod_number"], F.lit("0")), _ROW_DIGITS),
    )


def _vitess(source: Source) -> Column:
    # Without the ordered metadata a vgtid is all there is, and those of several shards are in no order. Nor are the
    # numbers of the metadata: each shard counts for itself, and a row can move from one to another.
    place = _joined(
        _number(source["transaction_epoch"]),
        _number(source["transaction_rank"], _SCN_DIGITS),
        _number(source["total_order"]),
    )
    # A shard that is one of several is named by its range of keys, `-80`; the only one `0` or `-`.
    is_one_of_several = F.contains(source["shard"], F.lit("-")) & (F.length(source["shard"]) > 1)
    return F.when(~F.coalesce(is_one_of_several, F.lit(False)), place)


def _cockroachdb(source: Source) -> Column:
    # A hybrid logical clock: nanoseconds, a point, and a count for what happened in one of them.
    parts = [F.regexp_extract(source["ts_hlc"], "^(\\d+)(?:\\.(\\d+))?$", part) for part in (1, 2)]
    return _joined(_number(parts[0]), F.when(parts[0] != "", F.lpad(parts[1], _ROW_DIGITS, "0")))


#: By connector: how its positions are made, and the fields without any of which it has none.
_ENCODINGS: dict[tuple[str, ...], tuple[Callable[[Source], Column], frozenset[str]]] = {
    ("postgresql",): (_postgresql, frozenset({"sequence", "lsn"})),
    _BINLOG: (_binlog, frozenset({"file"})),
    ("sqlserver", "db2"): (_hexadecimal, frozenset({"commit_lsn"})),
    ("informix",): (_informix, frozenset({"commit_lsn"})),
    ("oracle",): (_oracle, frozenset({"commit_scn", "scn", "lcr_position"})),
    ("mongodb",): (_mongodb, frozenset({"ord"})),
    ("spanner",): (_spanner, frozenset({"server_transaction_id"})),
    ("cockroachdb",): (_cockroachdb, frozenset({"ts_hlc"})),
    ("vitess",): (_vitess, frozenset({"transaction_epoch"})),
}


def _joined(*parts: Column) -> Column:
    """The parts in the order of their weight; NULL where one is missing."""
    found = parts[0]
    for part in parts[1:]:
        found = F.concat(found, F.lit("/"), part)
    return found


def _padded(digits: Column, width: int = _LONG_DIGITS) -> Column:
    """Digits as text of one width; NULL for none, and for more than that, which would sort anywhere."""
    return F.when(F.length(digits).between(1, width), F.lpad(digits, width, "0"))


def _number(digits: Column, width: int = _LONG_DIGITS) -> Column:
    """The same of a text that may be no number, which is NULL too."""
    return F.when(digits.rlike(f"^\\d{{1,{width}}}$"), F.lpad(digits, width, "0"))
