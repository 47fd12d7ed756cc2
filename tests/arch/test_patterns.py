"""Patterns that Spark gets: none whose loop takes Java one call deeper with each turn."""

import ast
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.arch.conftest import Module

#: The signs of a pattern: a flag, an escaped sign or a set of signs are one; what opens a group, and what counts.
_SIGN = re.compile(
    r"\(\?[a-z]+\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|(?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<\w+>))?)|(?P<count>[*+?]|\{\d+(?:,\d*)?\})(?P<how>[+?]?)|.",
    re.DOTALL,
)


def _goes_deep(pattern: str) -> bool:
    """Whether it repeats, without an end, a group of alternatives or of parts that may be longer or shorter.

    Java matches such a loop by calls within calls, unless it is possessive.
    """
    varies, closed = [False], False
    for sign in _SIGN.finditer(pattern):
        count, was_closed = sign["count"], closed
        closed = False
        if sign["open"]:
            varies.append(False)
        elif sign[0] == ")" and len(varies) > 1:
            closed = varies.pop()
            varies[-1] |= closed
        elif count:
            if was_closed and (count in "*+" or count.endswith(",}")) and sign["how"] != "+":
                return True
            varies[-1] |= count[0] != "{" or "," in count
        else:
            varies[-1] |= sign[0] == "|"
    return False


@pytest.mark.parametrize(
    ("pattern", "deep"),
    [
        (r'^"([^"\\]|\\.)*"$', True),
        ("(?:a|b)+", True),
        ("(?i)(a*b){2,}", True),
        ("((a|b)c)*?", True),
        (r'^"([^"\\]++|\\.)*+"$', False),
        ("^([A-Za-z0-9+/]{4})*(==|=)?", False),
        ("(a|b)?(c|d){1,3}", False),
        (r"[(|)]*\(a|b\)*", False),
    ],
)
def test_a_loop_that_goes_deep_is_told(pattern: str, deep: bool) -> None:  # noqa: FBT001 - a table of patterns
    """A loop over alternatives, or over parts of any length, that gives nothing back."""
    assert _goes_deep(pattern) is deep


def test_no_pattern_goes_as_deep_as_a_text_is_long(modules: "tuple[Module, ...]") -> None:
    """A stack that overflows in a task ends Spark's JVM, and any text of some thousand signs would do it."""
    deep = [
        f"{module.place}:{node.lineno}"
        for module in modules
        for node in (module.nodes if "import functions as F" in module.text else ())
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and _goes_deep(_text(node))
    ]

    assert not deep, f"{deep}: make the loop possessive, `(a++|b)*+`, or have its group match the same length always."


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """What a text says, with an `x` where something is put into it; nothing for other constants."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return node.value if isinstance(node.value, str) else ""
