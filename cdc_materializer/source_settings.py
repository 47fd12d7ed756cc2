"""What schemas give away of a connector's settings that lose values before they are on the wire; see `cdcm doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_materializer.changes.formats.debezium_flat import FORMAT as FLAT
from cdc_materializer.decode.wire import WireType
from cdc_materializer.recognise import Recognised

if TYPE_CHECKING:
    from cdc_materializer.config import TableConfig

_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes"})
#: The parameter by which `column.propagate.source.type` passes the database's type on.
_SOURCE_TYPE = "__debezium.source.column.type"
#: What ExtractNewRecordState can add of a change's place, and what has to be added with it.
_PLACES = ("lsn", "sequence", "file", "commit_lsn", "commit_scn", "scn", "ord", "ts_hlc", "server_transaction_id")
_WITH = {"commit_lsn": ("change_lsn", "lsn"), "commit_scn": ("scn", "lcr_position")}


def doubts(found: Recognised, table: TableConfig | None = None) -> Iterator[tuple[str, str]]:
    """Give what may be lost at the source, and what to set there; only what the newest schema shows.

    Args:
        found: what a topic is.
        table: the settings by which it is read; None for those that hold where nothing is set.
    """
    fields = found.newest.fields if found.newest is not None else ()
    filled = [name for name, kind in fields if kind.optional and kind.default is not None]
    if filled:
        what = (
            "may be NULL and has a default: unless the converter was told otherwise, a NULL in the database comes as "
            "that default, and nothing here can tell."
        )
        do = "Set `replace.null.with.default=false` for the converter (and for ExtractNewRecordState), then snapshot."
        yield _about(filled, what), do
    plain = [kind.optional for _, kind in fields if kind.literal in _PLAIN and not kind.name]
    if found.encoding == "protobuf" and len(plain) > 1 and not any(plain):
        what = (
            "No number and no text of these messages in Protobuf tells NULL from its zero: unless no column of the "
            "table may be NULL, what is NULL in the database comes as 0 or as an empty text."
        )
        yield what, "Set `optional.for.nullables=true` for the converter, then snapshot."
    texts = [name for name, kind in fields if kind.literal == "string" and _source_type(kind) == "BYTEA"]
    if texts:
        what = (
            "is bytea sent as text: in the base64 modes a large value that an update left alone comes as NULL, and "
            "nothing here can tell."
        )
        yield _about(texts, what), "Set `binary.handling.mode` to bytes or hex, or REPLICA IDENTITY FULL for the table."
    wrapped = [name for name, kind in fields if kind.literal == "long" and _source_type(kind) == "BIGINT UNSIGNED"]
    if wrapped:
        what = "is BIGINT UNSIGNED sent as a signed number: values from 2^63 on come negative."
        yield _about(wrapped, what), "Set `bigint.unsigned.handling.mode=precise` in the connector."
    if found.format == "debezium-flat" and found.value is not None:
        yield from _of_flattened(found, found.value, table)


def _of_flattened(found: Recognised, value: WireType, table: TableConfig | None) -> Iterator[tuple[str, str]]:
    format_ = FLAT if table is None else FLAT.for_table(table)
    added = format_.added_to(value)
    lacking = _lacking(added)
    if lacking is None and _tells_places(added) and not added & {"source.ts_ms", "source.ts_us"}:
        what = (
            "Its rows tell a place in the source's log, and not when they were changed: behind a restored database "
            "changes count as sent before until its log is past what was read."
        )
        yield what, "Add `source.ts_ms` to `add.fields` of ExtractNewRecordState, unless `add.headers` has it."
    if lacking is not None:
        what = (
            "Its rows tell a place in the source's log, and not enough for a position: what the connector sends again "
            "after a crash shows older rows until its end is read."
        )
        yield what, f"Add `{lacking}` to `add.fields` of ExtractNewRecordState, unless `add.headers` has it."
    is_set = table is not None and table.whole_rows is not None
    if found.newest is not None and not is_set and format_.has_whole_rows(found.newest, found.schema.key):
        what = "Its rows are read as whole documents (`_id`): a field that one does not have is NULL."
        do = (
            "Set `whole_rows: true`; or `false` where the connector sends only what an update has set "
            "(`capture.mode=change_streams`)."
        )
        yield what, do


def _tells_places(added: frozenset[str]) -> bool:
    return any(f"source.{name}" in added for name in _PLACES)


def _lacking(added: frozenset[str]) -> str | None:
    """What has to be added to flattened rows so that they have positions; None where that is there, or none is."""
    if not _tells_places(added):
        return None
    if not added & {"op", "source.snapshot"}:
        return "op"
    lacking = (
        others[0]
        for name, others in _WITH.items()
        if f"source.{name}" in added and not any(f"source.{other}" in added for other in others)
    )
    return next((f"source.{name}" for name in lacking), None)


def _source_type(kind: WireType) -> str:
    return kind.parameters.get(_SOURCE_TYPE, "").upper()


def _about(names: list[str], what: str) -> str:
    return f"Column {names[0]} {what}" if len(names) == 1 else f"Each of the columns {', '.join(names)} {what}"
