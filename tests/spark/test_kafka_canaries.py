"""A password that a broker refuses is in nothing that a run with `--debug` and Spark's event log leaves.

Both clients are refused: the one that plans, before Spark is started, and Spark's own, which gets the password in the
options of a query.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cdc_materializer.errors import EXIT_SOURCE
from tests.brokers import refusing_broker
from tests.spark.marks import TURNS
from tests.spark.processes import environment

pytestmark = [pytest.mark.spark, TURNS]

PASSWORD, MAIL = "canary-broker", "canary.bob@example.test"
_RUN = "import sys\nfrom cdc_materializer.cli import main\n"
#: What the planning client is answered by a broker that lets it in: five messages to read. Spark's is refused before
#: it has a plan to run, so that as far as there is one it is told here.
_LET_IN = """
from cdc_materializer.offsets import Offsets
from cdc_materializer.source import KafkaSource, TopicState

def read(self, spark, span, read=KafkaSource.read):
    found = read(self, spark, span)
    plans = found._jdf.queryExecution()
    print("planned", plans.logical().treeString(), plans.analyzed().treeString(), file=sys.stderr)
    return found

KafkaSource.read = read
KafkaSource.state = lambda self, topic: TopicState(topic, None, Offsets({0: 0}), Offsets({0: 5}))
"""


def _pipeline(folder: Path, broker: str) -> Path:
    (folder / "events").mkdir()
    (folder / "password").write_text(f"{PASSWORD}\n", encoding="utf-8")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "${file:password}"}
    events = {"dir": (folder / "events").as_uri(), "enabled": "true", "compress": "false"}
    content = {
        "name": "canaries",
        "source": {"kafka": {"bootstrap.servers": broker, "security.protocol": "SASL_PLAINTEXT", **login}},
        "spark": {f"spark.eventLog.{name}": value for name, value in events.items()},
        "tables": [{"topic": "shop.public.people", "mirror": "shop.people"}],
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_a_password_that_a_broker_refuses_is_found_nowhere(tmp_path: Path) -> None:
    """Nor is what the broker says about it, which is no less than all that it knows."""
    told: dict[str, str] = {}
    for client, program in {"planning": _RUN, "Spark": _RUN + _LET_IN}.items():
        passwords: list[str] = []
        folder = tmp_path / client
        folder.mkdir()
        with refusing_broker(passwords, f"{PASSWORD} is not that of {MAIL}") as broker:
            arguments = ["run", "--json", "--debug", "-c", str(_pipeline(folder, broker))]
            done = subprocess.run(
                [sys.executable, "-c", f"{program}sys.exit(main(sys.argv[1:]))", *arguments],
                check=False, capture_output=True, text=True, timeout=900, env=environment(),
            )  # fmt: skip
        assert done.returncode == EXIT_SOURCE, done.stderr[-2000:]
        (table,) = json.loads(done.stdout)["tables"]
        assert "refused the credentials" in table["error"]["message"]
        assert set(passwords) == {PASSWORD}
        files = [file for file in (folder / "events").rglob("*") if file.is_file()]
        events = "\n".join(file.read_text("utf-8", "replace") for file in files)
        told |= {f"{client}, output": done.stdout, f"{client}, errors": done.stderr, f"{client}, events": events}

    assert "SparkListenerEnvironmentUpdate" in told["Spark, events"]
    assert "planned" in told["Spark, errors"]
    assert [(canary, where) for canary in (PASSWORD, MAIL) for where in told if canary in told[where]] == []
