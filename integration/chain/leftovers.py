"""Finding the processes of a run, whoever their parents are by now: they all have its mark in their environment."""

import os
from pathlib import Path

#: The variable that every process of a run inherits; its value is the run's own.
MARK = "CDCM_CHAIN_RUN"


def processes_of(run: str) -> dict[int, str]:
    """The process ids, with the programs, of what was started by a run; none where the system does not tell."""
    wanted = f"{MARK}={run}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "comm").read_text(encoding="utf-8").strip()
        except OSError:  # it has just ended, or is not ours to look at
            continue
    found.pop(os.getpid(), None)
    return found
