"""Commands that are printed to be copied: with the pipeline's file, where it is not the one that is looked for."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

#: Where the pipeline's file is looked for when nobody names one (design section 4.1).
PIPELINE_FILE = Path("pipeline.yaml")
# In backticks, as every sentence writes them; `demo` has no file, and what asks for help needs none.
_COMMAND = re.compile(
    r"`cdcm (?:adopt|as-of|contract|doctor|init|maintain|quarantine|query|replay|report|run|status|verify|why)"
    r"(?=[ `])(?![^`]*(?: -c | --help))[^`]*(?=`)"
)
# Fields of reports that are sentences of ours; others have values of rows, and words of contracts and of users.
_SENTENCES = frozenset(
    {
        *("contract_error", "do", "explanation", "hint", "message", "notes", "orphans_left"),
        *("remarks", "remedy", "says", "summary"),
    }
)
_Told = TypeVar("_Told", bound="BaseModel")


class NextSteps:
    """Names the pipeline's file in commands that a text or a report tells the user to type.

    Attributes:
        option: what comes behind a command; empty where the file is the one that is looked for.
    """

    def __init__(self, config: Path | None = None) -> None:
        """Begin with a file, or with the one that is looked for."""
        self.option = ""
        self.name_file(config)

    def name_file(self, config: Path | None) -> None:
        """From now on name this file, as the user wrote it; None, or the default: it is where it is looked for."""
        self.option = "" if config in {None, PIPELINE_FILE} else f" -c {_quoted(str(config))}"

    def in_text(self, text: str) -> str:
        """Return ``text`` with the file in its commands."""
        return _COMMAND.sub(lambda found: found[0] + self.option, text) if self.option else text

    def in_report(self, report: _Told) -> _Told:
        """The same of all sentences of a report."""
        if not self.option:
            return report
        told = {
            name: self._in_value(getattr(report, name), is_sentence=name in _SENTENCES)
            for name in type(report).model_fields
        }
        return report.model_copy(update=told)

    def _in_value(self, value: object, *, is_sentence: bool) -> object:
        from pydantic import BaseModel  # a tenth of a second that `cdcm --help` has no use for

        if isinstance(value, BaseModel):
            return self.in_report(value)
        if type(value) is str and is_sentence:
            return self.in_text(value)
        if isinstance(value, list) and all(isinstance(one, str | BaseModel) for one in value):
            return [self._in_value(one, is_sentence=is_sentence) for one in value]
        return value


def _quoted(path: str) -> str:
    """A path as a shell takes it, without a backtick: what shows a sentence takes these for the ends of its code."""
    if "`" not in path:
        return shlex.quote(path)
    escaped = path.replace("\\", "\\\\").replace("'", "\\'").replace("`", "\\140")
    return f"$'{escaped}'"


#: What writes commands as they are.
NO_FILE = NextSteps()
