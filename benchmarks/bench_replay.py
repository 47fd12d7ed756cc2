"""How fast `cdcm replay` rebuilds a mirror from raw, beside the live pipeline that made it from the topic.

A run lands the messages too, in batches of what has come since the last one, here of 50,000; a replay has all of them
and folds as many at once as a batch may have, and then compares what it rebuilt with the live mirror, key by key. It is
to be at least half as fast again as the run. `--batch 500000` gives the run the replay's batches, as one has that
catches up. Both ways end with the same table: a replay that finds a difference fails.
"""

import json
import sys

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import Cost, cdcm, digest, in_pairs, machine, options
from benchmarks.orders import write_orders

#: How much faster a replay is to be than a run.
LIMIT = 1.5


def main() -> int:
    """Measure, print one JSON document, and end with 1 where replaying is slower than it may be."""
    parser = options(__doc__, pairs=3)
    parser.add_argument("--batch", type=int, default=50_000, help="messages of a batch of the run (50,000)")
    asked = parser.parse_args()
    work = asked.folder.resolve()
    topic = write_orders(work, asked.changes, asked.encoding)
    live, rebuilt = work / "replay-live", work / "replay-rebuilt"
    prepare(rebuilt, topic, with_rules=False)
    cdcm("run", "--json", folder=rebuilt).told("run, to be replayed")
    digests = {digest(rebuilt, MIRROR, "id")}

    def run() -> Cost:
        prepare(live, topic, with_rules=False, records_max=asked.batch)
        cost = cdcm("run", "--json", folder=live).told("run")
        digests.add(digest(live, MIRROR, "id"))
        return cost

    def replay() -> Cost:
        # What the one before has rebuilt would be gone on with.
        return cdcm("replay", MIRROR, "--restart", "--json", folder=rebuilt).told("replay")

    measured = in_pairs(replay, run, asked.pairs)
    told = {
        "benchmark": "replay",
        "changes": asked.changes,
        "encoding": asked.encoding,
        "batch": asked.batch,
        "limit": LIMIT,
        "same_table": len(digests) == 1,
        **machine(),
        **measured.as_json(("replay", "run")),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    faster = min(measured.ratio(lambda cost: cost.cpu)[1], measured.ratio(lambda cost: cost.wall)[1])
    return 0 if len(digests) == 1 and faster >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
