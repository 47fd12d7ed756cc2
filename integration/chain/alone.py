"""One at a time: what two runs side by side would both install or download."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_materializer import environment


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Wait until no other process of this user does `what`, a word that can be a file's name."""
    folder = environment.cache_folder() / "cdc-materializer" / "integration"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{what}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
