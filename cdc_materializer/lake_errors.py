"""What Java and Spark throw while tables are read and written, as our own errors, by class and never by text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.errors import CommitConflict, CommitUnknown, LakeUnavailable
from cdc_materializer.names import TableName

_CONFLICT_CLASSES = ("CommitFailedException", "ValidationException", "AlreadyExistsException")
_UNKNOWN_CLASSES = ("CommitStateUnknownException",)


def _java_classes(error: Py4JJavaError | PySparkException) -> Iterator[str]:
    # PySpark gives some Java exceptions, IllegalArgumentException among them, as its own, and keeps Java's behind them.
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        yield cause.getClass().getSimpleName()
        cause = cause.getCause()


def publish_error(name: TableName, error: Py4JJavaError | PySparkException) -> Exception:
    """What a commit that failed means for us: another writer, an unknown outcome, or a lake that cannot be used."""
    classes = list(_java_classes(error)) or [type(error).__name__]
    if any(found in _UNKNOWN_CLASSES for found in classes):
        what = f"Whether the commit to {name} happened cannot be told: the catalog's answer was lost."
        return CommitUnknown(what, f"Nothing was deleted. Look at the snapshots of {name}, then run again.")
    if any(found in _CONFLICT_CLASSES for found in classes) or "IllegalArgumentException" in classes:
        what = f"Another writer committed to {name} first; this batch was not published."
        return CommitConflict(what, "Run again: it will be planned on the new head. One process should write a table.")
    return LakeUnavailable(f"The commit to {name} failed ({classes[0]}).", "Check the catalog, then run again.")


@contextmanager
def translated(name: TableName | str) -> Iterator[None]:
    """Turn what Java and Spark throw while a table is read or staged into our errors, without their texts.

    Raises:
        CommitConflict: another writer changed the table.
        LakeUnavailable: anything else that the catalog, the warehouse or a job on them answers.
    """
    try:
        yield
    except Py4JJavaError as error:
        classes = list(_java_classes(error))
        if any(found in _CONFLICT_CLASSES for found in classes):
            what = f"Another writer changed {name} while this batch was being staged."
            raise CommitConflict(what, "Nothing was published; run again. One process should write a table.") from error
        what = f"{_subject(name)} cannot be read or written ({classes[-1]})."
        raise LakeUnavailable(what, "Check that the catalog and the warehouse can be reached and have room.") from error
    except PySparkException as error:
        what = f"{_subject(name)} cannot be read or written ({error.getCondition() or type(error).__name__})."
        raise LakeUnavailable(what, "See --debug for Spark's own words.") from error


def _subject(name: TableName | str) -> str:
    return name if isinstance(name, str) else f"Table {name}"
