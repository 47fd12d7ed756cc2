"""Runs a pipeline once, and kills itself with SIGKILL at a step: ``killed_run.py PIPELINE MODULE STEP WHEN TABLE``.

STEP is a function of the product's module, or a method of a class of it; WHEN is ``before`` or ``after`` it; TABLE
names the table that one of its arguments has to be about, or is empty. Without a step the run goes to its end.
"""

import importlib
import os
import signal
import sys
from pathlib import Path

from cdc_materializer.config import load_config
from cdc_materializer.run.run import run_once


def die_at(module: str, step: str, when: str, table: str) -> None:
    """Replace the step by one that ends the process."""
    owner = importlib.import_module(f"cdc_materializer.{module}")
    *inner, name = step.split(".")
    for part in inner:
        owner = getattr(owner, part)
    original = getattr(owner, name)

    def step_and_die(*arguments: object, **options: object) -> object:
        if table and not any(str(getattr(argument, "name", "")) == table for argument in arguments):
            return original(*arguments, **options)
        if when == "after":
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, step_and_die)


if __name__ == "__main__":
    pipeline, *moment = sys.argv[1:]
    if moment:
        die_at(*moment)
    report = run_once(load_config(Path(pipeline)))
    sys.exit(report.exit_code)
