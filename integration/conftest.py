"""The chain's parts as fixtures: each is started when the first test asks for it, and shared until the last one ended.

What failed leaves its logs in build/integration-logs, in a folder of each run.
"""

import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integration.chain import downloads
from integration.chain.connect import Connect
from integration.chain.downloads import Parts
from integration.chain.kafka import Kafka
from integration.chain.leftovers import MARK, processes_of
from integration.chain.mariadb import MariaDB
from integration.chain.postgres import Postgres
from integration.chain.process import STOP_SECONDS_MAX, ChainError, wait_until
from integration.chain.registry import Registry
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running, timings
from integration.chain.s3 import S3
from integration.chain.spark_cluster import SparkCluster

_PREFIX, _LOCK = "cdcm-chain-", "lock"
_LOGS = Path(__file__).parents[1] / "build" / "integration-logs"


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark of tests that `-m 'not long'` leaves out, and put the run's own on all that it starts."""
    config.addinivalue_line("markers", "long: not among those that run with every change")
    os.environ[MARK] = uuid.uuid4().hex


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs services of its own, but for what compares files."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name != "test_compose.py":
            item.add_marker(pytest.mark.integration)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that leaves a process behind."""
    if not timings:
        return
    try:
        wait_until("no process is left", lambda: not processes_of(os.environ[MARK]), STOP_SECONDS_MAX)
    except ChainError:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long each part took to be ready, and what is left of them."""
    if timings:
        terminalreporter.section("the chain")
        for name, seconds in timings.items():
            terminalreporter.line(f"{name}: ready after {seconds:.1f} s")
        for pid, program in processes_of(os.environ[MARK]).items():
            terminalreporter.line(f"left behind: {program}, process {pid}", red=True)


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Path]]:
    """Gives a new folder for a name; all of them go in the end."""
    _remove_abandoned()
    # Not pytest's own: servers that may not run as root have to get into it too.
    root = Path(tempfile.mkdtemp(prefix=_PREFIX))
    root.chmod(0o755)
    owner = (root / _LOCK).open("w")
    fcntl.flock(owner, fcntl.LOCK_EX)

    def make(name: str) -> Path:
        path = root / name
        path.mkdir(mode=0o755)
        return path

    yield make
    if request.session.testsfailed:
        logs = _LOGS / root.name
        for place in root.iterdir():
            if (place / "pipeline.yaml").exists():  # with its tables, which show what was wrong
                shutil.copytree(place, logs / place.name)
            for log in place.glob("*.log"):
                (logs / place.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(log, logs / place.name)
    shutil.rmtree(root, ignore_errors=True)
    owner.close()


def _remove_abandoned() -> None:
    """Remove the folders of runs that were killed: nobody holds their locks any more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        with lock.open() as owner, suppress(BlockingIOError):
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def parts() -> Parts:
    """The Java parts, downloaded at the first time."""
    return downloads.parts()


@pytest.fixture(scope="session")
def kafka(parts: Parts, folder: Callable[[str], Path]) -> Iterator[Kafka]:
    """The broker."""
    with running("kafka", lambda: Kafka(parts, folder("kafka"))) as component:
        yield component


@pytest.fixture(scope="session")
def registry(parts: Parts, folder: Callable[[str], Path]) -> Iterator[Registry]:
    """The schema registry."""
    with running("registry", lambda: Registry(parts, folder("registry"))) as component:
        yield component


@pytest.fixture(scope="session")
def connect(parts: Parts, folder: Callable[[str], Path], kafka: Kafka) -> Iterator[Connect]:
    """Kafka Connect with Debezium."""
    with running("connect", lambda: Connect(parts, folder("connect"), kafka)) as component:
        yield component


@pytest.fixture(scope="session")
def postgres(folder: Callable[[str], Path]) -> Iterator[Postgres]:
    """PostgreSQL."""
    with running("postgres", lambda: Postgres(folder("postgres"))) as component:
        yield component


@pytest.fixture(scope="session")
def mariadb(folder: Callable[[str], Path]) -> Iterator[MariaDB]:
    """MariaDB."""
    with running("mariadb", lambda: MariaDB(folder("mariadb"))) as component:
        yield component


@pytest.fixture(scope="session")
def s3(folder: Callable[[str], Path]) -> Iterator[S3]:
    """The S3-compatible store."""
    with running("s3", lambda: S3(folder("s3"))) as component:
        yield component


@pytest.fixture(scope="session")
def rest_catalog(parts: Parts, folder: Callable[[str], Path], s3: S3) -> Iterator[RestCatalog]:
    """The REST catalog, with its tables in the S3 store."""
    with running("rest catalog", lambda: RestCatalog(parts, folder("rest-catalog"), s3)) as component:
        yield component


@pytest.fixture(scope="session")
def spark_cluster(folder: Callable[[str], Path]) -> Iterator[SparkCluster]:
    """Spark's own cluster: a master and two workers."""
    with running("spark cluster", lambda: SparkCluster(folder("spark-cluster"))) as component:
        yield component
