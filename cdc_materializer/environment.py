"""The process's environment, as far as it concerns the machine and not a pipeline.

``${NAME}`` in pipeline.yaml is config's business; everything else that looks at an environment variable is here.
"""

import getpass
import os
import shutil
from pathlib import Path


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
    found = shutil.which("java")
    return Path(found) if found else None


def user_name() -> str:
    """Return the name of the user who runs the process; its number where the system knows no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


def crash_at() -> str | None:
    """Return the point at which ``CDCM_CRASH_AT`` asks the process to die; None when unset. See `crash_points`."""
    return os.environ.get("CDCM_CRASH_AT") or None


def java_options() -> str:
    """What every JVM of this machine is started with, beside its command line."""
    return " ".join(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"))


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
