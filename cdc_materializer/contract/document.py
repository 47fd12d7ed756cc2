"""A contract file as text: YAML with the line of every value, and the list of what is wrong with it.

Numbers with a fraction are read as exact decimals, never as binary floats: a bound of 0.1 in the file is 0.1 in the
comparison. Dates and times stay the texts that they are written as, with and without quotes, as ODCS has them; so do
`10:30` and `0100`, which YAML 1.1 has as numbers in base 60 and 8, and YAML 1.2 and JSON do not.
"""

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from yaml.constructor import ConstructorError

from cdc_materializer.errors import ContractInvalid
from cdc_materializer.names import nearest

#: Where a value lies: keys and list indexes from the top of the document.
Place = tuple[str | int, ...]

#: A contract has hundreds of values; far more than this is an alias that multiplies itself.
NODES_MAX = 100_000
DEPTH_MAX = 64

CHARACTERS_MAX = 5_000_000


@dataclass(frozen=True)
class Problem:
    """One thing wrong: where, what and what to do. Quotes the file, never a table's rows."""

    place: Place
    line: int | None
    message: str
    do: str

    @property
    def where(self) -> str:
        """The place as people write it: ``schema[0].properties[2].quality[0]``; ``file`` for all of it."""
        return path_text(self.place)


def path_text(place: Place) -> str:
    """Write a place as ``schema[0].properties[2]``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "file"


def shown_path(path: Path, root: Path | None) -> str:
    """A file's name from a folder on, as the pipeline's file has it; without one what is given, or the bare name."""
    if root is not None:
        return os.path.relpath(path, root)
    return path.name if path.is_absolute() else str(path)


@dataclass
class Findings:
    """Collects problems with their lines, so that all of them are told and not only the first.

    ``root`` is the folder that the file's name starts from where it is told.
    """

    path: Path
    root: Path | None = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """The file's name, as errors have it."""
        return shown_path(self.path, self.root)

    def line(self, place: Place) -> int | None:
        """Line of a place, or of the nearest place around it that the file has."""
        for length in range(len(place), -1, -1):
            if (found := self.lines.get(place[:length])) is not None:
                return found
        return None

    def has_within(self, place: Place) -> bool:
        """Whether a problem was noted at a place or beneath it."""
        return any(problem.place[: len(place)] == place for problem in self.problems)

    def add(self, place: Place, message: str, do: str, line: int | None = None) -> None:
        """Note a problem at a place."""
        self.problems.append(Problem(place, line if line is not None else self.line(place), message, do))

    def raise_first(self) -> None:
        """Raise ContractInvalid for the first problem, with file and line, and say how many more there are."""
        if not self.problems:
            return
        first = self.problems[0]
        at = f"{self.shown}:{first.line}" if first.line else self.shown
        more = len(self.problems) - 1
        also = f" ({more} more: see `cdcm contract lint`.)" if more else ""
        what = f"Contract {at}, {first.where}: {first.message}"
        raise ContractInvalid(what, first.do + also)


class _ExactLoader(yaml.SafeLoader):
    """YAML's safe loader with exact numbers, to which dates and times are texts."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as PyYAML
        """As PyYAML does, with the line of what looks like a number and is none."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from error


def _exact(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Decimal | float:
    value = float(loader.construct_yaml_float(node))
    return Decimal(node.value.replace("_", "")) if math.isfinite(value) and ":" not in node.value else value


def _as_written(_: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(node.value)


#: Numbers in base 8 and 60.
_NO_NUMBER = re.compile(r"^[-+]?(?:0[0-7_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)$")
# The first pattern that fits decides, so this one stands before those of YAML 1.1.
_ExactLoader.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", _NO_NUMBER), *known]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_ExactLoader.add_constructor("tag:yaml.org,2002:float", _exact)
_ExactLoader.add_constructor("tag:yaml.org,2002:timestamp", _as_written)


def parse_exact(text: str) -> object:
    """Read YAML (and so JSON) with exact numbers; raises yaml.YAMLError or ValueError."""
    loader = _ExactLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_document(findings: Findings) -> dict[str, Any] | None:
    """Read the file as one YAML mapping and note the line of every value.

    Returns None, with the problem noted, for what is not readable, not YAML, or not a mapping.
    """
    text = _read_text(findings)
    if text is None:
        return None
    loader = _ExactLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            findings.add((), "the file is empty.", "Start from a file in contracts/.", line=1)
            return None
        for place, line, repeated in _walk(node):
            findings.lines.setdefault(place, line)
            if repeated:
                findings.add(place, "this key is written twice; YAML keeps only the last.", "Keep one.", line)
        data = loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error) or type(error).__name__
        findings.add((), f"not valid YAML: {reason}.", "Mend the file.", mark.line + 1 if mark else None)
        return None
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        findings.add((), "a contract is a mapping of keys, this is not one.", "Start from a file in contracts/.", 1)
        return None
    return data


def _read_text(findings: Findings) -> str | None:
    try:
        text = findings.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        findings.add((), "there is no such file.", "Mend the path, or write the contract.")
    except UnicodeDecodeError:
        findings.add((), "the file is not UTF-8 text.", "Save it as UTF-8.")
    except OSError as error:
        findings.add((), f"the file cannot be read: {error.strerror}.", "Check its permissions.")
    else:
        if len(text) <= CHARACTERS_MAX:
            return text
        findings.add((), "the file is larger than 5 MB.", "Split the contract: one table a file.")
    return None


def _walk(root: yaml.Node) -> Iterator[tuple[Place, int, bool]]:
    """Yield each place with its line, and whether its key repeats one before it."""
    stack: list[tuple[Place, yaml.Node, int]] = [((), root, root.start_mark.line + 1)]
    seen = 0
    while stack:
        place, node, line = stack.pop()
        seen += 1
        if seen > NODES_MAX or len(place) > DEPTH_MAX:
            message = "too many values (an alias that contains itself?)"
            raise ValueError(message)
        yield place, line, False
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                step = str(key.value)
                if step in keys and step != "<<":
                    yield (*place, step), key.start_mark.line + 1, True
                keys.add(step)
                stack.append(((*place, step), value, key.start_mark.line + 1))
        elif isinstance(node, yaml.SequenceNode):
            stack += [((*place, index), item, item.start_mark.line + 1) for index, item in enumerate(node.value)]


def find_unknown_keys(data: object, model: object, findings: Findings, place: Place = ()) -> None:
    """Note every key that the ODCS models do not know.

    The models ignore unknown keys below the top level, so that ``requierd: true`` would be no rule at all.
    """
    if isinstance(model, BaseModel) and isinstance(data, dict):
        fields = {info.alias or name: name for name, info in type(model).model_fields.items()}
        for key, value in data.items():
            if key in fields:
                find_unknown_keys(value, getattr(model, fields[key]), findings, (*place, key))
            else:
                near = nearest(str(key), list(fields))
                do = f"Did you mean {near!r}?" if near else "Remove it, or make it one of customProperties."
                findings.add((*place, str(key)), f"ODCS does not know the key {str(key)[:80]!r} here.", do)
    elif isinstance(model, Sequence) and isinstance(data, list) and not isinstance(model, str):
        for index, (item, entry) in enumerate(zip(data, model, strict=False)):
            find_unknown_keys(item, entry, findings, (*place, index))
