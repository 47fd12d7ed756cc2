"""Which data files and manifests of a table are worth being written anew. Pure: sizes and counts in, a plan out.

One rule decides: bytes that are read and written, against bytes that readers are spared. A file or a deletion vector
that has to be opened counts as bytes too. Files are chosen as Iceberg's own planner chooses them
(`SizeBasedFileRewritePlanner`), so that what is told is what is done. See `docs/maintenance.md`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: Size that rewritten files are to have where the table does not say one, in bytes.
TARGET_BYTES = 128 * 2**20
#: The table property that says one.
TARGET_PROPERTY = "write.target-file-size-bytes"
#: Larger files are split; what a file that is written may have at most follows from it.
LARGEST_BYTES = 2**30
#: What opening a file costs a reader, as bytes: Iceberg's own weight (`read.split.open-file-cost`).
OPEN_BYTES = 4 * 2**20
#: What finding and applying one deletion vector costs a reader.
VECTOR_BYTES = 2**20
#: What a rewrite costs, however little it rewrites: a Spark job and four commits.
COMMIT_BYTES = 32 * 2**20
#: Fewer small files of one partition are left until there are more.
FILES_MIN = 5
#: What counts as a small file, as shares of the target: the largest share that pays is taken.
SMALL = (0.75, 0.25, 0.06, 0.0)
#: Sort decay is looked at from so many targets on: smaller tables have no files to leave out.
SORTED_TARGETS_MIN = 2
#: Manifests are rewritten from so many on, if half of them can go. Iceberg merges a hundred by itself.
MANIFESTS_MIN = 20
MANIFEST_BYTES = 8 * 2**20


@dataclass(frozen=True)
class DataFile:
    """A data file of the current snapshot.

    Attributes:
        size: in bytes.
        rows: as it was written.
        deleted: how many of them deletion vectors or delete files of its own take away.
        vectors: how many those are.
        partition: what its rows have in common; files are rewritten with others of theirs.
        low, high: the least and the greatest value of the column that the table is sorted by; None where not known.
    """

    size: int
    rows: int
    deleted: int = 0
    vectors: int = 0
    partition: Hashable = ()
    low: Any = None
    high: Any = None

    @property
    def live(self) -> float:
        """Bytes of rows that readers see."""
        return self.size * (1 - self.debt)

    @property
    def debt(self) -> float:
        """Share of its rows that are deleted."""
        return min(self.deleted / self.rows, 1.0) if self.rows else 0.0


@dataclass(frozen=True)
class Compaction:
    """Files that are to be written anew, fewer, without deleted rows.

    Attributes:
        reason: what is the matter with most of them.
        small: files below so many bytes are taken.
        every: whether all files are, because their ranges overlap.
        files, files_after: how many data files are read and, about, written.
        vectors: delete files or deletion vectors that go with them.
        rewritten: bytes that are read.
        saved: bytes that a reader of the table is spared.
    """

    reason: Literal["small files", "deleted rows", "overlapping ranges"]
    small: int
    every: bool
    files: int
    files_after: int
    vectors: int
    rewritten: int
    saved: int

    @property
    def ratio(self) -> float:
        """Bytes rewritten for each byte saved, the cost of the commits included."""
        return (self.rewritten + COMMIT_BYTES) / self.saved if self.saved > 0 else math.inf


def plan_compaction(
    files: Sequence[DataFile], ratio: float, target: int = TARGET_BYTES, *, is_sorted: bool = False
) -> Compaction | None:
    """The rewrite that readers gain most from, of those that pay; None where none does.

    Args:
        files: the data files of the current snapshot.
        ratio: the most bytes that may be rewritten for each byte that readers are spared.
        target: size that rewritten files are to have, in bytes.
        is_sorted: whether the table has an order to be rewritten in.
    """
    tries = [_of_all(files, target) if is_sorted else None]
    tries += [_of_some(files, target, int(target * share), ratio) for share in SMALL]
    return next((found for found in tries if found is not None and found.ratio <= ratio), None)


def _of_some(files: Sequence[DataFile], target: int, small: int, ratio: float) -> Compaction | None:
    """The rewrite of files below a size, and of those with many deleted rows."""
    groups: dict[Hashable, list[DataFile]] = {}
    for found in files:
        if found.size < small or found.size > largest(target) or found.debt >= debt_limit(ratio):
            groups.setdefault(found.partition, []).append(found)
    taken = [group for group in groups.values() if _is_taken(group, target, ratio)]
    if not taken:
        return None
    chosen = [found for group in taken for found in group]
    after = sum(_after(group, target) for group in taken)
    is_small = sum(found.size < small for found in chosen) * 2 >= len(chosen)
    return _compaction("small files" if is_small else "deleted rows", small, chosen, after)


def _is_taken(files: Sequence[DataFile], target: int, ratio: float) -> bool:
    """Whether Iceberg's planner rewrites a group of files; see `BinPackRewriteFilePlanner.filterFileGroups`."""
    size = sum(found.size for found in files)
    is_enough = len(files) > 1 and (len(files) >= FILES_MIN or size > target)
    return is_enough or size > largest(target) or any(found.debt >= debt_limit(ratio) for found in files)


def largest(target: int) -> int:
    """The size from which on a file is split, for files that are to have the target's."""
    return max(LARGEST_BYTES, 2 * target)


def debt_limit(ratio: float) -> float:
    """The share of deleted rows from which on rewriting a file pays by its bytes alone."""
    return min(1 / ratio, 1.0)


def _of_all(files: Sequence[DataFile], target: int) -> Compaction | None:
    """The rewrite of all files in order, for those who look for some rows; None where that cannot help."""
    total = sum(found.size for found in files)
    if total < SORTED_TARGETS_MIN * target:
        return None
    groups: dict[Hashable, list[DataFile]] = {}
    for found in files:
        groups.setdefault(found.partition, []).append(found)
    # Who looks for a row reads one file instead of all that might have it; of each partition, as a rule.
    spared = sum((depth(group) - 1) * sum(f.size for f in group) / len(group) for group in groups.values())
    after = sum(_after(group, target) for group in groups.values())
    if spared <= 0:
        return None
    return _compaction("overlapping ranges", 0, files, after, every=True, spared=spared)


def _after(files: Sequence[DataFile], target: int) -> int:
    return max(math.ceil(sum(found.live for found in files) / target), 1)


def _compaction(
    reason: Literal["small files", "deleted rows", "overlapping ranges"],
    small: int,
    files: Sequence[DataFile],
    after: int,
    *,
    every: bool = False,
    spared: float = 0.0,
) -> Compaction:
    vectors = sum(found.vectors for found in files)
    dead = sum(found.size - found.live for found in files)
    saved = (len(files) - after) * OPEN_BYTES + vectors * VECTOR_BYTES + dead + spared
    size = sum(found.size for found in files)
    return Compaction(reason, small, every, len(files), after, vectors, size, int(saved))


def depth(files: Sequence[DataFile]) -> float:
    """In how many files' ranges a value of the sorted column lies, on average: 1 where none overlap, or none is known.

    Asked right behind the beginning of each range and right before its end. Files that have one value in common, and
    nothing else, do not overlap: where a column has few values, no order takes it out of all files but one. A file of
    one value, or of which no range is known, overlaps with none.
    """
    known = [found for found in files if found.low is not None and found.high is not None]
    if not known:
        return 1.0
    lows, highs = sorted(found.low for found in known), sorted(found.high for found in known)
    wide = [found for found in known if found.low != found.high]
    behind = sum(bisect_right(lows, found.low) - bisect_right(highs, found.low) for found in wide)
    before = sum(bisect_left(lows, found.high) - bisect_left(highs, found.high) for found in wide)
    return (behind + before + 2 * (len(known) - len(wide))) / (2 * len(known))


def plan_manifests(sizes: Sequence[int]) -> int:
    """How many manifests of data files are to be rewritten: all, where half of many would do; else 0."""
    after = max(math.ceil(sum(sizes) / MANIFEST_BYTES), 1)
    return len(sizes) if len(sizes) >= MANIFESTS_MIN and after * 2 <= len(sizes) else 0
