"""A table of random lives on its way through the pipeline: the topic that tells them, and what it must show."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_materializer.testing import TopicBuilder
from tests.model.history import KEYS, Event, Rows, table_after
from tests.model.layouts import Layout
from tests.model.topics import Sent, topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Row, SparkSession


@dataclass
class Telling:
    """One table on its way through the pipeline, and the lives that it tells."""

    seeds: Sequence[int]
    events: list[Event]
    #: How many events a crash sends again at most.
    reach: int
    partitions: tuple[int, int] | None = None
    layout: Layout = field(default_factory=Layout)
    #: Besides its lives' seeds.
    called: str = ""
    #: Whether a column says where a row's changes go, and partitions are read at unequal speed.
    uneven: bool = False
    messages: list[Sent] = field(init=False)
    builder: TopicBuilder = field(init=False)
    chance: random.Random = field(init=False)
    #: How many messages were written; None where the topic was written otherwise.
    written: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Send it all."""
        self.chance = random.Random(self.seeds[0])  # noqa: S311 - repeatable, not secret
        self.builder = TopicBuilder(f"model.public.{self.name}")
        # Lives that share a table have keys that differ by KEYS in one partition.
        key_of = self._key if len(self.seeds) == 1 else None
        routed = 1 if self.uneven else 0
        self.messages = topic(self.events, self.seeds[0], self.reach, self.partitions, key_of, routed=routed)
        for partition, key, value in self.layout.laid(self.builder.topic, self.events, self.messages):
            self.builder.add(key, value, partition=partition)

    def _key(self, event: Event) -> bytes:
        return self.layout.key(self.builder.topic, event) or b""

    @property
    def name(self) -> str:
        """The table's own name."""
        if self.called:
            return self.called
        return f"life{self.seeds[0]}" if len(self.seeds) == 1 else f"lives_from_{self.seeds[0]}"

    @property
    def mirror(self) -> str:
        """The mirror's name."""
        return f"model.{self.name}"

    def entry(self) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        settings = {"format": self.layout.format, "records_max": len(self.messages) // 3, **self.layout.settings}
        return {"topic": self.builder.topic, "mirror": self.mirror, **settings}

    def write(self, folder: "Path", part: float) -> Rows:
        """Write about that part of the topic, and return what the table must show then.

        Only for layouts with a message for each that is sent.
        """
        count = max(1, round(part * len(self.messages)))
        while not self.events[self.messages[count - 1].reached - 1].settled:
            count += 1
        shown = TopicBuilder(self.builder.topic)
        shown.messages, self.written = self.builder.messages[:count], count
        shown.write(folder)
        return self.rows_after(self.messages[count - 1].reached)

    def write_unevenly(self, folder: "Path", part: float) -> None:
        """Write another part of each partition, none of them less than the time before."""
        speeds = random.Random(self.seeds[0])  # noqa: S311 - repeatable, not secret
        lanes: dict[int, list[Any]] = {}
        for message in self.builder.messages:
            lanes.setdefault(message.partition, []).append(message)
        shown = TopicBuilder(self.builder.topic)
        for _, lane in sorted(lanes.items()):
            shown.messages += lane[: int(len(lane) * part ** speeds.uniform(0.2, 4))]
        shown.write(folder)

    def rows_after(self, reached: int) -> Rows:
        """What the table must show when so many events have been sent."""
        return table_after(self.events, reached)

    def difference(self, spark: "SparkSession", expected: Rows) -> dict[int, str]:
        """What the mirror shows otherwise than it must, and than the layout's producer makes it, by the life's seed."""
        rows = spark.table(f"lake.{self.mirror}").collect()
        found = {int(row["id"]): self.layout.shown(row.asDict()) for row in rows}
        if len(rows) != len(found):
            return {self.seeds[0]: "a key has two rows"}
        if not self._is_all_in_raw(spark):
            return {self.seeds[0]: "raw has not each message once"}
        strange = self._of_other_messages({int(row["id"]): row["__cdc"] for row in rows})
        if strange:
            return {self.seeds[0]: f"rows {strange} are not from the messages that they name"}
        known = self.layout.gone_back(self.messages)
        keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        keys = [key for key in keys if found.get(key) not in known.get(key, [])]
        by_seed: dict[int, str] = {}
        for key in keys:
            seed = key // KEYS or self.seeds[0]
            by_seed.setdefault(seed, f"key {key}: {found.get(key)} in place of {expected.get(key)}")
        return by_seed

    def _is_all_in_raw(self, spark: "SparkSession") -> bool:
        """Whether raw has each message that was written, once."""
        if self.written is None:
            return True
        rows = spark.table(f"lake.{self.mirror}__raw").select("partition", "offset").collect()
        sent = Counter((message.partition, message.offset) for message in self.builder.messages[: self.written])
        return Counter((row["partition"], row["offset"]) for row in rows) == sent

    def _of_other_messages(self, named: Mapping[int, "Row"]) -> list[int]:
        """The keys whose rows name a message of another key or operation; of layouts with one for each that is sent."""
        if type(self.layout) is not Layout:
            return []
        told = zip(self.builder.messages, self.messages, strict=True)
        known = {(laid.partition, laid.offset): (sent.event.key, sent.event.op) for laid, sent in told}
        places = {key: (cdc["partition"], cdc["offset"]) for key, cdc in named.items()}
        return [key for key, cdc in named.items() if known[places[key]] != (key, cdc["op"])]
