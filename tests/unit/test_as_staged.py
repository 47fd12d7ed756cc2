"""A lost commit is tried again only where what it was planned on, and what was staged, are as they were."""

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.errors import CommitConflict
from cdc_materializer.lake.commit import is_as_staged
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.names import TableName
from cdc_materializer.schema.schema import TableSchema

_BASE, _STAGED = 11, 12
_PLANNED = LakeTable(TableName.parse("shop.orders"), "u-1", _BASE, None, TableSchema(()), is_empty=False, schema_id=3)


def _loaded(*, uuid: str = "u-1", schema: int = 3, visible: int = _BASE, staged: int = _STAGED) -> Any:  # noqa: ANN401 - stands in for a Java object
    heads = {"main": SimpleNamespace(snapshotId=lambda: visible), "cdcm-b": SimpleNamespace(snapshotId=lambda: staged)}
    return SimpleNamespace(
        uuid=lambda: SimpleNamespace(toString=lambda: uuid),
        schema=lambda: SimpleNamespace(schemaId=lambda: schema),
        spec=lambda: SimpleNamespace(specId=lambda: 0),
        snapshot=heads.get,
    )


def _lost(java: str) -> CommitConflict:
    """A conflict that a Java exception of this class has caused."""
    cause = RuntimeError("lost")
    kind = SimpleNamespace(getSimpleName=lambda: java)
    cause._origin = SimpleNamespace(getClass=lambda: kind, getCause=lambda: None)  # type: ignore[attr-defined]
    conflict = CommitConflict("Another commit came first.", "Run again.")
    conflict.__cause__ = cause
    return conflict


@pytest.mark.parametrize(
    ("table", "java", "may"),
    [
        pytest.param(_loaded(), "CommitFailedException", True, id="another branch"),
        pytest.param(_loaded(), "ValidationException", False, id="refused"),
        pytest.param(_loaded(schema=4), "CommitFailedException", False, id="other columns"),
        pytest.param(_loaded(uuid="u-2"), "CommitFailedException", False, id="another table"),
        pytest.param(_loaded(visible=13), "CommitFailedException", False, id="another writer"),
        pytest.param(_loaded(staged=13), "CommitFailedException", False, id="staged anew"),
    ],
)
def test_a_lost_commit_is_tried_again_only_where_nothing_has_changed(table: Any, java: str, *, may: bool) -> None:  # noqa: ANN401 - stands in for a Java object
    """Else it is planned anew: the rows that were staged may not be those of the table as it is."""
    assert is_as_staged(lambda: table, "main", _PLANNED, "cdcm-b", _STAGED, _lost(java)) is may
