"""What a comparison of several tables tells, where something unexpected ends one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from cdc_materializer.errors import EXIT_BUG, EXIT_LAKE
from cdc_materializer.names import TableName
from cdc_materializer.proof import proof
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.report.models import TableVerify
from cdc_materializer.status import exit_code_of

_ROW = "a row's value"
_CONFIG: Any = SimpleNamespace(name="shop")


@pytest.mark.parametrize(
    ("failure", "code", "ends_with"),
    [(PySparkException(_ROW), "LakeUnavailable", EXIT_LAKE), (ValueError(_ROW), "BUG", EXIT_BUG)],
    ids=["Spark's", "a bug"],
)
def test_what_ends_one_table_is_told_beside_what_was_found_of_the_others(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, code: str, ends_with: int
) -> None:
    """What was repaired already is repaired, and somebody has to know; what comes behind is compared."""
    names = ("shop.one", "shop.two", "shop.three")
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
    )

    @contextmanager
    def session_for(*_: object, **__: object) -> Iterator[Any]:
        yield spark

    def compared(_work: object, _spark: object, table: Any, options: VerifyOptions) -> TableVerify:  # noqa: ANN401
        if str(table.mirror) == "shop.two":
            raise failure
        snapshot = 7 if options.repair else None
        return TableVerify(table=str(table.mirror), topic="t", method="fold", equal=False, repaired_snapshot=snapshot)

    tables = [SimpleNamespace(mirror=TableName.parse(name), topic="t") for name in names]
    work = SimpleNamespace(tables=tables, contracts={}, refused=())
    for name, stand_in in {
        "open_work": lambda *_, **__: work,
        "refuse_all_unreadable": lambda *_: None,
        "landed": lambda *_: 0,
        "session_for": session_for,
        "_compared": compared,
    }.items():
        monkeypatch.setattr(proof, name, stand_in)

    found = verify_tables(_CONFIG, options=VerifyOptions(repair=True))

    told = {table.table: (table.repaired_snapshot, table.error and table.error.code) for table in found.tables}
    assert told == {"shop.one": (7, None), "shop.two": (None, code), "shop.three": (7, None)}
    assert exit_code_of(found) == ends_with
    assert _ROW not in found.model_dump_json()
