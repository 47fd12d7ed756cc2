"""How a source database is asked: within a time, for the slots that are meant, in the words of the server that answers.

Spark is a stand-in here that notes what it is to read; tests/spark/test_databases.py has servers that do not answer.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import pytest
from pyspark.errors import PySparkException

from cdc_materializer.config import DatabaseConfig
from cdc_materializer.dialects import SERVER, Position, Wanted
from cdc_materializer.errors import ConfigError, DatabaseUnavailable
from cdc_materializer.proof.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = Wanted(("public", "things"), {"c0": '"id"::text'}, ('"id"::text',))
ADDRESSES = {"postgresql": "jdbc:postgresql://db:5432/shop", "mysql": "jdbc:mysql://db:3306/"}


class _Frame:
    def collect(self) -> list[Any]:
        return []

    def drop(self, *_: str) -> "_Frame":
        return self


def _database(kind: str, read: list[Mapping[str, str]], **settings: object) -> Database:
    """A database of which the properties of each reading are noted."""

    def jdbc(url: str, _table: str, *, predicates: list[str], properties: Mapping[str, str]) -> _Frame:
        assert predicates
        read.append({**properties, "url": url})
        return _Frame()

    config = DatabaseConfig.model_validate({"url": ADDRESSES[kind], "user": "verifier", **settings})
    spark = SimpleNamespace(read=SimpleNamespace(jdbc=jdbc))
    return Database("shop", config, cast("SparkSession", spark))


@pytest.mark.parametrize(("kind", "unit"), [("postgresql", 1), ("mysql", 1000)])
def test_no_question_and_no_silence_is_without_a_limit(kind: str, unit: int) -> None:
    """A small question has an end; rows may take hours, as long as some come."""
    read: list[Mapping[str, str]] = []
    database = _database(kind, read)
    database.ask("SELECT 1", 7)
    database.rows(WANTED)

    assert [properties.get("queryTimeout") for properties in read] == ["7", None]
    assert [int(properties["socketTimeout"]) / unit for properties in read] == [7, 900]
    assert all(int(properties["connectTimeout"]) > 0 for properties in read)


def test_the_drivers_own_properties_come_first() -> None:
    """A network that needs longer is set so in pipeline.yaml."""
    read: list[Mapping[str, str]] = []
    database = _database("postgresql", read, properties={"socketTimeout": "5", "sslmode": "require"})
    database.rows(WANTED)

    assert {name: read[0][name] for name in ("socketTimeout", "sslmode")} == {
        "socketTimeout": "5",
        "sslmode": "require",
    }


def test_names_of_mixed_letters_reach_the_driver_of_postgresql_by_the_address() -> None:
    """Spark would pass them on in small letters, which this driver does not know; secrets have small letters."""
    read: list[Mapping[str, str]] = []
    more = {"ApplicationName": "c&d=e m", "sslpassword": "canary"}
    _database("postgresql", read, properties=more, password="canary").ask("SELECT 1", 7)  # noqa: S106 - none
    address, _, query = read[0]["url"].partition("?")

    assert address == ADDRESSES["postgresql"]
    assert dict(parse_qsl(query)) == {"connectTimeout": "30", "socketTimeout": "7", "ApplicationName": "c&d=e m"}
    assert "+" not in query


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_spark_takes_the_server_for_mysql(scheme: str) -> None:
    """Otherwise it would quote names as MariaDB quotes texts."""
    read: list[Mapping[str, str]] = []
    database = _database("mysql", read, url=f"jdbc:{scheme}://db:3306/", properties={"sslMode": "verify-full"})
    database.ask("SELECT 1")

    assert (read[0]["url"], read[0]["sslMode"]) == ("jdbc:mysql://db:3306/?permitMysqlScheme", "verify-full")


class _Told(Database):
    """A database with answers of a test's."""

    answers: Mapping[str, Sequence[dict[str, str | None]]]

    def ask(self, query: str, seconds: int = 60) -> list[dict[str, str | None]]:
        """The answer to the first part that the query has."""
        assert seconds
        return [*next(answer for part, answer in self.answers.items() if part in query)]


def _told(kind: str, answers: Mapping[str, Sequence[dict[str, str | None]]], **settings: object) -> _Told:
    plain = _database(kind, [], **settings)
    found = _Told(plain.name, plain.config, plain.spark)
    found.__dict__["answers"] = answers
    return found


def test_a_slot_that_is_configured_and_not_there_is_named() -> None:
    """Nothing would ever show how far the connector is."""
    with pytest.raises(ConfigError, match=r"no logical replication slot `debezium`\. Set `slot`"):
        _told("postgresql", {"pg_replication_slots": []}, slot="debezium").slots()

    assert _told("postgresql", {"pg_replication_slots": []}).slots() == {}


def test_a_slot_that_has_confirmed_nothing_is_at_no_place() -> None:
    """It is behind any position, and not to be passed over."""
    rows: list[dict[str, str | None]] = [{"name": "new", "at": None}, {"name": "old", "at": "17"}]

    assert _told("postgresql", {"pg_replication_slots": rows}).slots() == {"new": -1, "old": 17}


def test_the_server_that_answers_is_asked_in_its_words() -> None:
    """`jdbc:mysql:` is for MariaDB too."""
    answers: dict[str, list[dict[str, str | None]]] = {
        SERVER: [{"at": "10.11.19-MariaDB-0+deb12u1-log"}],
        "gtid_binlog_pos": [{"at": "0|0-1-57"}],
    }

    assert _told("mysql", answers).position() == Position(57, "gtid:0")
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    mysql: dict[str, list[dict[str, str | None]]] = {
        SERVER: [{"at": "8.4.3"}],
        "gtid_executed": [{"at": f"{uuid}|{uuid}:1-9"}],
    }
    assert _told("mysql", mysql).position() == Position(9, f"gtid:{uuid}")


def test_a_database_without_positions_is_refused() -> None:
    """MySQL with `gtid_mode=OFF`."""
    answers: dict[str, list[dict[str, str | None]]] = {SERVER: [{"at": "8.4.3"}], "gtid_executed": [{"at": "u|"}]}

    with pytest.raises(ConfigError, match="gtid_mode=ON"):
        _told("mysql", answers).position()


def _thrown(name: str, state: str | None = None, cause: object = None) -> SimpleNamespace:
    kind = SimpleNamespace(getSimpleName=lambda: name)
    return SimpleNamespace(getClass=lambda: kind, getSQLState=lambda: state, getCause=lambda: cause)


@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        (_thrown("SparkException", cause=_thrown("PSQLException", "28P01")), r"let this user in \(SQLSTATE 28P01\)"),
        (_thrown("SQLException", "42S02", _thrown("SQLTimeoutException", "08S01")), r"not answer \(SQLSTATE 08S01\)"),
        (_thrown("SparkException", cause=_thrown("EOFException")), r"refuses \(EOFException\)"),
    ],
)
def test_a_failure_is_told_by_its_innermost_state(thrown: SimpleNamespace, said: str) -> None:
    """PySpark keeps what Java has thrown behind its own error, and the driver's words are not passed on."""
    database, error = _database("postgresql", []), PySparkException("hush")
    error._origin = thrown  # type: ignore[attr-defined]

    with pytest.raises(DatabaseUnavailable, match=said) as caught, database.told():
        raise error

    assert "hush" not in str(caught.value)
