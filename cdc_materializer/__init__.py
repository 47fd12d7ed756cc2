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
    from cdc_materializer.adopt import Decision, adopt_table
    from cdc_materializer.config import load_config
    from cdc_materializer.explain.explain import Asked, why
    from cdc_materializer.moments.moments import Moment, as_of
    from cdc_materializer.proof.proof import VerifyOptions
    from cdc_materializer.proof.proof import verify_tables as verify
    from cdc_materializer.query.fresh import Fresh, read, read_fresh
    from cdc_materializer.query.query import run_query
    from cdc_materializer.rebuild.rebuild import ReplayOptions, let_go, roll_back
    from cdc_materializer.rebuild.rebuild import replay_tables as replay
    from cdc_materializer.rebuild.start import parse_start
    from cdc_materializer.release import Wanted, release_held
    from cdc_materializer.retry import Deadline
    from cdc_materializer.run.run import RunOptions, run_forever, run_once
    from cdc_materializer.versions import type_2, type_2_query

__all__ = [
    "Asked",
    "Deadline",
    "Decision",
    "Fresh",
    "Moment",
    "ReplayOptions",
    "RunOptions",
    "VerifyOptions",
    "Wanted",
    "__version__",
    "adopt_table",
    "as_of",
    "let_go",
    "load_config",
    "parse_start",
    "read",
    "read_fresh",
    "release_held",
    "replay",
    "roll_back",
    "run_forever",
    "run_once",
    "run_query",
    "type_2",
    "type_2_query",
    "verify",
    "why",
]

__version__ = "0.1.0"

#: Where each public name is, and what it is called there. No module has the name of one: importing it would put the
#: module in the place of what is meant.
_HOMES = {
    "Asked": ("cdc_materializer.explain.explain", "Asked"),
    "Deadline": ("cdc_materializer.retry", "Deadline"),
    "Decision": ("cdc_materializer.adopt", "Decision"),
    "Fresh": ("cdc_materializer.query.fresh", "Fresh"),
    "Moment": ("cdc_materializer.moments.moments", "Moment"),
    "ReplayOptions": ("cdc_materializer.rebuild.rebuild", "ReplayOptions"),
    "RunOptions": ("cdc_materializer.run.run", "RunOptions"),
    "VerifyOptions": ("cdc_materializer.proof.proof", "VerifyOptions"),
    "Wanted": ("cdc_materializer.release", "Wanted"),
    "adopt_table": ("cdc_materializer.adopt", "adopt_table"),
    "as_of": ("cdc_materializer.moments.moments", "as_of"),
    "let_go": ("cdc_materializer.rebuild.rebuild", "let_go"),
    "load_config": ("cdc_materializer.config", "load_config"),
    "parse_start": ("cdc_materializer.rebuild.start", "parse_start"),
    "read": ("cdc_materializer.query.fresh", "read"),
    "read_fresh": ("cdc_materializer.query.fresh", "read_fresh"),
    "release_held": ("cdc_materializer.release", "release_held"),
    "replay": ("cdc_materializer.rebuild.rebuild", "replay_tables"),
    "roll_back": ("cdc_materializer.rebuild.rebuild", "roll_back"),
    "run_forever": ("cdc_materializer.run.run", "run_forever"),
    "run_once": ("cdc_materializer.run.run", "run_once"),
    "run_query": ("cdc_materializer.query.query", "run_query"),
    "type_2": ("cdc_materializer.versions", "type_2"),
    "type_2_query": ("cdc_materializer.versions", "type_2_query"),
    "verify": ("cdc_materializer.proof.proof", "verify_tables"),
    "why": ("cdc_materializer.explain.explain", "why"),
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that has it, at its first use."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """List the public names before they are imported, for completion in a shell."""
    return sorted([*globals(), *_HOMES])
