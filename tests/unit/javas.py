"""A `java` made of a few lines of shell."""

from pathlib import Path

VERSION_LINE = 'openjdk version "{}" 2025-04-15'


def make_java(home: Path, version_line: str = VERSION_LINE.format("17.0.15"), ivy: str = "exit 9") -> Path:
    """Write a `java` that answers `-version`, and for anything else runs the shell lines `ivy`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\nif [ \"$1\" = -version ]; then echo '{version_line}' >&2; exit 0; fi\n{ivy}\n")
    java.chmod(0o755)
    return java
