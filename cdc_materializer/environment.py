"""The process's environment, as far as it concerns the machine and not a pipeline.

``${NAME}`` in pipeline.yaml is config's business; everything else that looks at an environment variable is here.
"""

import getpass
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

#: Every variable that is read here, and what it is for; the reference is written from this. Empty is as unset.
VARIABLES: Mapping[str, str] = {
    "CDCM_JARS": "A folder of Java libraries: every `*.jar` in it is used, and nothing is downloaded.",
    "XDG_CACHE_HOME": "The folder of caches, an absolute path, in which `cdc-materializer/jars` keeps the Java "
    "libraries that were downloaded; unset: `~/.cache`.",
    "HOME": "The folder that `~` stands for, there and in paths of pipeline.yaml; unset: the one that the system knows "
    "of the user; empty: `/`.",
    "JAVA_HOME": "The Java to start, `bin/java` in this folder; unset: the `java` on the `PATH`.",
    "PATH": "Where `java` is looked for without `JAVA_HOME`.",
    "JAVA_TOOL_OPTIONS": "Options that every JVM takes by itself. Where they name a garbage collector, the one that a "
    "run would choose is left out.",
    "JDK_JAVA_OPTIONS": "Likewise, of every `java` command; the place for options of Spark's JVM that have a secret.",
    "_JAVA_OPTIONS": "Likewise, of every JVM.",
    "LOGNAME": "Who accepts a loss with `adopt`, for the record.",
    "USER": "Likewise, without the one before.",
    "LNAME": "Likewise.",
    "USERNAME": "Likewise; without any of the four the name is the system's.",
    "CDCM_CRASH_AT": "For tests: the point at which the process kills itself (`mirror.staged`); one that there is not "
    "is an error that names those that there are.",
}

_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def jars_folder() -> Path | None:
    """Return the folder that ``CDCM_JARS`` names, for those who ship their own Java libraries; None when unset."""
    return _path("CDCM_JARS")


def cache_folder() -> Path:
    """Return the user's cache folder: ``XDG_CACHE_HOME``, else ``~/.cache``.

    A relative ``XDG_CACHE_HOME`` is ignored, as the XDG base directory specification asks.
    """
    named = _path("XDG_CACHE_HOME")
    return named if named is not None and named.is_absolute() else Path("~/.cache").expanduser()


def java_home() -> Path | None:
    """Return the folder that ``JAVA_HOME`` names; None when unset."""
    return _path("JAVA_HOME")


def java_on_path() -> Path | None:
    """Return the ``java`` that a shell would start; None when there is none."""
    found = shutil.which("java", path=_value("PATH"))
    return Path(found) if found else None


def user_name() -> str:
    """Return the name of the user who runs the process; its number where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def crash_at() -> str | None:
    """Return the point at which ``CDCM_CRASH_AT`` asks the process to die; None when unset. See `crash_points`."""
    return _value("CDCM_CRASH_AT")


def java_options() -> str:
    """What every JVM of this machine is started with, beside its command line."""
    return " ".join(_value(name) or "" for name in _JAVA_OPTIONS)


def java_option_lines() -> frozenset[str]:
    """The lines of the same, each variable's of its own: where it has several, a JVM repeats it as it is."""
    said = [line.strip() for name in _JAVA_OPTIONS for line in (_value(name) or "").splitlines()]
    return frozenset(filter(None, said))


def _path(variable: str) -> Path | None:
    value = _value(variable)
    return Path(value) if value is not None else None


def _value(variable: str) -> str | None:
    return os.environ.get(variable) or None
