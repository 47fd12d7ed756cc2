"""What is told where Spark ends while it is used: never that it is a bug."""

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from cdc_materializer.errors import CommitConflict, CommitUnknown, ContractBlocked, LakeUnavailable, SparkEnded
from cdc_materializer.session.watch import has_ended, told, watched
from tests.model.lake_contract import again, append, create
from tests.unit.memory import MemoryBench, publishing


def _refused() -> NoReturn:
    raise ConnectionRefusedError


def _unanswered() -> NoReturn:
    raise Py4JError


def _spark(context: Any) -> Any:  # noqa: ANN401 - stands for a session
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context))


_HERE = _spark(SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
_STOPPED = _spark(SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True)))
_GONE = _spark(SimpleNamespace(sc=_refused))


@pytest.mark.parametrize(
    ("spark", "ended"),
    [(_HERE, False), (_STOPPED, True), (_GONE, True), (_spark(SimpleNamespace(sc=_unanswered)), True)],
)
def test_spark_has_ended_where_it_was_stopped_or_nobody_answers(spark: Any, ended: bool) -> None:  # noqa: ANN401, FBT001
    """It is asked; a session that was stopped from Python has nobody to ask."""
    assert has_ended(spark) is ended
    assert has_ended(_spark(None))


@pytest.mark.parametrize("failure", [ConnectionRefusedError(), Py4JError(), LakeUnavailable("It fails.", "Look.")])
def test_what_fails_where_spark_has_ended_is_told_as_that(failure: Exception) -> None:
    """With exit code 4: the next run goes on."""
    found = told(_GONE, failure)

    assert isinstance(found, SparkEnded)
    assert (found.exit_code, found.retryable) == (4, False)
    assert told(_HERE, failure) is failure


@pytest.mark.parametrize("failure", [CommitUnknown("a", "b"), CommitConflict("a", "b"), ContractBlocked("a", "b")])
def test_what_was_told_already_stays_told(failure: Exception) -> None:
    """Whatever has become of Spark since."""
    assert told(_GONE, failure) is failure


def test_an_unknown_outcome_is_told_though_the_clean_up_behind_it_failed_too() -> None:
    """It is what matters, and the exit code is 7."""

    def commit() -> None:
        try:
            raise CommitUnknown("Whether it happened cannot be told.", "Run again.")
        finally:
            _refused()

    with pytest.raises(CommitUnknown, match="cannot be told"), watched(_GONE):
        commit()


def test_a_bug_stays_one() -> None:
    """Spark is there, so it is not to blame."""
    with pytest.raises(ZeroDivisionError), watched(_HERE):
        _ = 1 / 0


def test_a_commit_in_the_midst_of_which_spark_ends_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog may have it, and there is no Java to ask; the next run finds out."""
    bench = MemoryBench()
    table = create(bench)

    def end() -> NoReturn:
        monkeypatch.setattr(bench.catalog, "load", lambda _path: _refused())
        raise Py4JNetworkError

    publishing(bench, end)
    with pytest.raises(CommitUnknown, match="cannot be told: Spark has ended"):
        append(bench, table, "one", 5)

    monkeypatch.undo()
    bench.catalog.fault = lambda _: None
    append(bench, again(bench), "one", 5)
    assert bench.rows(again(bench)) == ["one"]
