"""What a small batch costs that has to look into the past, on a big raw table, beside one whose changes are all new.

Messages that are sent again are held against all that their keys have shown, which raw tells. Both kinds of batch come
in turns, in one session, on the same table; that what was sent again changes nothing is checked.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import Cost, in_pairs, in_session, machine, options, session
from benchmarks.orders import TOPIC, write_orders
from cdc_materializer import run_once
from cdc_materializer.config import load_config

#: Messages of a batch, and batches of raw before the first of them.
MESSAGES, BATCHES = 12, 10


def main() -> int:
    """Measure and print one JSON document."""
    asked = options(__doc__, pairs=5).parse_args()
    work = asked.folder.resolve()
    folder, whole = work / "past", write_orders(work, asked.changes + 1_000, asked.encoding)
    topic = work / f"past-{asked.encoding}"
    lines = (whole / "recorded" / f"{TOPIC}.jsonl").read_text(encoding="utf-8").splitlines()
    grows = _Topic(whole, topic, lines, asked.changes)
    prepare(folder, topic, with_rules=False, records_max=-(-asked.changes // BATCHES))
    with session(load_config(folder / "pipeline.yaml")) as spark:

        def batch(name: str, send: Callable[[], None], *, is_new: bool) -> Cost:
            send()
            applied: list[int] = []

            def run() -> None:
                (told,) = run_once(load_config(folder / "pipeline.yaml"), spark).tables
                applied.append(told.upserted + told.deleted if told.read == MESSAGES else -1)

            cost = in_session(spark, run).told(name)
            if applied[0] < 0 or (applied[0] > 0) != is_new:
                raise RuntimeError(f"of {MESSAGES} messages {applied[0]} were applied")
            return cost

        if run_once(load_config(folder / "pipeline.yaml"), spark).exit_code:
            raise RuntimeError(f"{MIRROR} could not be made.")
        measured = in_pairs(
            lambda: batch("new", grows.by_new_ones, is_new=True),
            lambda: batch("sent again", grows.by_old_ones, is_new=False),
            asked.pairs,
        )
    told = {"benchmark": "past", "raw": asked.changes, "batch": MESSAGES, "encoding": asked.encoding, **machine()}
    sys.stdout.write(json.dumps(told | measured.as_json(("new", "sent again")), indent=2) + "\n")
    return 0


class _Topic:
    """A recorded topic that grows by messages which it had, or by rows' first ones."""

    def __init__(self, whole: Path, folder: Path, lines: list[str], begin: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        self._path, self._end, self._begin = folder / "recorded" / f"{TOPIC}.jsonl", begin, begin
        self._old = lines[begin // 2 :]
        self._new = iter(lines[begin:])
        self._path.write_text("\n".join(lines[:begin]) + "\n", encoding="utf-8")

    def by_old_ones(self) -> None:
        """Twelve that were there before, once more."""
        self._add(self._old[:MESSAGES])

    def by_new_ones(self) -> None:
        """The next twelve."""
        self._add([next(self._new) for _ in range(MESSAGES)])

    def _add(self, lines: list[str]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            for line in lines:
                told: dict[str, Any] = json.loads(line) | {"offset": self._end}
                file.write(json.dumps(told) + "\n")
                self._end += 1


if __name__ == "__main__":
    sys.exit(main())
