"""What `cdcm why` of one row costs on a big raw table, beside `verify`, which folds all of it; and how much is read.

A pass over raw decodes keys and no rows; then the row's own messages are read, from the files that can have them.
"""

import json
import sys
from pathlib import Path

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import Cost, cdcm, in_pairs, machine, options
from benchmarks.orders import write_orders
from benchmarks.reading import keep_events, reading_of
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import load_config
from cdc_materializer.names import TableName

#: The row that is asked for; a third of the changes make rows, so that it has some three messages.
KEY = "7"
#: Into so many batches, and so many files of raw, the topic goes.
BATCHES = 10


def main() -> int:
    """Measure and print one JSON document."""
    asked = options(__doc__, pairs=3).parse_args()
    work = asked.folder.resolve()
    folder = work / "why"
    topic = write_orders(work, asked.changes, asked.encoding)
    prepare(folder, topic, with_rules=False, records_max=-(-asked.changes // BATCHES))
    cdcm("run", "--json", folder=folder).told("run")

    def why() -> Cost:
        return cdcm("why", MIRROR, "--key", KEY, "--json", folder=folder).told("why")

    measured = in_pairs(why, lambda: cdcm("verify", "--json", folder=folder).told("verify"), asked.pairs)
    keep_events(folder)
    why()
    told = {"benchmark": "why", "changes": asked.changes, "encoding": asked.encoding, **machine(), **_read(folder)}
    sys.stdout.write(json.dumps(told | measured.as_json(("why", "verify")), indent=2) + "\n")
    return 0


def _read(folder: Path) -> dict[str, object]:
    """How much raw is, and how much of it `why` has read."""
    name = TableName.parse(MIRROR).raw
    raw = open_tables(load_config(folder / "pipeline.yaml").catalog).load(name)
    if raw is None:
        raise RuntimeError(f"There is no table {name}.")
    sizes = [planned.file.file_size_in_bytes for planned in raw.scan().plan_files()]
    read = reading_of(folder, str(name))
    return {
        "raw": {"files": len(sizes), "bytes": sum(sizes)},
        "read": {"bytes": read.input_bytes, "files_a_scan": list(read.scans)},
    }


if __name__ == "__main__":
    sys.exit(main())
