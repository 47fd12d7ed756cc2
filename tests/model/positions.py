"""Where a database says that a change happened, as tuples that compare: changelog-semantics §2.1 in Python.

The reference fold's own reading of a `source` block; the product's is columns of Spark (`changes/positions.py`).
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Source = Mapping[str, Any]
Position = tuple[Any, ...]


def position(source: Source) -> Position | None:
    """The position of a change; None where the source gives none that can be compared."""
    read = _READ.get(source.get("connector", ""))
    return read(source) if read is not None else None


def transaction(source: Source) -> tuple[str, int] | None:
    """The log and the number of a change's transaction, where its servers number them (GTID)."""
    uuid = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    kinds = {"mysql": rf"({uuid}(?::[A-Za-z_]\w{{0,31}})?):(\d+)", "mariadb": r"(0|[1-9]\d*)-\d+-(\d+)"}
    found = re.fullmatch(kinds.get(source.get("connector", ""), "(?!)"), source.get("gtid") or "")
    return None if found is None else (found[1].lower(), int(found[2]))


def _postgresql(source: Source) -> Position | None:
    committed, changed = json.loads(source["sequence"]) if source.get("sequence") else (None, None)
    lsn = changed if changed is not None else source.get("lsn")
    if lsn is None:
        return None
    committed = committed if source.get("commit_lsn") is None else source["commit_lsn"]
    return int(lsn if committed is None else committed), int(lsn)


def _binlog(source: Source) -> Position | None:
    numbered = transaction(source)
    if (source.get("file") or "").endswith(".ibb") and numbered is not None:
        # InnoDB's own has no places: a transaction's number in its domain is one.
        domain, number = numbered
        return f"gtid-{domain}", 0, number, int(source.get("row") or 0)
    file = re.fullmatch(r"(.*)\.(\d+)", source.get("file") or "")
    if file is None or source.get("pos") is None:
        return None
    return file[1], int(file[2]), int(source["pos"]), int(source.get("row") or 0)


def _hexadecimal(source: Source) -> Position | None:
    if source.get("commit_lsn") is None:
        return None
    change = (source.get("change_lsn") or "").lower()
    return source["commit_lsn"].lower(), change, int(source.get("event_serial_no") or 0)


def _informix(source: Source) -> Position | None:
    if source.get("commit_lsn") is None:
        return None
    return int(source["commit_lsn"]), int(source.get("change_lsn") or 0)


def _oracle(source: Source) -> Position | None:
    commit = source.get("commit_scn") or source.get("scn")
    lcr = source.get("lcr_position")
    if lcr is not None:
        return int(lcr[:16], 16), int(lcr, 16), 0
    if commit is None:
        return None
    scn = source.get("scn") or commit
    number = source.get("txSeq") or source.get("ssn") or 0
    return int(commit), int(source.get("redo_thread") or 0), int(scn), int(number)


def _mongodb(source: Source) -> Position | None:
    version = re.match(r"(\d+)\.(\d+)\.", source.get("version") or "")
    if version is None or source.get("ord") is None:
        return None
    is_of_oplog = (int(version[1]), int(version[2])) < (3, 4) or not source.get("wallTime")
    return (int(source["ts_ms"]), int(source["ord"])) if is_of_oplog else None


def _spanner(source: Source) -> Position | None:
    parts = [source.get(name) for name in ("ts_ns", "server_transaction_id", "sequence")]
    if None in parts:
        return None
    time, transaction, number = parts
    return int(str(time)), transaction, int(str(number)), int(source.get("mod_number") or 0)


def _vitess(source: Source) -> Position | None:
    parts = [source.get(name) for name in ("transaction_epoch", "transaction_rank", "total_order")]
    is_sharded = len(source.get("shard") or "") > 1 and "-" in source["shard"]
    return None if is_sharded or None in parts else tuple(int(str(part)) for part in parts)


def _cockroachdb(source: Source) -> Position | None:
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?", source.get("ts_hlc") or "")
    return None if found is None else (int(found[1]), int(found[2] or 0))


_READ: dict[str, Callable[[Source], Position | None]] = {
    "postgresql": _postgresql,
    "mysql": _binlog,
    "mariadb": _binlog,
    "sqlserver": _hexadecimal,
    "db2": _hexadecimal,
    "informix": _informix,
    "oracle": _oracle,
    "mongodb": _mongodb,
    "spanner": _spanner,
    "cockroachdb": _cockroachdb,
    "vitess": _vitess,
}
