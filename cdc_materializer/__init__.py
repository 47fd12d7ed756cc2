"""Keeps Apache Iceberg tables equal to database tables, from change events, under a data contract.

As a library, with the Spark session of a notebook or a cluster job where there is one::

    from cdc_materializer import load_config, run_once

    report = run_once(load_config("pipeline.yaml"), spark=spark)

The public names are imported when they are first used, so that ``import cdc_materializer`` and every command that
needs no data stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc_materializer.config import load_config
    from cdc_materializer.fresh import read
    from cdc_materializer.run import run_once
    from cdc_materializer.versions import type_2, type_2_query

__all__ = ["__version__", "load_config", "read", "run_once", "type_2", "type_2_query"]

__version__ = "0.1.0"

_HOMES = {
    "load_config": "cdc_materializer.config",
    "read": "cdc_materializer.fresh",
    "run_once": "cdc_materializer.run",
    "type_2": "cdc_materializer.versions",
    "type_2_query": "cdc_materializer.versions",
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that has it, at its first use."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names before they are imported, for completion in a shell."""
    return sorted([*globals(), *_HOMES])
