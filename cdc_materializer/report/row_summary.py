"""Why a row is as it is now, in sentences. Pure; `row_story` tells its messages one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc_materializer.report.row_models import RowNow
from cdc_materializer.report.row_story import SEEN, TRUNCATE, Told, lies_at
from cdc_materializer.report.wording import quantity


@dataclass(frozen=True)
class Standing:
    """What all messages of a row say of how it stands, however few of them are listed.

    Attributes:
        last: the newest one that readers saw; None where they saw none.
        held: how many later ones are held back.
        broke: what those break, codes with rule or column.
        waiting: how many no batch has read yet.
    """

    last: Told | None = None
    held: int = 0
    broke: tuple[str, ...] = ()
    waiting: int = 0

    @classmethod
    def of(cls, life: Sequence[Told]) -> "Standing":
        """What messages in the order of the fold say, where they are all that there are, or have one that was seen."""
        newest = max((number for number, told in enumerate(life) if told.outcome in SEEN), default=None)
        held = [told for told in life[0 if newest is None else newest + 1 :] if told.outcome == "quarantined"]
        return cls(
            last=life[newest] if newest is not None else None,
            held=len(held),
            broke=tuple(sorted({name for told in held for name in told.broke})),
            waiting=sum(1 for told in life if told.outcome == "waiting"),
        )


def summary(
    standing: Standing, row: RowNow | None, *, judged_otherwise: bool = False, stop: str | None = None
) -> list[str]:
    """Say why the row is as it is now.

    Args:
        standing: what its messages say.
        row: what the mirror has; None where there is no key.
        judged_otherwise: whether a batch that read one of them was judged by another contract than today's.
        stop: what keeps the mirror from reading on, so that later messages are not among those that are told.
    """
    if row is None:
        return ["The message has no key that can be read: it is no row's."]
    sentences = [_now(standing.last, row), *_since(standing)]
    if not row.agrees:
        other = f" in {', '.join(row.different)}" if row.different else ""
        sentences.append(f"The mirror does not hold what the messages give{other}: see `cdcm verify`.")
    if judged_otherwise:
        sentences.append(
            "Batches that read them were judged by another contract than today's, which is the one that speaks here."
        )
    if stop is not None:
        sentences.append(f"Messages that the mirror has not read are left out, for they cannot be: {stop}")
    return sentences


def _now(last: Told | None, row: RowNow) -> str:
    if row.present and row.written is None:
        return "The mirror has the row, which names no message that it comes from: another program wrote it."
    if row.written is not None:
        state = "marked as deleted by" if row.deleted else "as it was left by"
        return f"The mirror has the row, {state} message {row.written.partition}/{row.written.offset}."
    if last is None:
        return "The mirror has no such row: none of its messages could be published."
    if last.outcome == "upserted":
        return f"The mirror has no such row, and message {lies_at(last)} gives one."
    if last.swept:
        return f"The mirror has no such row: a complete snapshot, which ends with {lies_at(last)}, does not show it."
    how = "a truncate of the table" if last.op == TRUNCATE else "message"
    return f"The mirror has no such row: {how} {lies_at(last)} ended it."


def _since(standing: Standing) -> Iterable[str]:
    """What has come since the row was written, and is not in it."""
    if standing.held:
        verb = "is" if standing.held == 1 else "are"
        why = f" ({', '.join(standing.broke)})" if standing.broke else ""
        yield f"{quantity(standing.held, 'later message')} {verb} held back{why}."
    if standing.waiting:
        verb = "waits" if standing.waiting == 1 else "wait"
        yield f"{quantity(standing.waiting, 'message')} {verb} for the next `cdcm run`."
