"""The life of one row in words: what became of each of its messages.

Pure. What the fold and the verdict say of the messages comes in; nothing is decided here but which of them belong
together and how to say it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cdc_materializer.marker.marker import Marker
from cdc_materializer.masks import Masks
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import Became, ColumnChange, RowMessage, RowViolation

_NO_MASKS = Masks()
#: Outcomes of messages that readers saw.
SEEN = ("upserted", "deleted")
#: The operation of a truncate of the table.
TRUNCATE = "t"
#: Actions that hold nothing back.
_REPORTED = ("report", "warn", "shadow")
#: Actions after which a message is read again, on its own, where it is released.
HELD_ACTIONS = ("hold", "quarantine")
#: The action of a rule that lets nothing of a batch be published.
_STOPS = "block"
#: Held messages that a sentence names; the list beside it has all.
_NAMED_MAX = 5


# --- which batch read a message -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """A snapshot of the mirror's main that is kept.

    Attributes:
        snapshot: its id.
        at: when it was made, in milliseconds since 1970.
        marker: what it says of progress; None where it says nothing.
        is_first: whether nothing came before it.
    """

    snapshot: int
    at: int
    marker: Marker | None
    is_first: bool = False


@dataclass(frozen=True)
class Publication:
    """A batch that was published: its messages, and the snapshot that readers have seen it from on.

    Attributes:
        start: the next offsets before it.
        end: the next offsets after it.
        batch: its id; None for all that came before the snapshots that are kept.
        snapshot: the snapshot; None likewise.
        at: when it was made.
        open_snapshots: the last records so far (`Sweep.last`) of the source's snapshots that it left open; None
            where it did not follow them.
        contract: the fingerprint of the contract that it was judged by; None: there was none, or nothing tells.
    """

    start: Offsets
    end: Offsets
    batch: str | None = None
    snapshot: int | None = None
    at: datetime | None = None
    open_snapshots: frozenset[tuple[int, int]] | None = frozenset()
    contract: str | None = None

    def ends_before(self, reached: Offsets) -> bool:
        """Whether all that it read lies before some offsets."""
        return all(end <= reached.get(partition, 0) for partition, end in self.end.items())

    def ranges(self) -> list[tuple[int, int, int]]:
        """Partition, first offset and end of what it read."""
        every = ((partition, self.start.get(partition, 0), end) for partition, end in self.end.items())
        return [(partition, start, end) for partition, start, end in every if start < end]


def publications(line: Sequence[Kept]) -> list[Publication]:
    """The batches that make up a mirror, oldest first.

    Args:
        line: the snapshots of its main, newest first. A rebuilt mirror (`cdcm replay`) begins with a marker of no
            batch; what was published before and lies behind its offsets is none of its batches. Where offsets go back
            without one, as earlier versions put a rebuilt mirror on top of a newer one, nothing before is.
    """
    found: list[Publication] = []
    reached, is_told = Offsets(), False
    for kept in reversed(line):
        if kept.marker is None:
            continue
        here = kept.marker.offsets
        if kept.marker.batch and reached.is_ahead_of(here):
            found, reached = [], Offsets()
        if not kept.marker.batch:
            found = [one for one in found if one.ends_before(here)] or ([Publication(Offsets(), here)] if here else [])
            reached, is_told = here, True
            continue
        at, followed = datetime.fromtimestamp(kept.at / 1000, UTC), kept.marker.snapshots
        left_open = frozenset(min(one.ends.items()) for one in followed.running) if followed is not None else None
        batch = Publication(reached, here, kept.marker.batch, kept.snapshot, at, left_open, kept.marker.contract)
        if not (is_told or kept.is_first):
            # An older snapshot is gone, and with it which of these messages were read together.
            batch = Publication(reached, here, open_snapshots=left_open or frozenset())
        if batch.ranges():
            found.append(batch)
        reached, is_told = Offsets({**reached, **here}), True
    return found


def sweeping_batches(batches: Sequence[Publication]) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
    """In which batches rows were swept that a snapshot did not show, where these are not those that read its end.

    A snapshot is left open until each partition, also one that was added, is known to be past it; and a batch that did
    not follow snapshots leaves them to the first that does.

    Args:
        batches: from `publications`.

    Returns:
        The batch that ended a snapshot by the one that read its last record, and by that record's place, which goes
        first; batches by their numbers.
    """
    by_batch: dict[int, int] = {}
    by_place: dict[tuple[int, int], int] = {}
    first: int | None = None
    for number, one in reversed([*enumerate(batches)]):
        if one.open_snapshots is not None:
            first = number
        elif first is not None:
            by_batch[number] = first
    for number, one in enumerate(batches[:-1]):
        by_place |= dict.fromkeys(one.open_snapshots or (), number + 1)
    return by_batch, by_place


# --- the messages -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What the fold and the verdict say of one message of the row.

    Attributes:
        place: the message.
        op: its operation.
        source_ts: when the source made the change.
        position: the source's position.
        epoch: the epoch of the position.
        outcome: what `verdict` counts it as in its batch.
        passes: whether its state may be published.
        broke: what it breaks, codes with rule or column.
        columns: the columns that differ from the row before.
        kept: the columns that it does not tell.
        number: its batch, counted in the order of publications; None where it was not read yet.
        swept: whether it is the end of a complete snapshot that does not show the row, and so ended it.
        values: what those columns were and became; None where nobody asked for it.
        schema: what the schema of its value is called; None where it has none.
    """

    place: MessagePlace
    op: str | None
    source_ts: datetime | None
    position: str | None
    epoch: int
    outcome: Became
    passes: bool = False
    broke: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    number: int | None = None
    swept: bool = False
    values: tuple[ColumnChange, ...] | None = None
    schema: str | None = None


@dataclass(frozen=True)
class _Chapter:
    """A message beside those that it has to do with.

    Attributes:
        told: the message.
        by: the one that took its place, or that it repeats.
        superseded: the held ones whose place it took.
    """

    told: Told
    by: Told | None
    superseded: tuple[Told, ...]


def story(
    life: Sequence[Told],
    batches: Sequence[Publication],
    held: Sequence[tuple[MessagePlace, RowViolation]],
    masks: Masks = _NO_MASKS,
) -> list[RowMessage]:
    """The messages of a row with what became of them and why.

    Args:
        life: the messages in the order of the fold.
        batches: from `publications`.
        held: what quarantine has of these messages.
        masks: what the contract hides.
    """
    others = [_other(at, life) for at in range(len(life))]
    waited = [(told, other) for told, other in zip(life, others, strict=True) if told.outcome == "quarantined"]
    return [
        _message(
            _Chapter(told, other, tuple(one for one, ended_by in waited if ended_by is told)),
            batches,
            masks,
            [violation for place, violation in held if _same(place, told.place)],
        )
        for told, other in zip(life, others, strict=True)
    ]


def judged_otherwise(life: Sequence[Told], batches: Sequence[Publication], today: str | None) -> bool:
    """Whether a batch that read one of these messages was judged by another contract than today's.

    Args:
        life: the messages that are told.
        batches: from `publications`; of one whose snapshot is not kept nothing tells.
        today: the contract's fingerprint; None where there is none.
    """
    read = {told.number for told in life if told.number is not None and told.number < len(batches)}
    return any(batches[number].batch is not None and batches[number].contract != today for number in read)


def _same(one: MessagePlace, other: MessagePlace) -> bool:
    return (one.partition, one.offset) == (other.partition, other.offset)


def _message(
    chapter: _Chapter, batches: Sequence[Publication], masks: Masks, violations: list[RowViolation]
) -> RowMessage:
    told, by = chapter.told, chapter.by
    batch = batches[told.number] if told.number is not None and told.number < len(batches) else None
    if any(found.status == "released" and found.action in HELD_ACTIONS for found in violations):
        batch = None  # a later batch read it, and no snapshot says which
    return RowMessage(
        **told.place.model_dump(exclude={"schema_name"}),
        schema_name=told.schema,
        op=told.op,
        source_ts=told.source_ts,
        position=told.position,
        epoch=told.epoch,
        outcome=told.outcome,
        batch=batch.batch if batch else None,
        snapshot=batch.snapshot if batch else None,
        published_at=batch.at if batch else None,
        columns=list(told.columns),
        masked={name: str(mask) for name in told.columns if (mask := masks.of(name)) is not None},
        values=list(told.values) if told.values is not None else None,
        kept=list(told.kept),
        broke=list(told.broke),
        violations=violations,
        by=by.place if by else None,
        supersedes_held=[one.place for one in chapter.superseded],
        reason=_reason(told, by, batch, violations) + _took_the_place(chapter.superseded),
    )


def _other(at: int, life: Sequence[Told]) -> Told | None:
    """The message that took the place of one, or that it repeats."""
    told, later = life[at], life[at + 1 :]
    match told.outcome:
        case "replayed":
            earlier = [one for one in life[:at] if one.outcome != "replayed" and one.position is not None]
            same = [one for one in earlier if one.position == told.position]
            above = [one for one in earlier if told.position is not None and (one.position or "") > told.position]
            return next(iter(same or above), None)
        case "superseded":
            seen = [one for one in reversed(later) if one.outcome in SEEN]
            return next((one for one in seen if one.number == told.number), None) or _had_already(told, seen)
        case "upserted" | "quarantined":
            return next((one for one in later if one.outcome in SEEN), None)
        case _:
            return None


def _had_already(told: Told, seen: Sequence[Told]) -> Told | None:
    """The later change that readers had from an earlier batch when a message came late, as of a partition that lags."""
    if told.number is None:
        return None
    return next((one for one in seen if one.number is not None and one.number < told.number), None)


_REASONS: Mapping[str, str] = {
    "waiting": "It has landed in raw; the next `cdcm run` reads it.",
    "ignored": "It changes no row.",
    "unchanged": "The row was gone already.",
}


def _reason(told: Told, by: Told | None, batch: Publication | None, violations: Sequence[RowViolation]) -> str:
    if told.outcome in _REASONS:
        return (told.outcome == "waiting" and _stops(violations)) or _REASONS[told.outcome]
    if told.swept:
        return "A complete snapshot of the table, of which it is the last record, does not show the row: it ended it."
    if told.outcome == "quarantined":
        return _held(told, by, violations)
    if told.outcome == "superseded":
        return _superseded(told, by, batch)
    if told.outcome == "replayed":
        known = f"with {lies_at(by)}" if by else "already"
        return f"The source sent it before: the row knew this position, or a later one, {known}."
    return _published(told, by, violations)


def _stops(violations: Sequence[RowViolation]) -> str:
    """How a message keeps the table from being read on; nothing where it does not."""
    stops = [found for found in violations if found.status == "open" and found.action == _STOPS]
    names = ", ".join(dict.fromkeys(_name(found) for found in stops))
    said = f"It has landed in raw and stops the table ({names}): a run goes on once the data or the rule is mended."
    return said if stops else ""


def _published(told: Told, by: Told | None, violations: Sequence[RowViolation]) -> str:
    if any(found.status == "open" and found.action not in _REPORTED for found in violations):
        return "It is held; by today's rules it would be published (`cdcm quarantine release TABLE`)."
    if told.outcome == "deleted":
        return "The source truncated the table." if told.op == TRUNCATE else "It ended the row."
    if by is not None:
        return f"Readers saw it until {lies_at(by)} {'ended it' if by.outcome == 'deleted' else 'took its place'}."
    return "It is what readers see."


def _held(told: Told, by: Told | None, violations: Sequence[RowViolation]) -> str:
    broke = (
        ", ".join(told.broke) or ", ".join(dict.fromkeys(_name(found) for found in violations)) or "it breaks a rule"
    )
    if by is not None:
        ended = "ended the row" if by.outcome == "deleted" else "was good and took its place"
        return f"Held ({broke}), until {lies_at(by)} {ended}."
    if not violations:
        read = "it was read under other ones, or ahead of what comes before it"
        return f"It breaks today's rules ({broke}), and quarantine has nothing of it: {read}."
    return f"Held ({broke}): the row keeps its last good version."


def _superseded(told: Told, by: Told | None, batch: Publication | None) -> str:
    bad = f"It breaks {', '.join(told.broke)}" if told.broke else "It was good"
    if batch is not None and batch.batch is None:
        return f"{bad}; the snapshots that tell whether readers saw it are not kept any more."
    if by is None:
        return f"{bad}; a later change took its place before readers saw it."
    if batch is None:
        # Both were held; two releases of them leave the same behind as one.
        return (
            f"{bad}; {lies_at(by)} was released with it or after it: nothing tells whether readers saw it in between."
        )
    if by.number != told.number:
        return f"{bad}; {lies_at(by)} comes after it, and readers had that from an earlier batch."
    return f"{bad}; {lies_at(by)} of the same batch came after it, before readers saw it."


def _took_the_place(held: Sequence[Told]) -> str:
    """A sentence about the held messages that a message superseded; nothing where there are none."""
    if not held:
        return ""
    further = f" and {len(held) - _NAMED_MAX:,} more" if len(held) > _NAMED_MAX else ""
    return f" It took the place of held {', '.join(lies_at(one) for one in held[:_NAMED_MAX])}{further}."


def lies_at(told: Told) -> str:
    """Where a message lies, as sentences name it."""
    return f"{told.place.partition}/{told.place.offset}"


def _name(found: RowViolation) -> str:
    return f"{found.code} {found.rule}" if found.rule else found.code
