"""How far a change reaches behind a snapshot: what a position is when rows of snapshots are held against it.

Pure. PostgreSQL's positions begin with the last commit before a transaction, because transactions come in the order of
their commits (changelog-semantics §2.1). A snapshot that reads whole tables knows no commit; its rows have the log's
number alone. Of a change behind such a snapshot the last commit can lie before it, so only its own number counts.
"""

import re

#: A position of two log numbers, whatever epoch and server it is of.
PAIR = r"^((?:~\d+/)?(?:[^@/]*@)?)\d{20}/(\d{20})$"
_PAIR = re.compile(PAIR)


def reach_of(position: str) -> str:
    """The position up to which rows of snapshots come before a change; its own, but for pairs of log numbers."""
    match = _PAIR.fullmatch(position)
    return position if match is None else max(position, f"{match[1]}{match[2]}/{match[2]}")


def is_older(snapshot: str, change: str) -> bool:
    """Whether a snapshot at a position does not have a change.

    SQL Server's and Db2's tell the last commit that they have and no change, so that they have all of its changes.
    """
    return snapshot < reach_of(change) and not _has_commit_of(snapshot, change)


def is_passed(snapshot: str, position: str) -> bool:
    """Whether what is at a position came behind a snapshot: of its own commit it did not."""
    return position > snapshot and not _has_commit_of(snapshot, position)


def _has_commit_of(snapshot: str, change: str) -> bool:
    commit, mark, _ = snapshot.partition("//")
    return bool(mark) and change.startswith(f"{commit}/")
