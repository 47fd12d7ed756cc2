"""Everything that can go wrong, as one tree; each error knows its exit code.

CdcError                          70  a bug of ours
  x InvariantBroken               70  something that must always hold does not
  x UsageError                     2  the command or its configuration cannot be followed
    + ConfigError                     pipeline.yaml is missing, malformed or contradicts itself
    + InvalidName                     a table or column name that may not be used
    + ContractInvalid                 a contract file that cannot be followed
    + JavaMissing                     no Java, or one that Spark cannot run on
    + JarsUnavailable                 the Java libraries are neither cached nor downloadable
    + SchemaRefused                   a source schema that no table can be made from
      - DuplicateColumn               DUPLICATE_COLUMN: two columns differ only in case
  x SourceUnavailable              3  the broker or the recorded topics cannot be read
    + BrokerUnreachable               no broker can be asked of any topic
    + TopicMissing                    the topic does not exist
    + RegistryUnavailable             the schema registry cannot be asked
    + DatabaseUnavailable             a source database cannot be asked (`verify --source`)
    + SourceBehind                    a mirror has not come up to what `verify` holds it against
    + TimeOver                        a deadline came before what was wanted had been begun or asked
  x LakeUnavailable                4  the catalog or the warehouse cannot be used
    + CommitConflict                  another writer committed first
    + SparkEnded                      Spark's Java process is gone, or was told to stop
  x BatchBlocked                   5  the batch may not be published
    + ContractBlocked                 CONTRACT: a rule with the action `block` failed
      - RuleNotJudged                 CONTRACT: a rule fails at a row instead of judging it
      - TableRuleBroken               CONTRACT: what the batch would make of the table breaks a rule about it
    + SchemaIncompatible              SCHEMA_INCOMPATIBLE: a type changed, under `incompatible_schema: stop`
    + OutOfRange                      OUT_OF_RANGE: a value does not fit, under `special_values: stop`
  x SourceRewound                  6  the source lost or rewound data
    + OffsetGap                       OFFSET_GAP: messages left the topic before they were read
    + OffsetRegression                OFFSET_REGRESSION: the topic ends before what was already read
    + PositionRegression              POSITION_REGRESSION: the database went back behind what was read
    + TruncateStopped                 a truncate, under `truncate: stop`
    + SchemaReplaced                  a schema's name has another schema than messages were decoded by
  x CommitUnknown                  7  whether a commit happened cannot be told
  x DifferenceFound                8  `verify` or `replay` found a difference

Exit codes are those of design section 4.1, violation codes those of section 4.5.
Messages name what, where, why and what to do; they never carry a row's values.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import ClassVar

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_SOURCE = 3
EXIT_LAKE = 4
EXIT_BLOCKED = 5
EXIT_REWOUND = 6
EXIT_UNKNOWN = 7
EXIT_DIFFERENCE = 8
EXIT_BUG = 70

#: Which exit code wins when several tables end differently: the first of these that occurred.
EXIT_CODES_WORST_FIRST = (
    *(EXIT_BUG, EXIT_UNKNOWN, EXIT_REWOUND, EXIT_BLOCKED),
    *(EXIT_LAKE, EXIT_SOURCE, EXIT_USAGE, EXIT_DIFFERENCE),
)


class Handling(Enum):
    """What becomes of a message that earned a violation code (design section 4.5)."""

    HELD = "held"
    """The row stays at its last good version, the message stays in raw, the batch goes on."""
    PUBLISHED = "published"
    """The row is published and the violation is reported; with `strict: true` it is held."""
    STOP = "stop"
    """Nothing is written to that mirror; other tables go on."""


#: Stands for the rule in quarantine and reports where a batch would hold more than its contract allows.
MAX_QUARANTINED = "max_quarantined"
#: In place of a rule's action in quarantine: it cannot be judged, so that nothing is published; or it is only tried.
UNJUDGED, TRIED_UNJUDGED = "unjudged", "shadow_unjudged"


class Code(StrEnum):
    """Every violation code that a quarantine row, a report or an error can carry (design section 4.5)."""

    UNDECODABLE = "UNDECODABLE"
    SCHEMA_UNKNOWN = "SCHEMA_UNKNOWN"
    UNKNOWN_OP = "UNKNOWN_OP"
    KEY_NULL = "KEY_NULL"
    KEY_VALUE_MISMATCH = "KEY_VALUE_MISMATCH"
    KEY_COLLISION = "KEY_COLLISION"
    SCHEMA_INCOMPATIBLE = "SCHEMA_INCOMPATIBLE"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    CONTRACT = "CONTRACT"
    UNAVAILABLE_NO_BASE = "UNAVAILABLE_NO_BASE"
    ORDER_AMBIGUOUS = "ORDER_AMBIGUOUS"
    TRUNCATE_UNORDERED = "TRUNCATE_UNORDERED"
    SNAPSHOT_UNRECONCILED = "SNAPSHOT_UNRECONCILED"
    OFFSET_GAP = "OFFSET_GAP"
    OFFSET_REGRESSION = "OFFSET_REGRESSION"
    POSITION_REGRESSION = "POSITION_REGRESSION"
    DUPLICATE_COLUMN = "DUPLICATE_COLUMN"

    @property
    def handling(self) -> Handling:
        """What becomes of the message when no setting says otherwise."""
        return _MEANINGS[self][0]

    @property
    def explanation(self) -> str:
        """One sentence for people who meet the code in a report."""
        return _MEANINGS[self][1]


_MEANINGS: dict[Code, tuple[Handling, str]] = {
    Code.UNDECODABLE: (Handling.HELD, "The bytes of the key or the value cannot be decoded."),
    Code.SCHEMA_UNKNOWN: (
        Handling.HELD,
        "The registry does not know the schema the message names; every run tries it again.",
    ),
    Code.UNKNOWN_OP: (Handling.HELD, "The message carries an operation that its format does not define."),
    Code.KEY_NULL: (
        Handling.HELD,
        "The message has no key, or a null in it, and the table's `key` setting names no columns to use instead.",
    ),
    Code.KEY_VALUE_MISMATCH: (Handling.HELD, "The Kafka key and the row image name different rows."),
    Code.KEY_COLLISION: (
        Handling.HELD,
        "Another source table has a live row with the same key in the mirror, and nothing tells the two rows apart.",
    ),
    Code.SCHEMA_INCOMPATIBLE: (
        Handling.HELD,
        "A column's type changed and the value does not fit the type that the mirror has.",
    ),
    Code.OUT_OF_RANGE: (Handling.HELD, "A value is beyond what the mirror's type can hold."),
    Code.CONTRACT: (Handling.HELD, "The row breaks a rule of the table's contract."),
    Code.UNAVAILABLE_NO_BASE: (
        Handling.PUBLISHED,
        "The source left an unchanged column out and no earlier version of the row is known; the column is NULL.",
    ),
    Code.ORDER_AMBIGUOUS: (
        Handling.PUBLISHED,
        "Nothing but the record's timestamp says which of two changes of one row came last.",
    ),
    Code.TRUNCATE_UNORDERED: (
        Handling.PUBLISHED,
        "A truncate cannot be put in order with rows of other partitions, so it is not applied to them.",
    ),
    Code.SNAPSHOT_UNRECONCILED: (
        Handling.PUBLISHED,
        "Where a snapshot begins or ends, or what it shows, is not known, so no row is taken for deleted.",
    ),
    Code.OFFSET_GAP: (Handling.STOP, "Messages left the topic before they were read."),
    Code.OFFSET_REGRESSION: (Handling.STOP, "The topic ends before what was already read: it was made again or cut."),
    Code.POSITION_REGRESSION: (
        Handling.STOP,
        "The source database streams from a position behind the one already read: it was restored or replaced.",
    ),
    Code.DUPLICATE_COLUMN: (
        Handling.STOP,
        "Two columns of the source have names that differ only in upper and lower case.",
    ),
}


class CdcError(Exception):
    """Root of every error this package raises on purpose.

    Args:
        what: what happened, where and why; one or two sentences without a row's values.
        do: what to do about it; one sentence.

    The process ends with ``exit_code``; ``code`` is the violation code (design section 4.5) where the
    error stops a table for one. ``retryable`` says that the same step may be tried again at once, within the
    same command, and can succeed then; see `retry`.
    """

    exit_code: ClassVar[int] = EXIT_BUG
    code: ClassVar[str | None] = None
    retryable: ClassVar[bool] = False

    def __init__(self, what: str, do: str) -> None:
        """Keep both halves of the message apart for machines and joined for people."""
        super().__init__(what, do)
        self.what = what
        self.do = do

    def __str__(self) -> str:
        """Say what happened, then what to do."""
        return f"{self.what} {self.do}"


class InvariantBroken(CdcError):
    """Raised when something that must always hold does not; always a bug, never a user's mistake."""


class UsageError(CdcError):
    """Raised when the command or its configuration cannot be followed."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """Raised when pipeline.yaml is missing, malformed or contradicts itself."""


class InvalidName(UsageError):
    """Raised for a table or column name that may not be used."""


class ContractInvalid(UsageError):
    """Raised for a contract file that cannot be followed."""


class JavaMissing(UsageError):
    """Raised when there is no Java, or one that Spark cannot run on."""


class JarsUnavailable(UsageError):
    """Raised when the Java libraries are neither in the cache nor to be had."""


class SchemaRefused(UsageError):
    """Raised for a source schema that no table can be made from."""


class DuplicateColumn(SchemaRefused):
    """Raised when two columns of a source have names that differ only in case."""

    code = Code.DUPLICATE_COLUMN


class SourceUnavailable(CdcError):
    """Raised when the broker or the recorded topics cannot be read."""

    exit_code = EXIT_SOURCE


class BrokerUnreachable(SourceUnavailable):
    """Raised when no broker can be asked: of another topic there is no more to be learned."""


class TopicMissing(SourceUnavailable):
    """Raised when a topic does not exist."""


class RegistryUnavailable(SourceUnavailable):
    """Raised when the schema registry cannot be asked."""


class DatabaseUnavailable(SourceUnavailable):
    """Raised when a source database cannot be asked."""


class SourceBehind(SourceUnavailable):
    """Raised when a mirror that is to be proven has not come up to what it is held against: it waits for a run."""


class TimeOver(SourceUnavailable):
    """Raised where a deadline of the caller's came first; nothing is wrong, and the next time goes on."""


class LakeUnavailable(CdcError):
    """Raised when the catalog or the warehouse cannot be used."""

    exit_code = EXIT_LAKE


class CommitConflict(LakeUnavailable):
    """Raised when another writer committed first; nothing of ours was published, and it can be planned anew."""

    retryable = True


class SparkEnded(LakeUnavailable):
    """Raised when Spark ended while it was used; every table of the command stops then."""


class BatchBlocked(CdcError):
    """Raised when a batch may not be published; nothing of it was."""

    exit_code = EXIT_BLOCKED


class ContractBlocked(BatchBlocked):
    """Raised when a contract rule with the action `block` failed.

    Args:
        what, do: what happened, and what to do.
        rules: the names of those broken rules that no message carries, because they are about the batch or the table.
        unjudged: likewise, the names of rules that cannot be judged.
    """

    code = Code.CONTRACT

    def __init__(self, what: str, do: str, rules: tuple[str, ...] = (), unjudged: tuple[str, ...] = ()) -> None:
        """Keep the names of the rules beside the sentences."""
        super().__init__(what, do)
        self.rules, self.unjudged = rules, unjudged


class RuleNotJudged(ContractBlocked):
    """Raised when a rule about rows fails at one instead of judging it: a cast that a value does not allow, say."""

    def __init__(self, mirror: str, why: Mapping[str, str]) -> None:
        """Say which rules fail, and by what."""
        named = ", ".join(f"{name} cannot be judged ({reason})" for name, reason in sorted(why.items()))
        what = f"The contract of {mirror} lets nothing pass: {named}. Raw has the messages; the mirror was not changed."
        test = f"`cdcm contract test --table {mirror}`"
        do = f"Mend the rule so that it can judge every row, try it with {test}, and run again."
        super().__init__(what, do, unjudged=tuple(sorted(why)))


class TableRuleBroken(ContractBlocked):
    """Raised when what a batch would make of a mirror, or a replay has made, breaks a rule about the whole table."""

    def __init__(self, mirror: str, broken: tuple[str, ...], unjudged: Mapping[str, str], made: str = "batch") -> None:
        """Say which rules are broken, and why others cannot be judged, by what was made: a `batch`, or a `replay`."""
        found = [f"{', '.join(broken)} would not hold for the whole table"] if broken else []
        found += [f"{name} cannot be judged ({why})" for name, why in unjudged.items()]
        what = f"The contract of {mirror} blocks the {made}: {'; '.join(found)}."
        do = f"See `cdcm report --table {mirror}`, mend the data or the rule, and run again."
        super().__init__(f"{what} Raw has the messages; the mirror was not changed.", do, broken, tuple(unjudged))


class SchemaIncompatible(BatchBlocked):
    """Raised when a type changed under `incompatible_schema: stop`."""

    code = Code.SCHEMA_INCOMPATIBLE


class OutOfRange(BatchBlocked):
    """Raised when a value does not fit its type under `special_values: stop`."""

    code = Code.OUT_OF_RANGE


class SourceRewound(CdcError):
    """Raised when the source lost or rewound data; a person has to decide.

    Args:
        what, do: what happened, and what to do.
        place: partition and offset at which it shows, where there is one.
    """

    exit_code = EXIT_REWOUND

    def __init__(self, what: str, do: str, place: tuple[int, int] | None = None) -> None:
        """Keep the place beside the sentences."""
        super().__init__(what, do)
        self.place = place


class OffsetGap(SourceRewound):
    """Raised when messages left the topic before they were read."""

    code = Code.OFFSET_GAP


class OffsetRegression(SourceRewound):
    """Raised when a topic ends before what was already read from it."""

    code = Code.OFFSET_REGRESSION


class PositionRegression(SourceRewound):
    """Raised when the source database streams from behind the recorded position."""

    code = Code.POSITION_REGRESSION


class TruncateStopped(SourceRewound):
    """Raised when a truncate arrives under `truncate: stop`."""


class SchemaReplaced(SourceRewound):
    """Raised when the registry has another schema by a name than the one that messages were decoded by."""


#: What a mirror stops for while nothing is wrong with its topic, which raw goes on landing.
STOPS_OF_MIRRORS = (RegistryUnavailable, UsageError, BatchBlocked, PositionRegression, TruncateStopped, SchemaReplaced)


class CommitUnknown(CdcError):
    """Raised when the outcome of a commit cannot be told; running again settles it."""

    exit_code = EXIT_UNKNOWN


class DifferenceFound(CdcError):
    """Raised when `verify` or `replay` found a difference."""

    exit_code = EXIT_DIFFERENCE


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of a run whose parts ended with ``codes``: the first of 70, 7, 6, 5, 4, 3, 2, 8, else 0.

    A code that is none of ours counts as a bug (70): a failure must never look like success.
    """
    occurred = {code if code in EXIT_CODES_WORST_FIRST else EXIT_BUG for code in codes if code != EXIT_DONE}
    return next((code for code in EXIT_CODES_WORST_FIRST if code in occurred), EXIT_DONE)
