"""What Java and Spark throw while tables are read and written, as our own errors, by class and never by text.

One table of meanings. The whole chain of causes is looked at, and the first meaning that has one of its classes counts:
an outcome that cannot be told goes before everything that might be concluded from the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkAttributeError, PySparkException, PySparkTypeError, PySparkValueError

from cdc_materializer.causes import java_classes
from cdc_materializer.errors import CdcError, CommitConflict, CommitUnknown, InvariantBroken, LakeUnavailable
from cdc_materializer.names import TableName

_REACHED = "Check that the catalog and the warehouse can be reached and have room, then run again."


@dataclass(frozen=True)
class Meaning:
    """What some Java classes mean for us.

    Attributes:
        classes: simple names.
        error: which of our errors it is; with it come the exit code and whether it may be tried again.
        what: a sentence with `{subject}`, and for conflicts `{writer}`.
        do: the remedy.
    """

    classes: frozenset[str]
    error: Callable[[str, str], CdcError]
    what: str
    do: str


UNKNOWN = Meaning(
    frozenset({"CommitStateUnknownException"}),
    CommitUnknown,
    "{subject}: whether the commit happened cannot be told, because the catalog's answer was lost.",
    "Nothing was deleted. Look at the snapshots of the table, then run again.",
)
MEANINGS = (
    UNKNOWN,
    Meaning(
        # Iceberg says with the last two that a branch is gone, or that `main` is no ancestor of it any more.
        frozenset(
            {
                *("CommitFailedException", "ValidationException", "AlreadyExistsException"),
                *("TableAlreadyExistsException", "IllegalArgumentException"),
            }
        ),
        CommitConflict,
        "{subject}: another writer was first ({writer}); nothing of this batch was published.",
        "Run again: it will be planned on the new head. One process should write a table.",
    ),
    Meaning(
        frozenset({"NotAuthorizedException", "ForbiddenException", "AccessDeniedException", "AccessControlException"}),
        LakeUnavailable,
        "{subject} may not be read or written with these credentials.",
        "Check the catalog's credentials, and what they are allowed to do with the warehouse.",
    ),
    Meaning(
        frozenset(
            {
                *("ServiceUnavailableException", "ServiceFailureException", "RESTException", "ConnectException"),
                *("SocketTimeoutException", "UnknownHostException", "HttpHostConnectException", "UncheckedIOException"),
            }
        ),
        LakeUnavailable,
        "{subject} cannot be read or written: the catalog or the warehouse does not answer.",
        _REACHED,
    ),
    Meaning(
        frozenset({"UncheckedSQLException", "SQLException", "SQLiteException"}),
        LakeUnavailable,
        "{subject} cannot be read or written: the catalog's database refuses.",
        "Check that it has room, may be written to and is not kept locked by another process, then run again.",
    ),
    Meaning(
        # Spark's planner; no lake answers so, and trying again would go on for ever.
        frozenset({"AssertionError"}),
        InvariantBroken,
        "{subject}: an assertion of Spark's own failed; nothing of this batch was published.",
        "Report this as a bug, with what --debug shows.",
    ),
)
#: These count only where the answer is to a commit that readers see. Spark's planner uses the first for mistakes, and
#: whether something is on a staging branch that is dropped anyway concerns nobody.
_OF_COMMITS = frozenset({"IllegalArgumentException", "CommitStateUnknownException"})
#: PySpark throws these before Java is asked anything.
_CALLS = (PySparkTypeError, PySparkValueError, PySparkAttributeError)
#: There was no connection by which a commit could have been sent.
_NEVER_SENT = frozenset(
    {
        *("ConnectException", "ConnectTimeoutException", "HttpHostConnectException", "UnknownHostException"),
        *("NoRouteToHostException", "SSLHandshakeException", "ConnectionRequestTimeoutException"),
    }
)
#: There was one, and it ended or grew silent.
_CUT_OFF = frozenset(
    {
        *("SocketTimeoutException", "SocketException", "EOFException", "SSLException", "InterruptedIOException"),
        *("SQLTransientConnectionException", "SQLNonTransientConnectionException", "SQLRecoverableException"),
        *("SQLTimeoutException", "CommunicationsException"),
    }
)
#: Nothing of the lake can be had then, whatever is asked for.
_UNREACHED = (
    _NEVER_SENT
    | _CUT_OFF
    | frozenset({"ServiceUnavailableException", "UncheckedSQLException", "SQLException", "SQLiteException"})
)


def is_unreached(error: CdcError) -> bool:
    """Whether an error of ours says that the catalog answers nobody, as it would for any other table."""
    return error.__cause__ is not None and not _UNREACHED.isdisjoint(java_classes(error.__cause__))


def _is_unanswered(classes: Sequence[str]) -> bool:
    """Whether a commit may have reached the catalog, and no answer came back.

    Iceberg says so itself where a server has answered that it is in trouble. A connection that ends is to its clients
    an error like any other; of the warehouse's it is one: nothing was asked of the catalog then.
    """
    if _NEVER_SENT & set(classes):
        return False
    # Without a cause it is an answer that says no.
    is_rest = "RESTException" in classes[:-1]
    is_sql = "UncheckedSQLException" in classes and not _CUT_OFF.isdisjoint(classes)
    return is_rest or is_sql or "TTransportException" in classes


def lake_error(name: TableName | str, error: Exception, writer: str | None = None) -> CdcError:
    """What an error means for us.

    Args:
        name: the table, or a subject as words.
        error: what was thrown.
        writer: who has written to the table last, where the error answers a commit that readers see; None elsewhere.
    """
    classes = java_classes(error)
    met = frozenset(classes) - (_OF_COMMITS if writer is None else frozenset())
    if writer is not None and _is_unanswered(classes):
        met |= UNKNOWN.classes
    subject = name if isinstance(name, str) else f"Table {name}"
    for meaning in MEANINGS:
        if meaning.classes & met:
            told = meaning.what.format(subject=subject, writer=writer or "while this batch was being staged")
            return meaning.error(told, meaning.do)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    cause = condition or (classes[-1] if classes else type(error).__name__)
    if isinstance(error, _CALLS) and not classes:
        what = f"{subject}: PySpark was called in a way that it refuses ({cause}); nothing of this batch was published."
        return InvariantBroken(what, "Report this as a bug, with what --debug shows.")
    return LakeUnavailable(f"{subject} cannot be read or written ({cause}).", f"{_REACHED} --debug shows the cause.")


@contextmanager
def translated(name: TableName | str) -> Iterator[None]:
    """Turn what Java and Spark throw while a table is read or staged into our errors, without their texts.

    Raises:
        CommitConflict: another writer changed the table.
        LakeUnavailable: anything else that the catalog, the warehouse or a job on them answers.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise lake_error(name, error) from error
