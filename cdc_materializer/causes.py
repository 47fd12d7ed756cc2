"""What is behind an error: the chain of Java's causes, which is walked here and nowhere else, and where it came from.

No text of it is passed on: that may have a row's values.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PACKAGE = "cdc_materializer"


def java_causes(error: BaseException) -> Iterator[Any]:
    """Java's throwables behind an error, outermost first; none where Java has no part.

    PySpark gives some Java exceptions as its own and keeps Java's behind them; Py4J has its own word for it.
    """
    cause: Any = getattr(error, "java_exception", None)
    cause = getattr(error, "_origin", None) if cause is None else cause
    while cause is not None:
        yield cause
        cause = cause.getCause()


def java_classes(error: BaseException) -> list[str]:
    """The simple names of the classes in an error's chain of Java causes, outermost first; none without Java."""
    return [str(cause.getClass().getSimpleName()) for cause in java_causes(error)]


def java_names(error: BaseException) -> list[str]:
    """The same classes with their packages, for names that several libraries have."""
    return [str(cause.getClass().getName()) for cause in java_causes(error)]


def where_from(failure: BaseException) -> str:
    """What an unexpected error is and where it came from, without its text."""
    own = [step for step in traceback.extract_tb(failure.__traceback__) if Path(step.filename).parent.name == _PACKAGE]
    causes = " < ".join([type(failure).__name__, *java_classes(failure)])
    return f"{causes} at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else causes
