"""The Spark session of a run: one that commands build for themselves, or one beside that of a caller who has Spark.

A command that reads a few thousand messages spends its time starting Spark, so the settings for a ``small`` run
trade throughput for the start.
"""

import logging
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_materializer import environment, jars
from cdc_materializer.catalog.catalog import spark_properties
from cdc_materializer.config import Config, reveal
from cdc_materializer.errors import ConfigError, LakeUnavailable, UsageError
from cdc_materializer.java_options import AVRO_LIMITS, AVRO_OPTIONS, driver_options
from cdc_materializer.logs import Redactor, secrets_of
from cdc_materializer.session.properties import ASKED, BATCHES, SEMANTICS, TIME_ZONE, UNSEEN
from cdc_materializer.session.secrets import REDACTED_TEXT, left_out, with_mask_keys
from cdc_materializer.session.words import JvmWords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_CATALOGS = "spark.sql.catalog."
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
#: Properties that are lists: the user's entries are added to ours instead of replacing them.
_LISTS = {
    "spark.driver.extraClassPath": ":",
    _DRIVER_OPTIONS: " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.jars": ",",
    "spark.redaction.regex": "|",
    "spark.sql.extensions": ",",
}
#: Spark's ways to bring libraries besides ours, such as the one that Iceberg needs for an object store.
_MORE_LIBRARIES = frozenset({"spark.jars", "spark.jars.packages"})
_STOP_SECONDS_MAX = 10


def open_session(config: Config, *, small: bool) -> "SparkSession":
    """Start Spark with the catalog of ``config`` and return its session.

    Args:
        config: its ``spark`` properties go before ours; those that are lists are added to ours.
        small: start fast and stay light, for a few thousand messages; False is for throughput.

    Raises:
        JavaMissing: there is no Java that Spark runs on.
        JarsUnavailable: the Java libraries cannot be had.
        LakeUnavailable: the folder of a SQLite catalog cannot be made, or this machine has no room for Spark.
        ConfigError: Spark does not start with these properties.
        UsageError: this process already runs Spark.
    """
    jars.require_java()
    libraries = jars.resolve()
    try:
        settings = session_settings(config, libraries, small=small)
        _make_catalog_folder(config)
        _silence_query_contexts()
        return _start(command_line_settings(config, settings), settings, _redactor(config))
    except OSError as error:
        raise LakeUnavailable(
            f"Spark cannot be started: {error.strerror or type(error).__name__}.",
            "Check that the temporary folder (`TMPDIR`) has room and may be written to, then run again.",
        ) from error


def adopt_session(spark: "SparkSession", config: Config) -> "SparkSession":
    """Return a session beside the caller's on the same Spark, with the catalog of ``config`` and our time zone.

    The caller's session keeps its settings and its temporary views.

    Raises:
        ConfigError: ``config`` asks for a session time zone other than UTC.
        LakeUnavailable: the folder of a SQLite catalog cannot be made.
        UsageError: the caller's Spark was started without Iceberg, which cannot be added later.
    """
    _refuse_time_zone(config)
    if _EXTENSIONS not in (spark.conf.get("spark.sql.extensions", "") or "").split(","):
        raise UsageError(
            "The Spark session that was passed was started without Iceberg.",
            f"Start it with spark.sql.extensions={_EXTENSIONS} and the libraries that `python -m cdc_materializer.jars`"
            " fetches, or pass no session and one is started.",
        )
    _make_catalog_folder(config)
    _silence_query_contexts()
    _limit_avro(spark)
    return beside(spark, config)


def _limit_avro(spark: "SparkSession") -> None:
    """Set the limits of Avro's reader in the caller's JVM, which has an effect if nothing has read Avro there yet.

    Executors of a cluster have them from the caller's `spark.executor.extraJavaOptions` or not at all.
    """
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001 - no other way to the JVM
    for name, limit in AVRO_LIMITS.items():
        if system.getProperty(name) is None:
            system.setProperty(name, str(limit))


def _silence_query_contexts() -> None:
    """Keep PySpark from printing whole exceptions: a failed cast names the value, which may be a person's.

    The exceptions themselves still reach us, and only their error conditions go into messages. A level for PySpark's
    loggers is not enough: to get one it changes the class of the process's new loggers for a moment, and where queries
    of two threads fail at once, leaves it changed; loggers of others print past our handler then.
    """
    from pyspark.errors.exceptions.captured import CapturedException

    CapturedException._log_exception = _tell_nobody  # type: ignore[method-assign, assignment]  # noqa: SLF001 - no setting does it


def _tell_nobody(_: Exception) -> None:
    """What PySpark does when a query fails, besides raising."""


def beside(spark: "SparkSession", config: Config, *, asks: bool = False) -> "SparkSession":
    """Return a new session on the same Spark, with the catalog of ``config`` and our time zone; each table has its own.

    What Iceberg writes into a snapshot's summary is a property of the session (recipes: Iceberg, section 12).

    Args:
        spark: the Spark that there is.
        config: its ``spark`` properties go before ours.
        asks: for queries of a user, rather than for batches.
    """
    session = spark.newSession()
    own = ASKED if asks else {name: value for name, value in BATCHES.items() if name not in config.spark}
    for name, value in {**SEMANTICS, **own, **spark_properties(config.catalog)}.items():
        session.conf.set(name, value)
    if config.masks is not None:
        session.conf.set(REDACTED_TEXT, with_mask_keys(session.conf.get(REDACTED_TEXT, "") or ""))
    return session


def _refuse_time_zone(config: Config) -> None:
    if reveal(config.spark).get(TIME_ZONE, "UTC") != "UTC":
        raise ConfigError(
            f"{config.path}: spark: {TIME_ZONE} is set, but times in mirrors are UTC whatever machine writes them.",
            "Remove it, and let readers convert.",
        )


def _make_catalog_folder(config: Config) -> None:
    path = config.catalog.sqlite_path
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # SQLite makes its file, but not the folder
    except OSError as error:
        raise LakeUnavailable(
            f"The folder of the SQLite catalog {path} cannot be made: {error.strerror}.",
            "Check `catalog:` in pipeline.yaml, or the folder's permissions.",
        ) from error


def stop(spark: "SparkSession") -> None:
    """Stop Spark and end its JVM, so that the next session of this process starts with its own JVM options."""
    from py4j.protocol import Py4JError

    # Without its JVM Spark can't be stopped, and lets go of what Python has of it all the same.
    with suppress(Py4JError, OSError):
        spark.stop()
    _end_jvm()


def session_settings(config: Config, libraries: Sequence[Path], *, small: bool) -> dict[str, str]:
    """Return every Spark property of a session; pure, so that a test can read it without Java.

    Raises:
        ConfigError: ``config`` asks for a session time zone other than UTC.
    """
    _refuse_time_zone(config)
    own = reveal(config.spark)
    master = own.get("spark.master", "local[*]")
    ours = {
        "spark.app.name": f"cdcm {config.name}",
        "spark.master": master,
        _DRIVER_OPTIONS: driver_options(_own_options(own), small=small),
        "spark.executor.extraJavaOptions": AVRO_OPTIONS,
        "spark.driver.memory": "4g",
        # Tables side by side, each in a pool of its own, share the cores; else a large batch would keep them all.
        "spark.scheduler.mode": "FAIR",
        **left_out(config),
        "spark.sql.catalogImplementation": "in-memory",  # no Hive: its metastore would cost seconds and a folder
        "spark.sql.extensions": _EXTENSIONS,
        # Spark's own catalog stays empty, but at times makes its folder: not in the folder a command was called from.
        "spark.sql.warehouse.dir": (Path(tempfile.gettempdir()) / "cdcm-spark-warehouse").as_uri(),
        "spark.ui.enabled": "false",
        **(UNSEEN if "true" not in (own.get("spark.ui.enabled"), own.get("spark.eventLog.enabled")) else {}),
        "spark.ui.showConsoleProgress": "false",
        # For messages that we do not show, PySpark would look up the caller's line at every column function: measured,
        # a third of the time that it takes to build a batch's plan.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # A batch compiles some sixty classes, and the next one of its table could use them again. Spark keeps 100 in
        # all; tables side by side would throw each other's out.
        "spark.sql.codegen.cache.maxEntries": "2000",
        **SEMANTICS,
        **_place(master, libraries, small=small, in_place=_MORE_LIBRARIES.isdisjoint(own)),
        **spark_properties(config.catalog),
    }
    return merge_settings(ours, own)


def command_line_settings(config: Config, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the ``settings`` that may stand on the JVM's command line, which every user of the machine can read.

    Secrets and everything about catalogs may not; Spark takes them later, through Py4J. Of a list with a secret ours
    may, without which the JVM would start with neither our log's settings nor our limits.
    """
    secret = {name: value for name, value in reveal(config.spark).items() if not isinstance(config.spark[name], str)}
    ours = {
        name: settings[name].removesuffix(secret[name]).removesuffix(between)
        for name, between in _LISTS.items()
        if name in secret and settings[name] != secret[name]
    }
    if _DRIVER_OPTIONS in secret:
        _LOG.warning("%s has a secret, so the JVM starts without it: use JDK_JAVA_OPTIONS.", _DRIVER_OPTIONS)
    public = {name: value for name, value in settings.items() if name not in secret and not name.startswith(_CATALOGS)}
    return {**public, **ours}


def merge_settings(ours: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return both, with the user's ``own`` winning, or added where the property is a list."""
    both = _LISTS.keys() & ours.keys() & own.keys()
    added = {name: _LISTS[name].join((ours[name], own[name])) for name in both}
    return {**ours, **own, **added}


def _own_options(own: Mapping[str, str]) -> str:
    """What else the driver's JVM is told: by the user, and by the machine."""
    named = ("spark.driver.defaultJavaOptions", _DRIVER_OPTIONS)
    return " ".join([*(own.get(name, "") for name in named), environment.java_options()])


def _place(master: str, libraries: Sequence[Path], *, small: bool, in_place: bool) -> dict[str, str]:
    """Return what depends on where Spark runs: in this process's JVM, or on a cluster."""
    paths = [str(path) for path in libraries]
    light = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.leafNodeDefaultParallelism": "1",
        "spark.sql.shuffle.partitions": "1",
        # Each sort and each aggregate takes a page before its first row, 64 MB of this memory if nothing is said. Rows
        # that are larger get a larger one. Measured over seven golden cases: 1.2 GB instead of 4.3.
        "spark.buffer.pageSize": "1m",
        # For queries of users too: with rows this few, compiling costs more than it saves.
        "spark.sql.codegen.wholeStage": "false",
    }
    if not re.fullmatch(r"local(\[[^]]*])?", master):
        return {"spark.jars": ",".join(paths), **(light if small else {})}
    # On the class path they are used in place; `spark.jars` would copy 70 MB to a temporary folder at every start. But
    # what is on the class path does not see libraries of `spark.jars`: with those, all have to be there.
    in_place = in_place and not any(":" in path for path in paths)
    return {
        **({"spark.driver.extraClassPath": ":".join(paths)} if in_place else {"spark.jars": ",".join(paths)}),
        # A laptop's own name often resolves to an address of a network it has left.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **(light if small else {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}),
    }


def _redactor(config: Config) -> Redactor:
    """What masks the secrets of ``config`` in what its JVM says, line by line."""
    redactor = Redactor()
    redactor.hide(line.strip() for secret in secrets_of(config) for line in secret.splitlines())
    redactor.hide(config.masks.spellings() if config.masks is not None else ())
    return redactor


def _start(public: Mapping[str, str], settings: Mapping[str, str], redactor: Redactor | None = None) -> "SparkSession":
    """Launch the JVM with the ``public`` settings on its command line, then hand it all ``settings`` through Py4J."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - asking creates one otherwise
        raise UsageError(
            "This process already runs a Spark session, and Spark allows one.",
            "Pass it: run_once(config, spark=spark).",
        )
    words = JvmWords(redactor)
    try:
        conf = SparkConf().setAll(list(public.items()))
        gateway = launch_gateway(conf, _Shielded(stderr=words.inlet))  # type: ignore[no-untyped-call]
        words.pass_on()
        SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
        _keep_classes(gateway.jvm)
        return SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        reason = words.reason(error)
        _end_jvm()
        raise ConfigError(
            f"Spark did not start: {reason}",
            "Check the properties under `spark:` in pipeline.yaml.",
        ) from error
    except OSError:
        _end_jvm()
        raise
    finally:
        words.close_inlet()


class _Shielded(dict[str, Any]):
    """The arguments by which PySpark starts the JVM, with SIGTERM ignored in it as PySpark has it ignore SIGINT.

    `timeout` and `systemctl stop` send it to every process, and what a JVM is working on is lost when it ends first.
    It ends with Python: when its standard input does.
    """

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever `Popen` takes
        # PySpark puts its own function in place of any that it is given.
        super().__setitem__(name, partial(_ignore_sigterm, value) if name == "preexec_fn" else value)


def _ignore_sigterm(before: Callable[[], None]) -> None:
    """What is done in the JVM's process before it is one, and only there."""
    before()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _keep_classes(jvm: Any) -> None:  # noqa: ANN401 - Py4J's view of the JVM's classes
    """Keep on Python's side the classes and functions that PySpark names for each column.

    It asks the JVM for them every time, which looks for a class `functions` or `PythonUtils` in every jar before it
    finds the one that is meant. Measured: eight of the hundred seconds that 27 batches took.
    """
    functions = _kept(jvm, "functions")
    setattr(jvm, "org.apache.spark.sql.functions", functions)
    for name in dir(functions):
        _kept(functions, name)
    _kept(_kept(jvm, "PythonUtils"), "toSeq")
    _kept(jvm, "PythonSQLUtils")
    _kept(_kept(_kept(_kept(jvm, "py4j"), "reflection"), "TypeUtil"), "isInstanceOf")


def _kept(holder: Any, name: str) -> Any:  # noqa: ANN401 - a package, a class or a function of the JVM
    found = getattr(holder, name)
    setattr(holder, name, found)
    return found


def _end_jvm() -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to end its JVM
    process = getattr(gateway, "proc", None)
    if process is None:
        return  # none was started, or it is spark-submit's and not ours to end
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()  # all that it was asked for is done
        process.wait()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
