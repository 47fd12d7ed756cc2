"""Columns that are asked for again and again, built once for a JVM.

A column is a tree of names and functions and belongs to no DataFrame, but PySpark builds each part of it by a question
to the JVM. Whether a state ends its row was asked for some forty times a batch, and took six such questions each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext

_Built = TypeVar("_Built")


def built_once(build: Callable[..., _Built]) -> Callable[..., _Built]:
    """Let a function that builds columns from names and numbers do so once for each of its arguments.

    What it gives must not depend on anything else. A JVM that has ended takes its columns with it.
    """
    by_jvm: WeakKeyDictionary[object, dict[Hashable, _Built]] = WeakKeyDictionary()

    @wraps(build)
    def kept(*arguments: Hashable) -> _Built:
        known = by_jvm.setdefault(SparkContext._gateway, {})  # noqa: SLF001 - PySpark has no public name of its JVM
        if arguments not in known:
            known[arguments] = build(*arguments)
        return known[arguments]

    return kept
