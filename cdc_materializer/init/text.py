"""Pieces of the YAML that `cdcm init` writes: values that mean what they say, and comments that stay on their line."""

import re
import textwrap

import yaml

#: Width of the files that are written.
WIDTH = 120

# Words that no version of YAML takes for anything but text.
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*( [\w./-]+)*", re.ASCII)
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})


def scalar(text: str) -> str:
    """Return a text as one YAML scalar on one line, quoted where a reader could take it for something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**9).strip()


def comment(text: str, indent: int = 0) -> list[str]:
    """Return a text as lines of comment, broken at the width of the file; nothing in it can end the comment."""
    prefix = " " * indent + "# "
    clean = "".join(character if character.isprintable() else "?" for character in text)
    return textwrap.wrap(
        clean, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_long_words=False, break_on_hyphens=False
    )


def comment_with(command: str, text: str) -> str:
    """Return a comment that ends with a command; on one line however long it is, for it is there to be copied."""
    return f"# {text}:  " + "".join(character if character.isprintable() else "?" for character in command)


def commented(lines: list[str], indent: int) -> list[str]:
    """Return lines of YAML as comments that become YAML when `# ` is taken away."""
    return [f"{' ' * indent}# {line}" for line in lines]
