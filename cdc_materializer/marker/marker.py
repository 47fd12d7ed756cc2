"""The mark that a batch leaves in a snapshot: the only memory of progress (design section 3).

Pure. It carries coordinates, counts and what was accepted as lost, never anything of a row. It is read strictly:
progress that cannot be read must never be taken for none.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from cdc_materializer.errors import InvariantBroken
from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.marker.gtids import GtidSets
from cdc_materializer.marker.snapshots import Followed
from cdc_materializer.marker.swapped import Swapped
from cdc_materializer.marker.unpaired import Unpaired
from cdc_materializer.offsets import Offsets
from cdc_materializer.strict_json import (
    as_microseconds,
    as_number,
    as_offset,
    as_text,
    read_object,
    read_offsets,
    read_partitions,
    refuse,
    write,
)

#: Version of the marker's layout that this package writes, and the newest it reads.
MARKER_VERSION = 1

#: What the keys of a marker begin with in a snapshot summary.
MARKER_PREFIX = "cdcm."
#: Beside the marker of a batch that was staged: the snapshot that it was planned on, which is to be the one below it.
PLANNED_ON = f"{MARKER_PREFIX}planned-on"

#: The tag on the newest marked snapshot of `main`: how far it was filled, whatever other tools compact and expire.
MARKER_TAG = "cdcm-marker"
#: The tag on a table's first snapshot, which is empty: it is set when the table is made, and never moved.
GENESIS_TAG = "cdcm-genesis"

#: What quarantine's marker counts while the table has stopped for a reason that no message carries.
STOPPED = "stopped"

#: Begins what quarantine's marker says of a batch that was given up: it may have read more than quarantine was told.
LEFT = "left "

_DIGEST = re.compile(r"-?[0-9]{1,38}")


@dataclass(frozen=True)
class Marker:
    """The progress that a commit writes into its snapshot's summary, and nothing else: no row, no key, no schema text.

    Args:
        pipeline: the pipeline's name.
        batch: the batch's id, see `batch_id`.
        topic: the topic it was read from.
        topic_id: the broker's id of that topic, which a re-created topic does not keep; None where sources have none.
        offsets: the next offset of each partition after this batch.
        positions: the highest source position of each partition, as text that only `changes` reads.
        source_snapshot: on a mirror, the raw table's snapshot that it was folded from.
        contract: fingerprint of the contract that judged the batch.
        counts: messages by what became of them.
        times: when the source made the latest of the changes up to there, in microseconds since 1970.
        stamps: `Recorded.stamps` after the batch.
        readings: how far the rows of snapshots reach that each partition has shown (`reach.reach_of`), where there are
            several.
        deleted_at: `Recorded.deleted_at` after the batch.
        truncated: the highest position of a truncate that was applied, before which no change of another partition
            counts any more; where the mirror has rows of several servers, of each of them.
        truncates: on a mirror, how many truncates were applied since its log began; None where a version that did not
            count them has written one of its markers.
        passing: on a mirror, from which offsets on truncates were passed over, and applied again, in turn; a partition
            that is not named from its first message on.
        refilled: on raw, how many offsets behind its own were read from the topic again (`rebuild.fill`), in all.
        bases: on raw, what each partition's offsets are more than the topic's own: in a topic that was made again they
            go on from where the earlier one's ended.
        epochs: on a mirror, where each epoch after the first begins in each partition (changelog-semantics §0 rule 15).
        logs: the logs that positions came from, and the number of the last transaction of each: a MySQL server's
            uuid, a MariaDB domain, a series of binlog files (whose number says nothing).
        gtids: the transactions that were read of the former two.
        adopted: what was accepted as lost or rewound, oldest first.
        snapshots: on a mirror that sweeps, what was seen of snapshots; None where it did not sweep.
        masks: on a mirror, how its rows are masked, by column (`Masks.told`).
        source_table: on a mirror, the first source table that fed it; its rows that name none are from there.
        raw_table: on a mirror, the identity of the raw table that it was folded from.
        held_table: likewise of its quarantine; None where it has none yet.
        ledger: on a mirror with `ledger: true`, what its rows add up to (`Digest.to_text`); None where none is kept.
        home: on a mirror, `Recorded.home` after the batch.
        alone: on a mirror, `Recorded.alone` after the batch.
        unpaired: on a mirror, key changes of which it lacks what their deletes will tell.
        topics: on raw, the topics by their numbers where it has several, see `lanes`.
        unkept: on a mirror, whether the newest batch is in no history.
        settles: on a mirror whose batch ends what is in quarantine, which is written behind its commit: what the batch
            has found wrong adds up to (`tally.wrongs`); None where it ends nothing.
        settled: on quarantine, the newest batch of which that was written; behind LEFT, one that was given up.
        warned: on a mirror, the rules about the table that the batch breaks and that only warn, which quarantine is
            told behind its commit too; and those of `untried` that it is to be told of then.
        untried: on a mirror, the rules that are only tried and that the batch could not judge.
        noted: on quarantine, the newest batch of which it was told so.
        swapped: on a mirror that was swapped in or taken back, what quarantine is to become; on quarantine, the newest
            of which that was done.
        version: layout of the marker.
    """

    pipeline: str
    batch: str
    topic: str
    topic_id: str | None
    offsets: Offsets
    positions: Mapping[int, str]
    source_snapshot: int | None
    contract: str | None
    counts: Mapping[str, int]
    times: Mapping[int, int] = field(default_factory=dict)
    stamps: Mapping[int, str] = field(default_factory=dict)
    readings: Mapping[int, str] = field(default_factory=dict)
    deleted_at: Mapping[int, int] = field(default_factory=dict)
    truncated: tuple[str, ...] = ()
    truncates: int | None = None
    passing: tuple[Mapping[int, int], ...] = ()
    refilled: int = 0
    bases: Mapping[int, int] = field(default_factory=dict)
    epochs: tuple[Mapping[int, int], ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)
    gtids: GtidSets = field(default_factory=GtidSets)
    adopted: tuple[Adoption, ...] = ()
    snapshots: Followed | None = None
    source_table: str | None = None
    topics: tuple[str, ...] = ()
    masks: Mapping[str, str] = field(default_factory=dict)
    raw_table: str | None = None
    held_table: str | None = None
    ledger: str | None = None
    unkept: bool = False
    settles: str | None = None
    settled: str | None = None
    warned: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    noted: str | None = None
    swapped: Swapped | None = None
    home: str | None = None
    alone: int = 0
    unpaired: tuple[Unpaired, ...] = ()
    version: int = MARKER_VERSION

    @classmethod
    def begin(cls, other: Self) -> Self:
        """A mirror's marker for reading its log once more: nothing read yet, and what was accepted stays so."""
        fresh = replace(other, batch="", offsets=Offsets(), source_snapshot=None, contract=None, counts={})
        fresh = replace(fresh, positions={}, times={}, truncated=(), truncates=0, logs={}, gtids=GtidSets(), home=None)
        fresh = replace(fresh, readings={}, deleted_at={}, passing=(), stamps={})
        fresh = replace(fresh, snapshots=None, source_table=None, ledger=None, settles=None, warned=(), swapped=None)
        return replace(fresh, untried=(), held_table=None, unpaired=())

    @property
    def state(self) -> str:
        """What tells the state that it marks from others: one that was swapped in may end with the batch of another."""
        return self.batch if self.swapped is None else f"{self.batch} {self.swapped.to_text()}"

    def passing_under(self, setting: str) -> tuple[Mapping[int, int], ...]:
        """`passing`, where truncates are handled as a table's setting says from here on.

        Of a mirror that has applied none, and is from before this was kept, all were passed over.
        """
        is_passing, told = len(self.passing) % 2 == 1, self.passing
        if (setting != "apply") == is_passing:
            return told
        return ({},) if not told and self.truncates == 0 else (*told, dict(self.offsets))

    def untold(self, before: Self | None) -> tuple[str, ...]:
        """Those of `untried` that quarantine has not been told of since a batch could judge them.

        Args:
            before: the marker of the batch before; None for the first. Under another contract all is told again.
        """
        told = before.untried if before is not None and before.contract == self.contract else ()
        return tuple(rule for rule in self.untried if rule not in told)

    def in_table(self, offsets: Mapping[int, int]) -> Offsets:
        """The topic's own offsets as raw counts them; see `bases`."""
        return Offsets({partition: offset + self.bases.get(partition, 0) for partition, offset in offsets.items()})

    def in_topic(self, offsets: Mapping[int, int]) -> Offsets:
        """Raw's offsets as the topic itself counts them; those of an earlier topic of that name are 0."""
        return Offsets(
            {partition: max(offset - self.bases.get(partition, 0), 0) for partition, offset in offsets.items()}
        )

    def next_of(self, partitions: Mapping[int, int]) -> Offsets:
        """The next offsets, as raw counts them, of a topic that has these partitions.

        A partition that the topic has no more is left out if the topic was made again since, and nothing was read from
        that partition then; another one that is missing stays, so that it is noticed.
        """
        known = self.offsets.items()
        return Offsets({p: offset for p, offset in known if p in partitions or offset != self.bases.get(p, 0)})

    def to_summary(self) -> dict[str, str]:
        """Return the marker as snapshot properties; what is None is left out."""
        snapshot = None if self.source_snapshot is None else str(self.source_snapshot)
        properties = {
            "version": str(self.version),
            "pipeline": self.pipeline,
            "batch": self.batch,
            "topic": self.topic,
            "topic-id": self.topic_id,
            "offsets": self.offsets.to_json(),
            "positions": write(self.positions),
            "times": write(self.times),
            "stamps": write(self.stamps) if self.stamps else None,
            "readings": write(self.readings) if self.readings else None,
            "deleted-at": write(self.deleted_at) if self.deleted_at else None,
            "truncated": _told_positions(self.truncated) or None,
            "truncates": None if self.truncates is None else str(self.truncates),
            "passing": _told_offsets(self.passing),
            "refilled": str(self.refilled) if self.refilled else None,
            "bases": write(self.bases) if self.bases else None,
            "epochs": _told_offsets(self.epochs),
            "logs": write(self.logs) if self.logs else None,
            "gtids": self.gtids.to_json() if self.gtids.sets else None,
            "adopted": json.dumps([found.to_json() for found in self.adopted]) if self.adopted else None,
            "snapshots": self.snapshots.to_json() if self.snapshots is not None else None,
            "source-table": self.source_table,
            "topics": json.dumps(self.topics) if self.topics else None,
            "masks": write(self.masks) if self.masks else None,
            "source-snapshot": snapshot,
            "raw-table": self.raw_table,
            "held-table": self.held_table,
            "ledger": self.ledger,
            "unkept": "true" if self.unkept else None,
            "settles": self.settles,
            "settled": self.settled,
            "warned": json.dumps(self.warned) if self.warned else None,
            "untried": json.dumps(self.untried) if self.untried else None,
            "noted": self.noted,
            "swapped": self.swapped.to_text() if self.swapped is not None else None,
            "home": self.home or None,
            "alone": str(self.alone) if self.alone else None,
            "unpaired": json.dumps([one.to_json() for one in self.unpaired]) if self.unpaired else None,
            "contract": self.contract,
            "counts": write(self.counts),
        }
        return {MARKER_PREFIX + name: value for name, value in properties.items() if value is not None}

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Self | None:
        """Read the marker out of a snapshot's summary; None when the snapshot carries none.

        Raises InvariantBroken for a marker that cannot be read: unreadable progress must never be taken for none.
        """
        if MARKER_PREFIX + "version" not in summary:
            return None
        version = as_number(summary[MARKER_PREFIX + "version"], "version")
        if not 1 <= version <= MARKER_VERSION:
            raise InvariantBroken(
                f"The table's marker has version {version}; this cdc_materializer reads up to {MARKER_VERSION}.",
                "Use the newer version of cdc_materializer that wrote it.",
            )
        snapshot, truncates = (_number(summary, name) for name in ("source-snapshot", "truncates"))
        return cls(
            pipeline=_text(summary, "pipeline"),
            batch=_text(summary, "batch"),
            topic=_text(summary, "topic"),
            topic_id=summary.get(MARKER_PREFIX + "topic-id"),
            offsets=Offsets.from_json(_text(summary, "offsets")),
            positions=read_partitions(_text(summary, "positions"), as_text),
            times=read_partitions(_text(summary, "times"), as_microseconds),
            stamps=read_partitions(summary.get(MARKER_PREFIX + "stamps", "{}"), as_text),
            readings=read_partitions(summary.get(MARKER_PREFIX + "readings", "{}"), as_text),
            deleted_at=read_partitions(summary.get(MARKER_PREFIX + "deleted-at", "{}"), as_offset),
            source_snapshot=snapshot,
            contract=summary.get(MARKER_PREFIX + "contract"),
            counts={name: as_offset(count) for name, count in read_object(_text(summary, "counts")).items()},
            truncated=_read_positions(summary, "truncated"),
            truncates=truncates,
            passing=tuple(read_offsets(found) for found in _objects(summary, "passing")),
            refilled=as_number(summary.get(MARKER_PREFIX + "refilled", "0"), "refilled"),
            bases=read_partitions(summary.get(MARKER_PREFIX + "bases", "{}"), as_offset),
            epochs=tuple(read_offsets(found) for found in _objects(summary, "epochs")),
            logs={name: as_offset(last) for name, last in _object(summary, "logs").items()},
            gtids=GtidSets.from_json(summary.get(MARKER_PREFIX + "gtids")),
            adopted=tuple(Adoption.from_json(found) for found in _objects(summary, "adopted")),
            snapshots=Followed.from_json(followed) if (followed := summary.get(MARKER_PREFIX + "snapshots")) else None,
            source_table=summary.get(MARKER_PREFIX + "source-table"),
            topics=tuple(as_text(topic) for topic in _list(summary, "topics")),
            masks={name: as_text(how) for name, how in _object(summary, "masks").items()},
            raw_table=summary.get(MARKER_PREFIX + "raw-table"),
            held_table=summary.get(MARKER_PREFIX + "held-table"),
            ledger=summary.get(MARKER_PREFIX + "ledger"),
            unkept=MARKER_PREFIX + "unkept" in summary,
            settles=_digest(summary, "settles"),
            settled=summary.get(MARKER_PREFIX + "settled"),
            warned=tuple(as_text(rule) for rule in _list(summary, "warned")),
            untried=tuple(as_text(rule) for rule in _list(summary, "untried")),
            noted=summary.get(MARKER_PREFIX + "noted"),
            swapped=Swapped.from_text(summary.get(MARKER_PREFIX + "swapped")),
            home=summary.get(MARKER_PREFIX + "home"),
            alone=as_number(summary.get(MARKER_PREFIX + "alone", "0"), "alone"),
            unpaired=tuple(Unpaired.from_json(one) for one in _list(summary, "unpaired")),
            version=version,
        )


def _told_offsets(found: Sequence[Mapping[int, int]]) -> str | None:
    return f"[{','.join(map(write, found))}]" if found else None


def is_unsettled(mirror: Marker | None, quarantine: Marker | None) -> bool:
    """Whether a run ended between a mirror's newest commit and what follows from that for quarantine.

    Args:
        mirror: the mirror's marker; None where there is none.
        quarantine: likewise of its quarantine, in which nothing is to be ended where it is not there.
    """
    if is_unnoted(mirror, quarantine):
        return True
    if mirror is None or quarantine is None:
        return False
    is_open = mirror.settles is not None and quarantine.settled not in {mirror.batch, LEFT + mirror.batch}
    return is_open or is_half_swapped(mirror, quarantine)


def is_half_swapped(mirror: Marker | None, quarantine: Marker | None) -> bool:
    """Whether a mirror was swapped in, or taken back, and its quarantine is still that of the state before."""
    return mirror is not None and quarantine is not None and mirror.swapped not in {None, quarantine.swapped}


def is_unnoted(mirror: Marker | None, quarantine: Marker | None) -> bool:
    """Whether quarantine was not told of the rules that a mirror's newest batch only warns of; it is settled later."""
    if mirror is None or not mirror.warned:
        return False
    return quarantine is None or mirror.batch not in {quarantine.noted, quarantine.settled}


def beside_mirror(before: Marker, marker: Marker) -> Marker:
    """A batch's marker for quarantine or history, which are told before the mirror what is only tried.

    Its offsets never go back: a batch that is tried again may be a shorter one. That the table has stopped, and of
    which batch it was told last, stays until the marker itself says otherwise.

    Args:
        before: the newest of that table.
        marker: the batch's.
    """
    offsets = {p: max(marker.offsets.get(p, 0), before.offsets.get(p, 0)) for p in {**before.offsets, **marker.offsets}}
    stopped = {STOPPED: before.counts[STOPPED]} if before.counts.get(STOPPED) else {}
    known = replace(marker, offsets=Offsets(offsets), counts={**stopped, **marker.counts})
    known = replace(known, ledger=None, settles=None, warned=(), untried=(), unpaired=())
    known = replace(known, noted=marker.noted or before.noted, swapped=marker.swapped or before.swapped)
    return replace(known, settled=marker.settled or before.settled)


def _told_positions(positions: tuple[str, ...]) -> str:
    """Positions with a space between two; as a JSON list where one has a space, as the name of a binlog's file may."""
    told = " ".join(positions)
    return told if not told.startswith("[") and tuple(told.split()) == positions else json.dumps(positions)


def _read_positions(summary: Mapping[str, str], name: str) -> tuple[str, ...]:
    """What `_told_positions` has written."""
    told = summary.get(MARKER_PREFIX + name, "")
    return tuple(as_text(one) for one in _list(summary, name)) if told.startswith("[") else tuple(told.split())


def _text(summary: Mapping[str, str], name: str) -> str:
    return summary[MARKER_PREFIX + name] if MARKER_PREFIX + name in summary else refuse(f"no `{name}`")


def _number(summary: Mapping[str, str], name: str) -> int | None:
    """An optional number."""
    found = summary.get(MARKER_PREFIX + name)
    return None if found is None else as_number(found, name)


def _digest(summary: Mapping[str, str], name: str) -> str | None:
    """An optional sum, as text; it may have more digits than a number of JSON."""
    found = summary.get(MARKER_PREFIX + name)
    return found if found is None or _DIGEST.fullmatch(found) else refuse(f"`{name}` that is none")


def _object(summary: Mapping[str, str], name: str) -> dict[str, object]:
    """An optional JSON object."""
    return read_object(summary.get(MARKER_PREFIX + name, "{}"))


def _list(summary: Mapping[str, str], name: str) -> list[object]:
    """An optional JSON list."""
    found = read_object('{"list":' + summary.get(MARKER_PREFIX + name, "[]") + "}")["list"]
    return found if isinstance(found, list) else refuse(f"`{name}` that are none")


def _objects(summary: Mapping[str, str], name: str) -> list[dict[str, object]]:
    """The JSON objects of an optional list."""
    return [one if isinstance(one, dict) else refuse(f"`{name}` that are none") for one in _list(summary, name)]
