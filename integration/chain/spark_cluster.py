"""A Spark standalone cluster on this machine: a master and two workers of one core each, from PySpark's own package."""

import os
from pathlib import Path

import pyspark

from integration.chain.process import START_SECONDS_MAX, Process, free_port, wait_until
from integration.chain.web import request

HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
WORKERS = 2


class SparkCluster:
    """A master and its workers."""

    def __init__(self, folder: Path, *, memory: str = "1g") -> None:
        """Lay them out in a folder, with what each worker has of memory; nothing is started."""
        self._port, self._pages = free_port(), free_port()
        environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m"}
        run = [str(HOME / "bin" / "spark-class")]
        here = ["--host", "127.0.0.1", "--webui-port"]
        master = [*run, f"{_DEPLOY}.master.Master", *here, str(self._pages), "--port", str(self._port)]
        self._processes = [Process("spark-master", master, folder, environment=environment)]
        for at in range(WORKERS):
            size = ["--cores", "1", "--memory", memory, "--work-dir", str(folder / f"worker-{at}")]
            worker = [*run, f"{_DEPLOY}.worker.Worker", *here, "0", *size, self.url]
            self._processes.append(Process(f"spark-worker-{at}", worker, folder, environment=environment))

    @property
    def url(self) -> str:
        """What `spark.master` is."""
        return f"spark://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start all; a worker goes on asking for its master until that is there."""
        for process in self._processes:
            process.start()

    def ready(self) -> None:
        """Wait until the master knows all workers."""
        wait_until("the master knows its workers", lambda: self._alive() == WORKERS, START_SECONDS_MAX)

    def stop(self) -> None:
        """End all."""
        for process in reversed(self._processes):
            process.stop()

    def _alive(self) -> int:
        try:
            answer = request("GET", self._pages, "/json/")
        except OSError:
            return 0
        return int(answer.json()["aliveworkers"]) if answer.ok else 0
