"""Where a batch of ours spends its time, step by step, and what a plain append of the same final rows costs beside it.

The steps are functions of the package, measured around their calls. Of one table they come one after another, so that
what the process and its JVM spend meanwhile is theirs.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.measure import Cost, in_session, jobs_so_far
from cdc_materializer import pipeline
from cdc_materializer.batch import batch, rows
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line import judging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.batch.steps import Decided

#: The steps of a batch by their names in reports; those with a dot are part of the step before the dot.
_STEPS: dict[str, tuple[Any, str]] = {
    "load": (pipeline, "load"),
    "land": (pipeline, "land"),
    "find writers": (pipeline, "read"),
    "decode and fold": (batch, "fold_batch"),
    "judge": (judging, "judge"),
    "publish": (pipeline, "publish"),
    "publish.delete": (Stage, "execute"),
    "publish.append": (Stage, "append"),
}
#: The step that is no step of ours: the final rows of the batch, cached as they are, appended to a table beside it.
FLOOR = "plain append"


@dataclass
class Steps:
    """What the steps of one run cost, each as often as it was taken, and how many Spark jobs they started."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    def total(self, name: str) -> Cost:
        """All of a step."""
        found = self.costs.get(name, [])
        return Cost(sum(cost.wall for cost in found), sum(cost.cpu for cost in found))


@contextmanager
def watched(spark: "SparkSession", floor: str | None = None) -> Iterator[Steps]:
    """Measure the steps of the batches that run meanwhile.

    Args:
        spark: the session that they run in.
        floor: a table with the mirror's columns to append the final rows to as well, behind each publish.
    """
    steps = Steps()
    at_work: set[str] = set()

    def measured(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the step takes and gives
            if name in at_work:
                # A fold that begins anew is part of the one that it began as.
                return step(*arguments, **named)
            found: list[Any] = []
            at_work.add(name)
            before = jobs_so_far(spark)
            cost = in_session(spark, lambda: found.append(step(*arguments, **named)))
            at_work.discard(name)
            steps.costs.setdefault(name, []).append(cost)
            steps.jobs[name] = steps.jobs.get(name, 0) + jobs_so_far(spark) - before
            if name == "publish" and floor is not None:
                own = in_session(spark, lambda: _append(arguments[3], floor))
                steps.costs.setdefault(FLOOR, []).append(own)
            return found[0]

        return call

    with ExitStack() as replaced:
        for name, (holder, function) in _STEPS.items():
            replaced.enter_context(patch.object(holder, function, measured(name, getattr(holder, function))))
        yield steps


def _append(decided: "Decided", floor: str) -> None:
    """The final rows as they are published, as any job would append them."""
    final = rows.final_rows(decided.states, decided.decoders.plan.target, soft=False, routed=False)
    final.writeTo(floor).option("check-nullability", "false").append()
