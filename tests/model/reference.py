"""The rules of changelog-semantics §0, §0.2 and §2.3, read aloud: one message after the other, in plain Python.

Slow, small, and without Spark: it is the oracle for the fold. Whatever it says of the golden cases and of the model's
random histories must be what the pipeline says, and each rule is a function of its own, so that a test can break one
(`mutants.py`) and see who notices.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.messages import UNAVAILABLE, From, Key, Message, Position, Row, replace
from tests.model.partitions import in_order, with_deletes, with_reached


@dataclass
class KeyState:
    """What is known of one key, deleted or not.

    Attributes:
        published: the row that the mirror shows; None where it shows none.
        row: the row with what held messages may have set, which is what later messages stand on.
        unread: whether a message that nobody could read may have set any column since.
        told: the columns that messages after that one have told.
        wrote: the message that `published` is from.
        made: the message that `row` is from.
        highest: the high-water mark: the position of the highest streaming change.
        shown: the changes that were applied in the moment of `highest`, as `event` tells them apart.
        read: the rows of snapshots that were applied, likewise.
        sent: the changes of numbered transactions, those that a server has in one piece together.
        shows: the last message that was applied, or that nobody could read.
        before: the message of the key before this one.
        owned: the message that says whose live row the key is, where several source tables feed the mirror.
        deleted: the position of the highest delete that tells one.
        shown_by_then: what was applied in its moment, up to it.
    """

    published: dict[str, Any] | None = None
    row: dict[str, Any] | None = None
    unread: bool = False
    told: frozenset[str] = frozenset()
    wrote: Message | None = None
    made: Message | None = None
    highest: Position | None = None
    shown: list[Any] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    sent: Sequence[Sequence[Message]] = ()
    shows: Message | None = None
    before: Message | None = None
    owned: Message | None = None
    deleted: Position | None = None
    shown_by_then: list[Any] = field(default_factory=list)


class Table:
    """A mirror that takes messages batch by batch and shows rows."""

    def __init__(
        self, *, partitions: int = 1, truncate: str = "apply", passes: Callable[[Row], bool] = lambda _: True
    ) -> None:
        """Begin with nothing.

        Args:
            partitions: of the topic; with one, offsets are all the order there is.
            truncate: the table's setting.
            passes: whether the contract lets a row be published; it asks for no value that a change may leave out.
        """
        self._several, self._truncate, self._passes = partitions > 1, truncate, passes
        self._log: list[Message] = []
        self._keys: dict[Key, KeyState] = {}
        self._truncates: list[Message] = []
        self._ended: dict[Position, list[tuple[Message, dict[str, Any] | None]]] = {}

    def take(self, batch: Iterable[Message]) -> None:
        """Go on by a batch; in several partitions a message may belong before others, so its key is told anew."""
        found = as_sent(batch)
        self._log += found
        if not self._several:
            self._tell(found)
            return
        truncates = [message for message in self._log if message.op == "t"]
        is_truncated = any(message.op == "t" for message in found)
        for key in dict.fromkeys(map(identity, self._log if is_truncated else found)):
            self._forget(key)
            # Each key has a truncate in a place of its own: behind what the partition of that had of the key.
            self._truncates = []
            own = [message for message in self._log if key is not None and identity(message) == key]
            self._tell(in_order(with_reached(with_deletes([*own, *truncates]))), key)

    def _forget(self, key: Key | None) -> None:
        self._keys.pop(key, None)
        self._ended = {at: [one for one in rows if one[0].key != key] for at, rows in self._ended.items()}

    def _tell(self, messages: Iterable[Message], only: Key | None = None) -> None:
        for message in messages:
            if message.op == "t":
                self._wipe(message, list(self._keys) if only is None else [only])
            elif (key := identity(message)) is not None:
                self._keys[key] = self._after(self._keys.get(key, KeyState()), message)

    def rows(self) -> dict[Key, Row]:
        """What the mirror shows, by key."""
        shown = {key: state.published for key, state in self._keys.items() if state.published is not None}
        return {key: {name: self._resolved(value) for name, value in row.items()} for key, row in shown.items()}

    def _resolved(self, value: Any) -> Any:  # noqa: ANN401 - any value of a row
        while isinstance(value, From):
            insert = value.insert
            ended = self._ended.get(insert.position, []) if insert.position is not None else []
            # Rows of one statement can share a position: then the delete directly before the insert is its half.
            here = {one.offset: row for one, row in ended if one.partition == insert.partition}
            before = max((offset for offset in here if offset <= insert.offset), default=None)
            row = here[before] if before is not None else ended[0][1] if len(ended) == 1 else None
            value = row.get(value.column) if row is not None else None
        return value

    def _wipes(self, message: Message) -> bool:
        is_ordered = not self._several or message.position is not None
        return message.op == "t" and self._truncate == "apply" and is_ordered and not message.held

    def _wipe(self, truncate: Message, keys: Iterable[Key]) -> None:
        if not self._wipes(truncate) or was_truncated(truncate, self._truncates):
            return
        for key in keys:
            state = self._keys.get(key, KeyState())
            if state.owned is not None and is_ended(state.owned, truncate):
                self._keys[key] = replace(state, owned=None)
            if state.made is not None and is_ended(state.made, truncate):
                self._keys[key] = after_delete(self._keys[key])
            elif state.wrote is not None and is_ended(state.wrote, truncate):
                # What is held since was made behind the truncate, and later messages stand on that.
                self._keys[key] = replace(self._keys[key], published=None, wrote=None)
        self._truncates.append(truncate)

    def _after(self, state: KeyState, message: Message) -> KeyState:
        """The key's state after one more message, as §2.3 says."""
        if message.op == "tombstone":
            message = with_position_of_its_delete(message, state.before)
            state = forgotten(state) if message.position is None else state
        state = replace(state, before=message)
        if message.held:
            return after_unread(replace(state, shows=message))
        if message.op is None or is_replay(message, state):
            return shown_again(state, message)
        # In several partitions a truncate that was sent ahead of a copy may be read behind it.
        was_sent = not self._several and is_copy(message, state, self._truncates)
        ended = state.row if state.row is not None and not was_sent else self._ended_before(state, message)
        was_read = event(message) in state.read
        state = with_high_water(with_sent(state, message, is_new=not was_sent), message)
        if was_sent:
            self._keep(message, ended)
        if was_sent or collides(state, message):
            return state
        message = of_its_owner(state, message)
        is_wiped_before = any(is_ended(message, truncate, was_read=was_read) for truncate in self._truncates)
        state = state if is_wiped_before else with_owner(state, message)
        # What a delete ends may have no position, so that no truncate of another partition ends it.
        is_end = self._several and message.op in {"d", "tombstone"}
        if is_wiped_before and not is_end:
            return state
        if message.op in {"d", "tombstone"}:
            self._keep(message, ended)
            return after_delete(state)
        return judged(state, after_row(state, message), self._passes)

    def _ended_before(self, state: KeyState, delete: Message) -> dict[str, Any] | None:
        """The row that a delete ended which another server sends again: that of when it came first (§0.1)."""
        if self._several or delete.op != "d" or not repeats(delete, state):
            return None
        known = [ended for rows in self._ended.values() for ended in rows if ended[0].key == delete.key]
        return next((row for one, row in reversed(known) if numbered(one) == numbered(delete)), None)

    def _keep(self, delete: Message, row: dict[str, Any] | None) -> None:
        """Keep the row that a delete has ended, for the key change that it may be half of."""
        if delete.op == "d" and delete.position is not None:
            self._ended[delete.position] = [*self._ended.get(delete.position, []), (delete, row)]


def as_sent(batch: Iterable[Message]) -> list[Message]:
    """A batch's messages in the order of their offsets; nothing else is an order inside a partition (§0 rule 2)."""
    return list(batch)


def identity(message: Message) -> Key | None:
    """Which row a message is about: that of its key, never that of an image (§0 rule 1)."""
    return message.key


def forgotten(state: KeyState) -> KeyState:
    """A delete without its place may come again unknown, and the row behind it with it: that one is new each time.

    But nothing from before a delete that tells its place is.
    """
    end = state.deleted
    read = [one for one in state.read if end is not None and one[0] < reach(end)]
    return replace(state, highest=end, shown=state.shown_by_then, read=read, sent=(), shows=None)


def with_position_of_its_delete(tombstone: Message, before: Message | None) -> Message:
    """A tombstone never has a position: it has that of the delete directly before it (§2.4)."""
    if before is None or before.op != "d":
        return tombstone
    found = replace(tombstone, position=before.position, transaction=before.transaction)
    return replace(found, streaming=before.streaming, table=before.table)


def event(message: Message) -> Any:  # noqa: ANN401 - only compared
    """What makes two messages the same event: position, operation and image, never the connector's clock (§0.2).

    Rows of snapshots have a position in common, and a clock of their own: when they were read. What a change found
    tells it from others of its transaction that have its place, or its number there.
    """
    read_ms = message.source_ms if message.op == "r" else None
    return message.position, message.op, message.image, message.before, message.order, read_ms


def mark(message: Message) -> Position | None:
    """A streaming change's place in the log; snapshot rows have none that counts (§2.3)."""
    return message.position if message.streaming and message.op is not None else None


def moment(position: Position) -> Position:
    """What orders changes: of a binlog's position not the row, and of SQL Server's and Db2's the commit alone.

    In a transaction that was written compressed, all at one place, rows begin anew with each statement (§2.1, MySQL).
    The changes of one commit of SQL Server's come in the order of its commands, and their numbers do not.
    """
    if is_of_binlog(position):
        return position[:3]
    is_of_commit = len(position) == 3 and isinstance(position[0], str)
    return position[:1] if is_of_commit else position


def is_of_binlog(position: Position) -> bool:
    """Whether a position is file, number, place and row of a binlog."""
    return len(position) == 4 and isinstance(position[0], str)


def reach(position: Position) -> Position:
    """What snapshots are held against: theirs tell no last commit, so only a PostgreSQL change's own number counts."""
    is_pair = len(position) == 2 and all(isinstance(part, int) for part in position)
    return max(position, (position[1], position[1])) if is_pair else position


def is_replay(message: Message, state: KeyState) -> bool:
    """Whether a message was sent before: below the high-water mark, or the same event again at it (§2.3).

    A row of a snapshot is never one by its position. But the very same reading again, behind a later change, is.
    """
    if state.highest is None or message.position is None:
        return False
    if message.op == "r":
        return message.position < reach(state.highest) and event(message) in state.read
    here = mark(message)
    if here is None:
        return False
    is_same = moment(here) == moment(state.highest)
    return event(message) in state.shown if is_same else here < state.highest


def is_copy(message: Message, state: KeyState, truncates: Iterable[Message]) -> bool:
    """Whether another server has sent a change again, from its own files, and the key shows it or something newer.

    What was shown from the same file, by a snapshot, or without a number, may be older: then it is applied once more,
    as is all that follows it from there.
    """
    shown, file = state.shows, file_of(message)
    if not repeats(message, state) or shown is None or shown.transaction is None or file_of(shown) == file:
        return False
    between = [one for one in truncates if (shown.position or ()) < (one.position or ()) < (message.position or ())]
    if any(file_of(one) != file_of(shown) for one in between):
        # An earlier one that came again has ended it.
        return False
    if shown.transaction == message.transaction:
        # The same transaction: what it had shown of it.
        piece = next(piece for piece in reversed(state.sent) if shown in piece)
        return numbered(message) in map(numbered, piece)
    log, number = message.transaction or ("", 0)
    return shown.transaction[0] == log and shown.transaction[1] > number


def repeats(message: Message, state: KeyState) -> bool:
    """Whether a server has a change no more often, in what it has of its transaction in one piece, than another had."""
    if message.transaction is None or mark(message) is None:
        return False
    pieces = with_piece(state.sent, message)
    counts = [sum(numbered(one) == numbered(message) for one in piece) for piece in pieces]
    return any(count >= counts[-1] for count in counts[:-1])


def with_piece(sent: Sequence[Sequence[Message]], message: Message) -> list[Sequence[Message]]:
    """The changes of numbered transactions, those that a server has in one piece together, with one more."""
    goes_on = bool(sent) and is_of_piece(message, sent[-1])
    return [*sent[:-1], [*sent[-1], message]] if goes_on else [*sent, [message]]


def is_of_piece(message: Message, piece: Sequence[Message]) -> bool:
    """Whether a change goes on with a transaction in the file of one server."""
    last = piece[-1]
    return (message.transaction, file_of(message)) == (last.transaction, file_of(last))


def file_of(message: Message) -> Position | None:
    """The file of a binlog that a change is in."""
    return None if message.position is None else message.position[:-2]


def numbered(message: Message) -> Any:  # noqa: ANN401 - only compared
    """What a change of a numbered transaction is on every server: replicas keep the time at which it was made."""
    seen = (message.op, message.image, message.before, message.order)
    return message.transaction, seen, message.source_ms, message.table


def with_sent(state: KeyState, message: Message, *, is_new: bool) -> KeyState:
    """Remember what the key shows, and a change of a numbered transaction."""
    is_numbered = message.transaction is not None and mark(message) is not None
    sent = with_piece(state.sent, message) if is_numbered else state.sent
    return replace(state, sent=sent, shows=message if is_new else state.shows)


def with_high_water(state: KeyState, message: Message) -> KeyState:
    """Raise the high-water mark to a streaming change; snapshot rows never set it (§2.3)."""
    here = mark(message)
    if here is None:
        return replace(state, read=[*state.read, event(message)]) if message.op == "r" else state
    goes_on = state.highest is not None and moment(here) == moment(state.highest)
    shown = state.shown if goes_on else []
    if message.op == "d" and (state.deleted is None or moment(here) >= moment(state.deleted)):
        state = replace(state, deleted=here, shown_by_then=[*shown, event(message)])
    return replace(state, highest=max(here, state.highest or here), shown=[*shown, event(message)])


def collides(state: KeyState, message: Message) -> bool:
    """Whether a message is about another table's row that has the key of a live one (design §4.5, KEY_COLLISION)."""
    owner = None if state.owned is None else state.owned.table
    return None not in (owner, message.table) and owner != message.table


def of_its_owner(state: KeyState, message: Message) -> Message:
    """A message that names no source table speaks of the one whose row has the key."""
    return replace(message, table=state.owned.table) if message.table is None and state.owned is not None else message


def with_owner(state: KeyState, message: Message) -> KeyState:
    """The key is its row's source table's until that ends the row."""
    return replace(state, owned=None if message.op in {"d", "tombstone"} else message)


def is_wiped(message: Message, truncate: Message) -> bool:
    """Whether a truncate deletes what a message wrote: by position, else in one partition by offset (§0.2)."""
    if None not in (message.table, truncate.table) and message.table != truncate.table:
        return False
    if message.position is not None and truncate.position is not None:
        return message.position < (reach(truncate.position) if message.op == "r" else truncate.position)
    return message.partition == truncate.partition and message.offset < truncate.offset


def is_ended(message: Message, truncate: Message, *, was_read: bool = False) -> bool:
    """Whether a truncate ends what a message wrote, which was read before or was not (§0.2, §0 rule 15).

    Behind it in its partition only what was there before it: what the key has shown, or was made no later. Anything
    else is of a database that was restored, or of another one, whatever its position.
    """
    is_behind = message.partition == truncate.partition and message.offset > truncate.offset
    is_new = is_behind and not was_read and message.source_ms > truncate.source_ms
    return not is_new and is_wiped(message, truncate)


def was_truncated(truncate: Message, earlier: Iterable[Message]) -> bool:
    """Whether a truncate was there before: sent again, it says nothing of what came between (§0.2)."""
    place = (truncate.position, truncate.table, truncate.partition)
    return truncate.position is not None and place in [(one.position, one.table, one.partition) for one in earlier]


def after_delete(state: KeyState) -> KeyState:
    """The row is gone, with all that an unavailable value could stand for; the high-water mark stays (§2.3)."""
    return replace(state, published=None, row=None, wrote=None, made=None, unread=False, told=frozenset())


def after_unread(state: KeyState) -> KeyState:
    """A message that could not be read may have set any column: what is known waits for the next that tells it."""
    return replace(state, unread=True, told=frozenset())


def shown_again(state: KeyState, message: Message) -> KeyState:
    """What nobody could read ahead of the row's last change, which comes again, was sent before that one."""
    if not message.streaming or state.made is None or message.image is None or event(message) != event(state.made):
        return state
    return replace(state, told=state.told | {name for name, value in message.image.items() if value is not UNAVAILABLE})


def after_row(state: KeyState, message: Message) -> KeyState:
    """An image makes or changes the row: one upsert, whatever the operation is called (§0 rule 7)."""
    assert message.image is not None, "only messages that are held have no image"
    base = started(state, message)
    # A column that the writer does not have keeps its value: missing is not NULL (§0 rule 12).
    row = {**(base.row or {}), **{name: told(base, message, name) for name in message.image}}
    known = base.told | {name for name, value in message.image.items() if value is not UNAVAILABLE}
    base = replace(base, row=row, told=known, made=message)
    if base.unread and not set(message.image) <= known:
        # It leaves a value out that an unreadable message may have set: held, and the last good row stays (§0.2).
        return base
    return replace(base, published=row, wrote=message)


def judged(before: KeyState, after: KeyState, passes: Callable[[Row], bool]) -> KeyState:
    """The last good version stays where the contract holds a row, and later messages stand on that row (design §5)."""
    assert after.row is not None, "an image makes a row"
    return after if passes(after.row) else replace(after, published=before.published, wrote=before.wrote)


def started(state: KeyState, message: Message) -> KeyState:
    """What an image stands on: an upsert on the row that is there, and the insert of a key change on nothing.

    But where a snapshot has read the row before the stream tells of its insert, what that leaves out is there.
    """
    assert message.image is not None, "only messages that are held have no image"
    left_out = {name for name, value in message.image.items() if value is UNAVAILABLE}
    if message.op != "c" or not left_out:
        return state
    if is_behind_reading(message, state):
        return replace(state, row={name: value for name, value in (state.row or {}).items() if name in left_out})
    return replace(state, row=None, unread=False, told=frozenset())


def is_behind_reading(message: Message, state: KeyState) -> bool:
    """Whether the key's row is what a snapshot has read later than where the stream is with a message.

    Then whatever has changed the row in between comes in the stream yet, and what an insert leaves out is the row's
    own: the old key may be another row's by then, and that of its delete is the wrong one.
    """
    made = state.made if state.row is not None else None
    if made is None or made.op != "r" or made.position is None or message.position is None:
        return False
    return made.position > reach(message.position)


def told(state: KeyState, message: Message, column: str) -> Any:  # noqa: ANN401 - any value of a row
    """A column's value after a message: what it says, or for a placeholder what the column had (§0 rule 5)."""
    assert message.image is not None, "only messages that are held have no image"
    value = message.image[column]
    if value is not UNAVAILABLE:
        return value
    # An insert never leaves a value out, unless it is half of a key change: then the old key's row has it.
    is_own = message.op != "c" or is_behind_reading(message, state)
    return (state.row or {}).get(column) if is_own else From(message, column)
