"""How `cdcm run` ends when it is asked to: after the running batches, or at once when it is asked again."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol, TypeVar

from cdc_materializer.cli.output import Output

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: How shells count a program that a signal ended: this and the signal's number.
_SIGNAL_BASE = 128
#: How long a signal may go unnoticed at most.
_LOOK_SECONDS = 0.5
_SHOW_CURSOR = b"\x1b[?25h"


class InBackground(Protocol):
    """Runs a piece of work beside the main thread and returns what it returns, or raises what it raises."""

    def __call__(self, work: Callable[[], T]) -> T:
        """Run it."""


@contextmanager
def stop_on_signals(stop: threading.Event, output: Output) -> Iterator[InBackground]:
    """Set ``stop`` on the first SIGINT or SIGTERM; on the second leave the process at once.

    The work has to be run by what this gives: in a thread of its own, because PySpark puts its own SIGINT handler in
    place of ours when Spark is started from the main thread.
    Leaving at once is safe: nothing is published but by one commit, and the next run finds out where it was. Spark's
    JVM ends by itself when this process does.
    """

    def asked(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a signal handler
        if stop.is_set():
            with suppress(OSError):
                if output.shows_progress:
                    os.write(sys.stderr.fileno(), _SHOW_CURSOR + b"\n")
            os._exit(_SIGNAL_BASE + number)
        stop.set()
        # Whoever reads that, or does not, has no part in it: the main thread, which this is, ends after it in any case.
        with suppress(Exception):
            output.note("Ending after the batches that are being worked on. Once more: at once, which is safe too.")

    before = {number: signal.signal(number, asked) for number in _SIGNALS}
    try:
        yield _in_background
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def _in_background(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="run") as pool:
        running = pool.submit(work)
        # Python handles a signal when its main thread next does something; one that comes just before that sleeps
        # would wait as long as the work.
        while not wait([running], _LOOK_SECONDS).done:
            continue
        return running.result()
