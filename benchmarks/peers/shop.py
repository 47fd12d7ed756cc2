"""The database that both ways mirror: the orders of `orders.py` as a table of PostgreSQL, and what happens to it."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.orders import COLUMNS, order
from integration.chain.postgres import Postgres
from integration.chain.sql import Session

TABLE = "public.orders"
DATABASE = "postgres"
#: Of a hundred changes: new rows, and deletes; the others update.
INSERTED, DELETED = 20, 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULLABLE = {name for name, (_, avro) in COLUMNS.items() if isinstance(avro, list)}


def load(postgres: Postgres, folder: Path, rows: int, seed: int) -> None:
    """Make the table, with its first rows."""
    columns = [
        f"{name} {physical}{'' if name in _NULLABLE else ' NOT NULL'}" for name, (physical, _) in COLUMNS.items()
    ]
    numbers = random.Random(seed)  # noqa: S311 - no secret
    file = folder / "orders.csv"
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(",".join(_texts(order(number, numbers))) + "\n" for number in range(rows))
    with postgres.session(DATABASE) as session:
        session.run(f"CREATE TABLE {TABLE} ({', '.join(columns)}, PRIMARY KEY (id))")
        session.run(f"\\copy {TABLE} FROM '{file}' CSV", "ANALYZE")


class Life:
    """What happens to the table: inserts, updates and deletes of rows that there are, by chance from a seed."""

    def __init__(self, rows: int, seed: int) -> None:
        """Take the number of the first rows."""
        self._live, self._new = list(range(rows)), rows
        self._numbers = random.Random(seed + 1)  # noqa: S311 - no secret

    def change(self, postgres: Postgres, changes: int, transaction: int) -> int:
        """Change the table, `transaction` statements a commit; the number of the row that the last one inserts."""
        statements = self._statements(changes)
        with postgres.session(DATABASE) as session:
            while some := list(islice(statements, transaction)):
                session.run("BEGIN", *some, "COMMIT")
        return self._new - 1

    def _statements(self, changes: int) -> Iterator[str]:
        """The last one inserts, so that the row of the highest number is the last to arrive."""
        for at in range(changes):
            drawn = self._numbers.randrange(100)
            if drawn < INSERTED or at == changes - 1 or not self._live:
                yield self._insert()
                continue
            place = self._numbers.randrange(len(self._live))
            number = self._live[place]
            if drawn < INSERTED + DELETED:
                self._live[place] = self._live[-1]
                self._live.pop()
                yield f"DELETE FROM {TABLE} WHERE id = {number}"
                continue
            row = order(number, self._numbers)
            pairs = zip(row, _literals(row), strict=True)
            values = ", ".join(f"{name} = {value}" for name, value in pairs if name != "id")
            yield f"UPDATE {TABLE} SET {values} WHERE id = {number}"

    def _insert(self) -> str:
        number, self._new = self._new, self._new + 1
        self._live.append(number)
        return f"INSERT INTO {TABLE} VALUES ({', '.join(_literals(order(number, self._numbers)))})"


def _texts(row: dict[str, Any]) -> list[str]:
    """The values as PostgreSQL reads them; an empty text is none."""
    due, placed = row["due"], _EPOCH + timedelta(microseconds=row["placed_at"])
    own = {
        "due": None if due is None else (_EPOCH + timedelta(days=due)).date().isoformat(),
        "placed_at": placed.replace(tzinfo=None).isoformat(sep=" "),
    }
    return ["" if value is None else str(value) for value in {**row, **own}.values()]


def _literals(row: dict[str, Any]) -> list[str]:
    return [f"'{text}'" if text else "NULL" for text in _texts(row)]


def line(moment: str) -> str:
    """An expression of PostgreSQL and of Spark alike that writes a row as one text.

    Args:
        moment: what writes `placed_at` with six digits behind the second.
    """
    own = {"placed_at": moment}
    texts = [f"coalesce({own.get(name, f'cast({name} AS {{text}})')}, '-')" for name in COLUMNS]
    return f"concat_ws('|', {', '.join(texts)})"


def rows_of(session: Session) -> Sequence[str]:
    """What PostgreSQL says that there is: each row as one text."""
    text = line("to_char(placed_at, 'YYYY-MM-DD HH24:MI:SS.US')").format(text="text")
    return session.run(f"SELECT {text} FROM {TABLE}")
