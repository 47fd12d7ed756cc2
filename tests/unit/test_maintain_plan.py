"""What maintenance plans, and that it never plans to remove what somebody needs."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.catalog.local_table import SnapshotLine, main_line, newest_marker
from cdc_materializer.maintenance.files import (
    COMMIT_BYTES,
    FILES_MIN,
    LARGEST_BYTES,
    MANIFESTS_MIN,
    OPEN_BYTES,
    TARGET_BYTES,
    VECTOR_BYTES,
    Compaction,
    DataFile,
    debt_limit,
    depth,
    plan_compaction,
    plan_manifests,
)
from cdc_materializer.maintenance.plan import (
    LOOKED_AT,
    Rule,
    Steps,
    TableFacts,
    expirable,
    hint,
    plan,
)
from cdc_materializer.marker.marker import MARKER_TAG, Marker
from cdc_materializer.offsets import Offsets

MIB = 2**20
DAY = 86_400_000
NOW = 100 * DAY
MARKED = Marker("p", "b", "t", None, Offsets({0: 1}), {}, None, None, {}).to_summary()
RULE = Rule()


def files(count: int, size: int = MIB, **said: int) -> tuple[DataFile, ...]:
    """So many equal files."""
    return tuple(DataFile(size, 100, **said) for _ in range(count))


def facts(*found: DataFile, **said: object) -> TableFacts:
    """A table with these files, and nothing else to do."""
    head = SnapshotLine(1, None, 1, MARKED, NOW)
    base = TableFacts(files=found, snapshots=(head,), refs={"main": (1, True)}, head=1)
    return replace(base, **{"properties": {LOOKED_AT: str(NOW)}, **said})  # type: ignore[arg-type]


def rewrite(found: TableFacts, ratio: float) -> Compaction | None:
    """The rewrite that pays."""
    return plan_compaction(found.files, ratio, found.target, is_sorted=found.is_sorted)


# --- compaction
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        ((), 0),
        (files(1), 0),
        (files(FILES_MIN - 1), 0),
        (files(20), 20),
        (files(20, 120 * MIB), 0),  # nearly full: hundreds of megabytes for some files to be opened
        ((*files(20), *files(3, 120 * MIB)), 20),  # the full ones stay as they are
        ((*files(3), *files(3, 90 * MIB)), 0),
    ],
)
def test_small_files_are_taken_where_that_pays(found: tuple[DataFile, ...], taken: int) -> None:
    """Many small ones are; few, or such as are nearly full, are not."""
    planned = rewrite(facts(*found), RULE.ratio)

    assert (planned.files if planned else 0) == taken


def test_a_partition_is_rewritten_with_its_own_files_alone() -> None:
    """Files of many partitions are no many files: none of them could be joined to another."""
    spread = tuple(DataFile(MIB, 100, partition=at) for at in range(50))
    assert rewrite(facts(*spread), RULE.ratio) is None

    planned = rewrite(facts(*spread, *(replace(spread[0]) for _ in range(20))), RULE.ratio)

    assert planned is not None
    assert (planned.files, planned.files_after) == (21, 1)


@pytest.mark.parametrize(("dead", "is_taken"), [(0, False), (10, False), (25, True), (100, True)])
def test_a_file_is_rewritten_for_its_deleted_rows(dead: int, is_taken: bool) -> None:  # noqa: FBT001
    """From a fifth on, as the ratio of five says."""
    found = files(8, 120 * MIB, deleted=dead, vectors=1 if dead else 0)

    planned = rewrite(facts(*found), RULE.ratio)

    assert (planned is not None) is is_taken
    if planned is not None:
        assert (planned.reason, planned.vectors) == ("deleted rows", 8)


def test_a_ratio_decides() -> None:
    """The same files are rewritten under one that allows more, and not under one that allows less."""
    found = files(10, 10 * MIB)

    planned = rewrite(facts(*found), RULE.ratio)

    assert planned is not None
    assert rewrite(facts(*found), planned.ratio * 0.99) is None
    assert rewrite(facts(*found), planned.ratio * 1.01) is not None


def test_what_is_told_is_what_the_rule_counts() -> None:
    """Bytes read; bytes of dead rows, of files and of vectors that need not be opened; and the commits."""
    planned = rewrite(facts(*files(20, MIB, deleted=50, vectors=1)), RULE.ratio)

    assert planned is not None
    assert planned.rewritten == 20 * MIB
    assert planned.saved == 19 * OPEN_BYTES + 20 * VECTOR_BYTES + 10 * MIB
    assert planned.ratio == (planned.rewritten + COMMIT_BYTES) / planned.saved


def test_a_file_that_grew_too_large_is_split() -> None:
    """Though that alone spares readers nothing, it goes along with others."""
    planned = rewrite(facts(*files(400), DataFile(LARGEST_BYTES + 1, 100)), RULE.ratio)

    assert planned is not None
    assert planned.files == 401


def test_the_size_of_files_is_the_tables_own() -> None:
    """Where a property says one."""
    small = facts(*files(20, 9 * MIB), properties={"write.target-file-size-bytes": str(8 * MIB)})

    assert small.target == 8 * MIB
    assert rewrite(small, RULE.ratio) is None
    assert replace(small, properties={"write.target-file-size-bytes": "many"}).target == TARGET_BYTES


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 100), st.integers(0, 3)), max_size=40))
def test_after_a_rewrite_there_is_nothing_to_rewrite(told: list[tuple[int, int, int]]) -> None:
    """Whatever the files: those that a plan leaves and those that it makes are well."""
    found = tuple(DataFile(size * MIB, 100, dead, 1 if dead else 0, part) for size, dead, part in told)
    planned = rewrite(facts(*found), RULE.ratio)
    if planned is None:
        return
    assert planned.ratio <= RULE.ratio
    assert planned.saved > 0

    left, made = _rewritten(found, planned.small)

    again = rewrite(facts(*left, *made), RULE.ratio)
    assert again is None or again.files < len(found)


def _rewritten(found: tuple[DataFile, ...], small: int) -> tuple[list[DataFile], list[DataFile]]:
    left, made = [], []
    for part in {one.partition for one in found}:
        own = [one for one in found if one.partition == part]
        taken = [one for one in own if one.size < small or one.debt >= debt_limit(RULE.ratio)]
        size = sum(one.size for one in taken)
        has_debt = any(one.debt >= debt_limit(RULE.ratio) for one in taken)
        if not (has_debt or (len(taken) > 1 and (len(taken) >= FILES_MIN or size > TARGET_BYTES))):
            left += own
            continue
        left += [one for one in own if one not in taken]
        live = sum(one.live for one in taken)
        count = max(-(-int(live) // TARGET_BYTES), 1)
        made += [DataFile(int(live / count), 100, partition=part) for _ in range(count)]
    return left, made


# --- sort decay
# --------------------------------------------------------------------------------------------------------


def sorted_files(count: int, width: int) -> tuple[DataFile, ...]:
    """Full files, each of which has so many keys, behind one another by one key."""
    return tuple(DataFile(TARGET_BYTES, 100, low=at, high=at + width) for at in range(count))


def test_files_that_follow_one_another_overlap_nowhere() -> None:
    """Their depth is one, whatever their number; where nothing is known of any, nothing is said."""
    apart = tuple(DataFile(1, 1, low=2 * at, high=2 * at + 1) for at in range(9))

    assert depth(apart) == 1.0
    assert depth(files(9)) == 1.0
    assert depth([*apart, DataFile(1, 1)]) == 1.0


def test_files_that_all_have_every_key_are_as_deep_as_they_are_many() -> None:
    """Who looks for a key has to read them all."""
    assert depth([DataFile(1, 1, low="a", high="z") for _ in range(7)]) == 7.0


def test_overlapping_ranges_are_put_in_order_where_that_pays() -> None:
    """Where every file may have every key it does; where each overlaps with its neighbours alone it does not."""
    deep = rewrite(facts(*sorted_files(16, 1000), is_sorted=True), RULE.ratio)

    assert deep is not None
    assert (deep.reason, deep.every, deep.files) == ("overlapping ranges", True, 16)
    assert rewrite(facts(*sorted_files(16, 1), is_sorted=True), RULE.ratio) is None
    assert rewrite(facts(*sorted_files(16, 1000), is_sorted=False), RULE.ratio) is None


def test_files_in_order_stay_as_they_are() -> None:
    """However few: who looks for a key reads one of them already."""
    apart = tuple(DataFile(TARGET_BYTES, 100, low=2 * at, high=2 * at + 1) for at in range(3))

    assert rewrite(facts(*apart, is_sorted=True), RULE.ratio) is None


@pytest.mark.parametrize("values", ["aabb", "aaaaab", "aabbccdd", "abbbbbbc"])
def test_files_of_few_values_that_are_in_order_stay_as_they_are(values: str) -> None:
    """A value that fills several files is in all of them, in whatever order."""
    ordered = tuple(DataFile(TARGET_BYTES, 100, low=low, high=high) for low, high in itertools.pairwise(values))
    mixed = tuple(DataFile(TARGET_BYTES, 100, low=min(values), high=max(values)) for _ in range(16))

    assert depth(ordered) == 1.0
    assert rewrite(facts(*ordered, is_sorted=True), RULE.ratio) is None
    assert rewrite(facts(*mixed, is_sorted=True), RULE.ratio) is not None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000)), min_size=1, max_size=60), st.integers(1, 9))
def test_a_table_in_order_has_nothing_to_be_put_in_order(rows: list[tuple[int, int]], size: int) -> None:
    """Messages of several partitions by their offsets, and rows by a column that several have in common."""
    offsets = sorted(offset for _, offset in rows)
    cut = [offsets[at : at + size] for at in range(0, len(offsets), size)]

    assert depth([DataFile(1, 1, low=part[0], high=part[-1]) for part in cut]) == 1.0


def test_a_table_of_one_file_has_no_order_to_lose() -> None:
    """Under two targets there is no file to leave out."""
    assert rewrite(facts(*sorted_files(1, 1000), is_sorted=True), RULE.ratio) is None


# --- manifests
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "planned"),
    [((), 0), ((1,) * (MANIFESTS_MIN - 1), 0), ((1,) * MANIFESTS_MIN, MANIFESTS_MIN), ((8 * MIB,) * 30, 0)],
)
def test_manifests_are_rewritten_where_half_would_do(sizes: tuple[int, ...], planned: int) -> None:
    """And where they are many; full ones stay."""
    assert plan_manifests(sizes) == planned


# --- snapshots
# --------------------------------------------------------------------------------------------------------


def line(*days: int, marked: Mapping[int, object] | None = None, first: int = 1) -> tuple[SnapshotLine, ...]:
    """Snapshots behind one another, made so many days ago; those named, or else all, have a marker."""
    found = []
    for at, ago in enumerate(days):
        number = first + at
        summary = {"total-data-files": "1", **(MARKED if marked is None or number in marked else {})}
        found.append(SnapshotLine(number, number - 1 if at or first > 1 else None, number, summary, NOW - ago * DAY))
    return tuple(found)


def table(snapshots: tuple[SnapshotLine, ...], **refs: tuple[int, bool]) -> TableFacts:
    """A table with these snapshots and refs; main is at the last of the first line."""
    return TableFacts(snapshots=snapshots, refs={name.replace("_", "-"): ref for name, ref in refs.items()}, head=5)


OLD = line(50, 40, 30, 20, 10)


def test_snapshots_that_are_too_old_expire() -> None:
    """All but main's own and the young ones."""
    assert expirable(table(OLD, main=(5, True)), RULE, NOW) == {1, 2, 3, 4}
    assert expirable(table(line(50, 40, 3, 2, 1), main=(5, True)), RULE, NOW) == {1, 2}


def test_what_a_tag_or_a_branch_points_to_stays() -> None:
    """A rollback tag, the marker's tag, somebody's own."""
    found = expirable(table(OLD, main=(5, True), cdcm_before_replay=(2, False), cdcm_marker=(3, False)), RULE, NOW)

    assert found == {1, 4}


def test_a_branch_keeps_its_line_down_to_main_and_what_main_has_made_since() -> None:
    """Only so can a replay be swapped in, or noticed to be behind."""
    beside = replace(OLD[0], snapshot_id=11, parent_id=3), replace(OLD[0], snapshot_id=12, parent_id=11)

    found = expirable(table((*OLD, *beside), main=(5, True), cdcm_replay_x=(12, True)), RULE, NOW)

    assert found == {1, 2}


def test_the_newest_marker_stays_and_the_line_to_it() -> None:
    """Where another tool has made main's head, and even if no tag were there."""
    found = expirable(table(line(50, 40, 30, 20, 10, marked={1: 1, 3: 3}), main=(5, True)), RULE, NOW)

    assert found == {1, 2}


def test_what_tells_how_far_a_kept_state_goes_stays() -> None:
    """Where another tool has made what a replay has replaced: without its progress it could not be taken back."""
    kept = line(60, 50, 40, 30, 10, marked={1: 1, 2: 2, 5: 5})

    assert expirable(table(kept, main=(5, True), cdcm_before_replay=(4, False)), RULE, NOW) == {1}
    assert expirable(table(kept, main=(5, True), other=(4, False)), RULE, NOW) == {1, 2, 3}


def test_the_beginning_of_a_table_stays() -> None:
    """It has a marker and no file."""
    empty = replace(OLD[0], summary={**MARKED, "total-data-files": "0"})

    assert expirable(table((empty, *OLD[1:]), main=(5, True)), RULE, NOW) == {2, 3, 4}


def test_too_many_snapshots_expire_though_they_are_young_but_not_the_last_hours() -> None:
    """What is written every few seconds would fill the metadata that each commit writes anew."""
    often = Rule(keep_snapshots_max=2)

    assert expirable(table(line(5, 4, 3, 2, 1), main=(5, True)), often, NOW) == {1, 2, 3}
    young = tuple(replace(one, timestamp_ms=NOW - 60_000) for one in OLD)
    assert expirable(table(young, main=(5, True)), often, NOW) == set()
    assert expirable(table(young, main=(5, True)), replace(often, keep_snapshots=timedelta()), NOW) == set()


def test_what_was_the_newest_within_the_last_hour_stays() -> None:
    """However long ago it was made: of a table that is written once a week somebody reads last week's state."""
    for rule in (RULE, Rule(keep_snapshots_max=2)):
        assert expirable(table(line(50, 40, 30, 20, 0), main=(5, True)), rule, NOW) == {1, 2, 3}


@pytest.mark.parametrize("rule", [RULE, Rule(keep_snapshots_max=2)])
def test_what_readers_saw_until_it_was_taken_back_stays_for_an_hour(rule: Rule) -> None:
    """However long ago it was made: no snapshot stands above it, and the table's log alone tells until when."""
    hour = 3_600_000
    back = replace(OLD[0], snapshot_id=5, parent_id=2, sequence=5, timestamp_ms=NOW - hour)
    log = ((1, NOW - 50 * DAY), (2, NOW - 40 * DAY), (4, NOW - 20 * DAY), (5, NOW - hour))
    found = replace(table((*OLD[:4], back), main=(5, True)), log=log)

    assert expirable(found, rule, NOW) == {1, 3}
    assert expirable(found, rule, NOW + 1) == {1, 2, 3, 4}


def test_what_readers_saw_until_something_older_was_swapped_in_stays_for_an_hour() -> None:
    """What a replay has rebuilt for days is made before its swap."""
    log = ((1, NOW - 50 * DAY), (2, NOW - 40 * DAY), (5, NOW - 60_000))

    assert expirable(replace(table(OLD, main=(5, True)), log=log), RULE, NOW) == {1, 3, 4}


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12),
    st.sets(st.integers(1, 12)),
    st.dictionaries(
        st.sampled_from(["a", "b", "cdcm-marker", "cdcm-replay-1"]), st.tuples(st.integers(1, 12), st.booleans())
    ),
    st.integers(1, 5),
)
def test_nothing_that_is_needed_expires(
    days: list[int], marked: set[int], refs: dict[str, tuple[int, bool]], most: int
) -> None:
    """Whatever the table: its refs, its progress as it is read today, and branches that stand on main."""
    snapshots = line(*sorted(days, reverse=True), marked=dict.fromkeys(marked))
    head = len(snapshots)
    there = {name: ref for name, ref in refs.items() if ref[0] <= head}
    found = TableFacts(snapshots=snapshots, refs={"main": (head, True), **there}, head=head)

    gone = expirable(found, Rule(keep_snapshots_max=most), NOW)

    left = [one for one in snapshots if one.snapshot_id not in gone]
    tag = there.get(MARKER_TAG, (None,))[0]
    assert newest_marker(left, head, tag) == newest_marker(snapshots, head, tag)
    for number, is_branch in found.refs.values():
        assert number not in gone
        if is_branch:
            since = [one.snapshot_id for one in main_line(snapshots, head) if one.snapshot_id > number]
            assert gone.isdisjoint(since)
    hour = NOW - 3_600_000
    assert all(one.timestamp_ms < hour for one in snapshots if one.snapshot_id in gone)


# --- all together
# --------------------------------------------------------------------------------------------------------


def test_a_table_that_is_well_has_nothing_to_do() -> None:
    """And neither has one without a snapshot."""
    assert plan(facts(*files(2, TARGET_BYTES)), RULE, NOW).is_empty
    assert plan(TableFacts(), RULE, NOW) == Steps()


def test_a_head_without_a_marker_is_marked() -> None:
    """Another tool has compacted."""
    head = SnapshotLine(1, None, 1, {}, NOW)

    assert plan(facts(snapshots=(head,)), RULE, NOW).mark


def test_what_killed_maintenance_has_left_is_dropped_and_keeps_nothing() -> None:
    """Neither a snapshot nor the look for orphans; a branch of a batch keeps both."""
    refs = {"main": (5, True), "cdcm_upkeep_b": (2, True)}
    left = plan(replace(table(OLD), refs=refs), RULE, NOW)

    assert (left.left_over, left.orphans) == (True, True)
    assert 2 in left.expired
    assert not left.is_empty


def test_nothing_is_removed_where_others_may_share_the_files() -> None:
    """`gc.enabled=false` says so; files are rewritten all the same."""
    shared = {"gc.enabled": "false"}
    found = plan(replace(table(OLD, main=(5, True)), files=files(20), properties=shared), RULE, NOW)

    assert (found.expired, found.orphans) == ((), False)
    assert found.compaction is not None


@pytest.mark.parametrize(
    ("said", "due"),
    [
        ({}, True),
        ({"properties": {LOOKED_AT: str(NOW - DAY)}}, True),
        ({"properties": {LOOKED_AT: str(NOW - DAY + 1)}}, False),
        ({"properties": {"write.data.path": "s3://elsewhere"}}, False),
        ({"refs": {"main": (5, True), "cdcm_b1_app": (5, True)}}, False),
        ({"refs": {"main": (5, True), "cdcm-replay-1": (5, True)}}, True),
    ],
)
def test_orphans_are_looked_for_once_a_day_and_only_where_they_can_be_told(said: dict[str, object], due: bool) -> None:  # noqa: FBT001
    """Not while a batch is staged, whose outcome may not be known, nor where files are in other folders too."""
    found = replace(table(OLD, main=(5, True)), **said)  # type: ignore[arg-type]

    assert plan(found, RULE, NOW).orphans is due
    assert not plan(found, RULE, NOW, orphans=False).orphans


# --- a look from far
# --------------------------------------------------------------------------------------------------------


def summary(**totals: int) -> dict[str, str]:
    """A snapshot's totals."""
    return {f"total-{name.replace('_', '-')}": str(count) for name, count in totals.items()}


@pytest.mark.parametrize(
    ("totals", "snapshots", "said"),
    [
        ({}, 1, None),
        ({"data_files": 3, "files_size": MIB, "records": 9}, 1, None),
        ({"data_files": 40, "delete_files": 4, "files_size": 40 * MIB}, 1, "40 data files and 4 delete files, where 1"),
        ({"data_files": 9, "files_size": 9 * TARGET_BYTES, "records": 9}, 1, None),
        (
            {"data_files": 4, "files_size": 4 * TARGET_BYTES, "records": 100, "position_deletes": 30},
            1,
            "30% of the stored rows are deleted",
        ),
        ({"data_files": 1}, 1001, "1001 snapshots are kept"),
    ],
)
def test_status_hints_where_maintenance_may_pay(totals: dict[str, int], snapshots: int, said: str | None) -> None:
    """From what each snapshot's summary says, so that a healthy table gets no hint."""
    found = hint(summary(**totals), snapshots, RULE)

    assert (found is None) if said is None else (found or "").startswith(said)


def test_many_files_of_many_partitions_are_no_reason() -> None:
    """A file each is the least there can be."""
    assert hint(summary(data_files=40, files_size=40 * MIB), 1, RULE, is_partitioned=True) is None
