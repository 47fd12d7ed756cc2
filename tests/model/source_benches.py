"""The sources that need no services, as the contract of sources handles them."""

from pathlib import Path

from cdc_materializer.source import RecordedSource
from cdc_materializer.testing import ScriptedSource, TopicBuilder, write_recorded_topic
from tests.model.source_contract import Headers

TOPIC = "shop.public.things"


class RecordedBench:
    """A folder of recorded topics, written anew after each message."""

    def __init__(self, folder: Path) -> None:
        self.source, self.topic = RecordedSource(folder), TOPIC
        self._folder = folder
        self.make_again()

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int = 0, headers: Headers | None = None
    ) -> None:
        """A line more."""
        self._built.add(key, value, partition=partition, headers=headers)
        self._write()

    def hole(self) -> None:
        """The next line has a later offset."""
        self._built.skip()

    def add_partition(self) -> None:
        """It is there with its first message."""

    def forget_before(self, offset: int) -> None:
        """The first lines go."""
        self._built.messages = [one for one in self._built.messages if one.partition or one.offset >= offset]
        self._write()

    def make_again(self) -> None:
        """Another file."""
        self._built = TopicBuilder(TOPIC)
        self._write()

    def _write(self) -> None:
        write_recorded_topic(self._folder, TOPIC, self._built.messages)


class ScriptedBench:
    """The broker in memory."""

    def __init__(self) -> None:
        self.source, self.topic = ScriptedSource(), TOPIC
        self.make_again()

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int = 0, headers: Headers | None = None
    ) -> None:
        """A message."""
        self.source.send(TOPIC, key, value, partition=partition, headers=headers)

    def hole(self) -> None:
        """The mark of a transaction."""
        self.source.skip(TOPIC)

    def add_partition(self) -> None:
        """One more."""
        self.source.add_partitions(TOPIC, 2)

    def forget_before(self, offset: int) -> None:
        """Retention."""
        self.source.forget_before(TOPIC, offset)

    def make_again(self) -> None:
        """Under another id."""
        self.source.create(TOPIC)
