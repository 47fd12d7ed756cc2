"""Starting a part of the chain for as long as it is needed."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

#: Seconds until each part was ready, by name; what had to be installed first is in it.
timings: dict[str, float] = {}


class Component(Protocol):
    """What every part of the chain can do."""

    def start(self) -> None:
        """Start it."""

    def ready(self) -> None:
        """Wait until it works."""

    def stop(self) -> None:
        """End it."""


C = TypeVar("C", bound=Component)


@contextmanager
def running(name: str, make: Callable[[], C]) -> Iterator[C]:
    """Make a part, start it, wait until it works, and stop it in the end whatever happens."""
    began = time.monotonic()
    component = make()
    try:
        component.start()
        component.ready()
        timings[name] = time.monotonic() - began
        yield component
    finally:
        component.stop()
