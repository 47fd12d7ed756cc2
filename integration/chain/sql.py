"""A conversation with a database through its own command-line client, so that what is read is what the database says.

No driver turns a value into something else on the way. Statements run one after another in one session, and several
sessions make interleaved transactions.
"""

import itertools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import TracebackType
from typing import Protocol, Self

from integration.chain.leftovers import MARK
from integration.chain.process import ChainError, ends_with_us

_marks = itertools.count()


class Session:
    """One session of ``psql`` or ``mariadb``; use it as a context manager."""

    def __init__(self, command: Sequence[str], mark: str, environment: Mapping[str, str]) -> None:
        """Open a session.

        Args:
            command: the client, told to print rows unaligned without headings, and to end at the first error; its
                name is `program`.
            mark: a client's command that prints its argument, with ``{}`` for that.
            environment: all of the client's environment, but for the run's mark.
        """
        self.program = PurePath(command[0]).name
        self._mark = mark
        self._client = subprocess.Popen(
            [*ends_with_us(), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**environment, MARK: os.environ.get(MARK, "")},
        )

    def run(self, *statements: str) -> list[str]:
        """Run statements and return the lines that they print.

        Raises:
            ChainError: one fails; the session is over then.
        """
        mark = f"--done-{next(_marks)}--"
        text = "".join(f"{statement.strip().removesuffix(';')};\n" for statement in statements)
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        try:
            self._client.stdin.write(f"{text}{self._mark.format(mark)}\n")
            self._client.stdin.flush()
        except BrokenPipeError:
            self._fail(statements)
        lines: list[str] = []
        for line in self._client.stdout:
            if line.rstrip("\n") == mark:
                return lines
            lines.append(line.rstrip("\n"))
        self._fail(statements)
        return lines

    def rows(self, query: str) -> list[dict[str, str | None]]:
        """Return the rows of a query whose one column is JSON."""
        return [json.loads(line) for line in self.run(query) if line]

    def value(self, query: str) -> str:
        """Return the one value of a query."""
        (line,) = self.run(query)
        return line

    def close(self) -> None:
        """End the session; what is not committed is rolled back."""
        self._client.kill()
        self._client.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fail(self, statements: Sequence[str]) -> None:
        _, complaint = self._client.communicate()
        message = f"{complaint.strip() or 'the session ended'} in: {'; '.join(statements)[:500]}"
        raise ChainError(message)


class Database(Protocol):
    """A database server that sessions can be opened on."""

    def session(self, database: str) -> Session:
        """Open a session on one of its databases."""


@contextmanager
def sessions(server: Database, database: str, count: int) -> Iterator[tuple[Session, ...]]:
    """Several sessions at once, for transactions that interleave."""
    opened = tuple(server.session(database) for _ in range(count))
    try:
        yield opened
    finally:
        for session in opened:
            session.close()
