"""What a format may say of the place in its source that a change comes from. Without Spark."""

from __future__ import annotations

#: The parts of Debezium's `source` block that are read, with the types in which they are wanted.
SOURCE_FIELDS = {
    "connector": "string",
    "snapshot": "string",
    "sequence": "string",
    "lsn": "bigint",
    "file": "string",
    "pos": "bigint",
    "row": "bigint",
    "gtid": "string",
    "commit_lsn": "string",
    "change_lsn": "string",
    "event_serial_no": "string",
    "scn": "string",
    "commit_scn": "string",
    "redo_thread": "string",
    "ssn": "string",
    "txSeq": "string",
    "rs_id": "string",
    "row_id": "string",
    "lcr_position": "string",
    "ord": "string",
    "wallTime": "bigint",
    "txnNumber": "bigint",
    "version": "string",
    "ts_hlc": "string",
    "shard": "string",
    "server_transaction_id": "string",
    "mod_number": "string",
    "ts_ms": "bigint",
    "ts_us": "bigint",
    "ts_ns": "bigint",
    "schema": "string",
    "db": "string",
    "table": "string",
}

#: Those that only MongoDB's changes are asked for.
OF_DOCUMENTS = frozenset({"wallTime", "txnNumber", "version"})

#: Parts of the envelope's `transaction` block that order changes, where a connector writes them (Vitess with its
#: `VitessOrderedTransactionMetadataFactory`); they stand beside those of SOURCE_FIELDS.
RANK_FIELDS = {"transaction_epoch": "string", "transaction_rank": "string", "total_order": "string"}

#: What a format may tell beside them: a position of its own, text that sorts, which wins over one made of the others;
#: and what tells a change from all others of its key where there is no position (`signatures`).
OWN_FIELDS = {"position": "string", "event": "string"}
