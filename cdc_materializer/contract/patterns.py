"""Patterns in contracts, which are Java's: what Java does not read, or reads otherwise than other engines do.

Spark hands a pattern to Java with the first row of a batch. What another engine means by it is told before: a class of
POSIX's, say, is one of other letters in Java, and no error.
"""

import re
import warnings
from dataclasses import dataclass, field

#: What Python's regular expressions say of patterns that Java's refuse as well, or that make no sense there. In a class
#: Java takes a hyphen behind \w for itself.
_BROKEN = re.compile(
    r"unterminated|missing \)|unbalanced|nothing to repeat|multiple repeat|min repeat"
    r"|bad character range (?!\\[dDsSwW]-)"
)
_QUOTE = r"(?P<quote>\\Q(?P<quoted>.*?)(?:\\E|\Z))"
_ESCAPE = (
    r"(?P<escape>\\(?:x\{[^}]*\}?|x[0-9A-Fa-f]{0,2}|u[0-9A-Fa-f]{0,4}|[NpP]\{[^}]*\}?|b\{g\}|k<[^>]*>?"
    r"|[0-9]{1,4}|c.|.|\Z))"
)
_POSIX = r"(?P<posix>\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\])"
#: A bracket that closes stands for itself where it is the first of a class.
_OPEN = r"(?P<open>\[\^?\]?)"
_TIMES = r"(?P<repeat>\{(?:[0-9]*(?:,[0-9]*)?\})?)"
_GROUP = r"(?P<group>\((?:\?(?:P[<=>]?|<[=!]|<[^>()]*>?|[A-Za-z-]+[:)]?|.|\Z))?)"
_OTHER = r"(?P<other>.)"
_OUTSIDE = re.compile(f"{_QUOTE}|{_ESCAPE}|{_POSIX}|{_OPEN}|{_TIMES}|{_GROUP}|{_OTHER}", re.DOTALL)
_WITHIN = re.compile(rf"{_QUOTE}|{_ESCAPE}|{_POSIX}|{_OPEN}|(?P<close>\])|(?P<both>&&)|{_OTHER}", re.DOTALL)
#: Classes of POSIX's whose names Java does not merely begin with a capital.
_POSIX_NAMES = {"ascii": "ASCII", "xdigit": "XDigit"}
#: Letters behind a backslash that Java knows, and of these what a class may have.
_LETTERS = frozenset("aAbBcdDefGhHkNnpPrRsStuvVwWxXzZ")
_OF_CLASS = frozenset("acdDefhHNnpPrsStuvVwWx")
#: Those of them that mean the same to Python.
_SHARED = frozenset("aAbBdDfnrsStuwWx")
_FLAGS = frozenset("idmsuxU-")
_FLAGGED = re.compile(r"\(\?([A-Za-z-]*)([:)])")
_PLAIN_GROUPS = frozenset({"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_OCTAL = re.compile(r"[0-7]")
_OCTAL_BYTE = re.compile(r"[0-3][0-7]{2}")
_TIMES_MAX = 2**31 - 1
_TOO_LARGE = "it is too large"

#: What to write in place of what Java does not have.
_GROUPS = {
    "(?P<": "Java spells a named group (?<name>…)",
    "(?P=": r"Java spells a reference to a named group \k<name>",
    "(?#": "Java has no comment (?#…) in a pattern: leave it out",
    "(?(": "Java has no condition (?(1)…|…) in a pattern: write both ways out",
}
_FLAG_WORDS = {"a": r"Java has no (?a), and its \w, \d and \s are of ASCII alone: leave it out"}
_ESCAPES = {
    "Z": r"\Z is the very end to some, and in Java also before a last line break: write \z or $",
    "v": r"\v is a vertical tab to some, and any vertical blank in Java: write \x0B or [\n\x0B\f\r\x85\u2028\u2029]",
    "U": r"Java has no \U: write \x{…}",
}
_MALFORMED = {
    "u": (re.compile(r"u[0-9A-Fa-f]{4}"), r"\u has four hexadecimal digits, and \x{…} any number of them"),
    "x": (re.compile(r"x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\})"), r"\x has two hexadecimal digits, and \x{…} any number"),
    "N": (re.compile(r"N\{[^}]+\}"), r"\N has a character's name behind it, \N{…}; any but a line break is [^\n]"),
    "k": (re.compile(r"k<[^>]+>"), r"\k has a group's name behind it, \k<name>"),
    "c": (re.compile(r"c.", re.DOTALL), r"\c has a letter behind it"),
}


def broken_pattern(pattern: object) -> str | None:
    """Say why a pattern is none to judge by, and what to write instead; None where nothing is known against it.

    Told is what Java refuses, as far as that shows without Java, and what it takes for something else than others do.
    """
    if not isinstance(pattern, str):
        return "it is not text"
    reading = _Reading(pattern)
    told = reading.read()
    return told[0] if told else _broken("".join(reading.as_python))


def _broken(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about what Python may read otherwise some day
            re.compile(text)
    except re.error as error:
        return error.msg if _BROKEN.search(error.msg) else None
    except (OverflowError, RecursionError):
        return _TOO_LARGE
    return None


@dataclass
class _Reading:
    """One pattern, read from left to right as Java does."""

    pattern: str
    as_python: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    #: How many classes the place is within, and where in `as_python` the outermost begins.
    depth: int = 0
    begins: int = 0
    #: Whether that class has what Python has not.
    is_javas: bool = False
    is_nested: bool = False
    #: Whether blanks are left out.
    is_free: bool = False
    flags: set[str] = field(default_factory=set)
    groups: int = 0
    names: set[str] = field(default_factory=set)
    references: list[int] = field(default_factory=list)

    def read(self) -> list[str]:
        """Return what is wrong with the pattern, first things first."""
        at = 0
        while at < len(self.pattern):
            found = (_WITHIN if self.depth else _OUTSIDE).match(self.pattern, at)
            if found is None:  # `other` takes anything
                raise AssertionError(self.pattern)
            at = found.end()
            if found.lastgroup == "other" and self.is_free and not self.depth:
                at = self._free(found[0], at)
            else:
                getattr(self, f"_{found.lastgroup}")(found)
        if self.depth and self.is_nested:
            self.told.append(r"in Java a [ within a class begins one of its own, which does not end: write \[")
        for number in self.references:
            if number > self.groups:
                self.told.append(f"there is no group {number}")
        if "u" in self.flags and "i" not in self.flags:
            self.told.append(r"in Java (?u) is about (?i) alone: write (?U) for \w and the like of all scripts")
        return self.told

    def _free(self, character: str, at: int) -> int:
        """Pass over a blank, or a comment as a whole, as (?x) has it."""
        if character == "#":
            end = self.pattern.find("\n", at)
            return len(self.pattern) if end < 0 else end
        if not character.isspace():
            self.as_python.append(character)
        return at

    def _other(self, found: re.Match[str]) -> None:
        if self.depth and self.is_free and (found[0].isspace() or found[0] == "#"):
            self.told.append(r"with (?x) Java leaves out blanks and # within a class too: write a \ before them")
        self.as_python.append(found[0])

    def _quote(self, found: re.Match[str]) -> None:
        self.as_python.append(re.escape(found["quoted"]))

    def _posix(self, found: re.Match[str]) -> None:
        name = found[0][2:-2].removeprefix("^")
        letter = "P" if "^" in found[0] else "p"
        java = rf"\{letter}{{{_POSIX_NAMES.get(name, name.capitalize())}}}"
        if name == "word":
            java = r"\W" if letter == "P" else r"\w"
        self.told.append(f"Java spells {found[0][:-1]}] {java}, which needs no brackets around it")

    def _open(self, found: re.Match[str]) -> None:
        if self.depth == 0:
            self.begins = len(self.as_python)
        self.is_javas = self.is_nested = self.depth > 0
        self.depth += 1
        self.as_python.append(found[0])

    def _close(self, found: re.Match[str]) -> None:
        self.depth -= 1
        self.as_python.append(found[0])
        if self.depth == 0 and self.is_javas:
            self.as_python[self.begins :] = ["x"]

    def _both(self, found: re.Match[str]) -> None:
        self.is_javas = True
        self.as_python.append(found[0])
        if self.pattern[found.end() : found.end() + 1] not in {"[", "\\"}:
            what = "in Java && within a class is what both sides have in common"
            self.told.append(f"{what}: write & once, or brackets around what follows")

    def _repeat(self, found: re.Match[str]) -> None:
        least, _, most = found[0][1:-1].partition(",")
        if found[0].startswith("{,"):
            self.told.append(f"Java spells {found[0]} {{0{found[0][1:]}")
        elif not least:
            self.told.append(r"Java takes { for a number of times: write \{")
        elif max(int(least), int(most or 0)) > _TIMES_MAX:
            self.told.append(_TOO_LARGE)
        self.as_python.append(found[0])

    def _group(self, found: re.Match[str]) -> None:
        text = found[0]
        if text == "(" or (text.startswith("(?<") and text not in _PLAIN_GROUPS):
            self.groups += 1
            self._named(text)
            self.as_python.append("(")
        elif text in _PLAIN_GROUPS:
            self.as_python.append(text)
        elif flagged := _FLAGGED.fullmatch(text):
            self._flagged(flagged[1])
            # Of a place as of flags there is nothing to repeat.
            self.as_python.append("(?:" if flagged[2] == ":" else "^")
        else:
            self.told.append(_GROUPS.get(text, f"Java has no {text}"))

    def _named(self, text: str) -> None:
        if text == "(":
            return
        name = text[3:-1] if text.endswith(">") else ""
        self.names.add(name)
        if not _NAME.fullmatch(name):
            self.told.append("in Java the name of a group is letters and digits alone, a letter first")

    def _flagged(self, flags: str) -> None:
        on, _, off = flags.partition("-")
        for letter in sorted(set(flags) - _FLAGS):
            self.told.append(_FLAG_WORDS.get(letter, f"Java has no (?{letter})"))
        self.flags |= set(on)
        self.is_free = "x" in on or (self.is_free and "x" not in off)

    def _escape(self, found: re.Match[str]) -> None:
        body = found[0][1:]
        letter = body[:1]
        is_ascii = letter.isascii() and letter.isalnum()
        if not body:
            self.told.append("it ends with a backslash")
        elif is_ascii:
            wrong = self._digits(body) if letter.isdigit() else self._letter(letter, body)
            self.told += [wrong] if wrong else []
        is_shared = (not is_ascii or letter in _SHARED) and "{" not in body
        self.is_javas = self.is_javas or not is_shared
        self.as_python.append(found[0] if is_shared else "x")

    def _letter(self, letter: str, body: str) -> str | None:
        """What is wrong with a letter behind a backslash."""
        if self.depth and letter not in _OF_CLASS and letter in _LETTERS:
            also = r": write \x08 for a backspace" if letter == "b" else ""
            return rf"Java has no \{letter} within a class{also}"
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter not in _LETTERS:
            return rf"Java has no \{letter}"
        if letter in _MALFORMED and not _MALFORMED[letter][0].fullmatch(body):
            return _MALFORMED[letter][1]
        # A group has no name before the place where it begins.
        return f"there is no group {body[2:-1][:40]}" if letter == "k" and body[2:-1] not in self.names else None

    def _digits(self, digits: str) -> str | None:
        r"""What is wrong with a number behind a backslash: a group's, or with a zero first one in base 8."""
        if digits[0] == "0":
            wide = _OCTAL_BYTE.fullmatch(digits[1:])
            if not _OCTAL.match(digits[1:]):
                return r"Java has digits behind \0: write \x00"
            return rf"Java reads three digits behind \0, others two: write \x{int(wide[0], 8):02X}" if wide else None
        if self.depth:
            return r"Java has no reference to a group within a class: write \x01 and the like for characters"
        if byte := _OCTAL_BYTE.match(digits):
            return rf"\{byte[0]} is a number in base 8 to some, and a group in Java: write \x{int(byte[0], 8):02X}"
        self.references.append(int(digits[0]))
        return None
