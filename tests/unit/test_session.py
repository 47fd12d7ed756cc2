"""The settings of a Spark session, and what is heard of its JVM; without starting one."""

import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import pytest

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import ConfigError, LakeUnavailable
from cdc_materializer.session import session
from cdc_materializer.session.session import command_line_settings, session_settings
from cdc_materializer.session.words import JvmWords

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh

JARS = (Path("/jars/one.jar"), Path("/jars/two.jar"))


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], Config]:
    """Make a configuration with these lines under `spark:`, and a catalog that asks for a password."""

    def configure(spark: str) -> Config:
        (tmp_path / "recorded").mkdir(exist_ok=True)
        path = tmp_path / "pipeline.yaml"
        catalog = "{name: ice, type: rest, uri: 'http://catalog.test', credential: hidden-in-catalog}"
        path.write_text(
            f"name: shop\nsource: {{files: recorded}}\ntables: [{{topic: shop.orders}}]\n"
            f"catalog: {catalog}\nspark: {spark}\n",
            encoding="utf-8",
        )
        return load_config(path)

    return configure


def test_a_local_session_uses_the_libraries_in_place(configured: Callable[[str], Config]) -> None:
    """On this machine the libraries are on the class path, because `spark.jars` would copy them at every start."""
    settings = session_settings(configured("{}"), JARS, small=True)

    assert settings["spark.driver.extraClassPath"] == "/jars/one.jar:/jars/two.jar"
    assert "spark.jars" not in settings


def test_tables_side_by_side_share_the_cores(configured: Callable[[str], Config]) -> None:
    """Each has a pool of its own (`run.pace`), which first come, first served would not heed."""
    assert session_settings(configured("{}"), JARS, small=False)["spark.scheduler.mode"] == "FAIR"


def test_what_nobody_looks_at_is_not_kept(configured: Callable[[str], Config]) -> None:
    """Spark keeps plans for the pages of its UI, whether it shows them or not; where it does, as it likes."""
    name = "spark.sql.ui.retainedExecutions"

    assert session_settings(configured("{}"), JARS, small=False)[name] == "20"
    assert session_settings(configured(f"{{{name}: '5'}}"), JARS, small=False)[name] == "5"
    for shows in ("spark.ui.enabled", "spark.eventLog.enabled"):
        assert name not in session_settings(configured(f"{{{shows}: 'true'}}"), JARS, small=False)


def test_a_cluster_is_sent_the_libraries(configured: Callable[[str], Config]) -> None:
    """On a cluster the libraries go to the executors, and the driver's address is the user's business."""
    settings = session_settings(configured("{spark.master: 'spark://there:7077'}"), JARS, small=False)

    assert settings["spark.jars"] == "/jars/one.jar,/jars/two.jar"
    assert "spark.driver.extraClassPath" not in settings
    assert "spark.driver.host" not in settings


def test_a_folder_with_a_colon_is_no_class_path(configured: Callable[[str], Config]) -> None:
    """A colon separates class path entries, so libraries in such a folder are copied after all."""
    settings = session_settings(configured("{}"), [Path("/odd:folder/one.jar")], small=True)

    assert settings["spark.jars"] == "/odd:folder/one.jar"


def test_libraries_of_the_user_stand_beside_ours(configured: Callable[[str], Config]) -> None:
    """Where the file brings libraries, ours are brought the same way: one class loader has to see all of them."""
    settings = session_settings(configured("{spark.jars: /mine/aws.jar}"), JARS, small=True)

    assert settings["spark.jars"] == "/jars/one.jar,/jars/two.jar,/mine/aws.jar"
    assert "spark.driver.extraClassPath" not in settings


def test_the_users_properties_win(configured: Callable[[str], Config]) -> None:
    """A property of the file replaces ours, and one that we do not set is passed on."""
    settings = session_settings(configured("{spark.driver.memory: 1g, spark.mine: '7'}"), JARS, small=True)

    assert (settings["spark.driver.memory"], settings["spark.mine"]) == ("1g", "7")


def test_the_users_lists_are_added_to_ours(configured: Callable[[str], Config]) -> None:
    """Extensions, libraries and JVM options of the file join ours, because ours without them would not work."""
    spark = "{spark.sql.extensions: their.Extension, spark.driver.extraJavaOptions: -Dtheirs=1}"
    settings = session_settings(configured(spark), JARS, small=True)

    assert settings["spark.sql.extensions"].split(",")[1:] == ["their.Extension"]
    assert settings["spark.sql.extensions"].startswith("org.apache.iceberg.")
    assert settings["spark.driver.extraJavaOptions"].endswith("240m -Dtheirs=1")


def test_avro_makes_room_for_no_more_than_a_message_has(configured: Callable[[str], Config]) -> None:
    """In the driver and on executors: a damaged length would take all of a JVM's memory."""
    settings = session_settings(configured("{spark.executor.extraJavaOptions: -Dtheirs=1}"), JARS, small=False)

    for place in ("driver", "executor"):
        options = settings[f"spark.{place}.extraJavaOptions"].split()
        limits = [option for option in options if option.startswith("-Dorg.apache.avro.limits.")]
        assert len(limits) == 3
        assert all(int(option.partition("=")[2]) <= 2**27 for option in limits)
    assert options[-1] == "-Dtheirs=1"


def test_only_a_small_session_gives_up_throughput(configured: Callable[[str], Config]) -> None:
    """One partition, no adaptive planning and the quick compiler are for small runs only."""
    small = session_settings(configured("{}"), JARS, small=True)
    large = session_settings(configured("{}"), JARS, small=False)

    assert (small["spark.sql.shuffle.partitions"], small["spark.sql.adaptive.enabled"]) == ("1", "false")
    assert "TieredStopAtLevel" in small["spark.driver.extraJavaOptions"]
    assert int(large["spark.sql.shuffle.partitions"]) >= 2
    assert "spark.sql.adaptive.enabled" not in large
    assert "TieredStopAtLevel" not in large["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("spark", "of_machine"),
    [
        ("{spark.driver.extraJavaOptions: -Dtheirs=1 -XX:+UseZGC}", ""),
        ("{spark.driver.defaultJavaOptions: -XX:+UseZGC}", ""),
        ("{}", "-Dtheirs=1 -XX:+UseZGC"),
    ],
)
def test_another_collector_stands_alone(
    configured: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch, spark: str, of_machine: str
) -> None:
    """A JVM that is told of two does not start, whether the second comes from pipeline.yaml or from the machine."""

    def ours(text: str, *, small: bool) -> list[str]:
        settings = session_settings(configured(text), JARS, small=small)
        return re.findall(r"-XX:\+Use(\w+)GC", settings["spark.driver.extraJavaOptions"].replace("UseZGC", ""))

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dtheirs=1")
    assert [ours("{}", small=small) for small in (True, False)] == [["Serial"], ["Parallel"]]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", of_machine)
    assert [ours(spark, small=small) for small in (True, False)] == [[], []]


def test_another_time_zone_is_refused(configured: Callable[[str], Config]) -> None:
    """The session's time zone is UTC; asking for another is an error and not silently overruled."""
    with pytest.raises(ConfigError, match="UTC"):
        session_settings(configured("{spark.sql.session.timeZone: Europe/Berlin}"), JARS, small=True)


def test_secrets_stay_off_the_command_line(configured: Callable[[str], Config]) -> None:
    """Spark gets secrets and catalog properties, but not by the command line that `ps` shows."""
    config = configured("{spark.hadoop.fs.s3a.secret.key: hidden-in-spark, spark.mine: '7'}")
    settings = session_settings(config, JARS, small=True)
    shown = command_line_settings(config, settings)

    assert {"hidden-in-catalog", "hidden-in-spark"} <= set(settings.values())
    assert not [value for value in shown.values() if "hidden" in value]
    assert shown["spark.mine"] == "7"


def test_spark_leaves_out_of_its_event_log_what_we_take_for_a_secret(configured: Callable[[str], Config]) -> None:
    """Names that sound like no secret to Spark, too; a user's own pattern comes on top."""
    account = "spark.hadoop.fs.azure.account.key.shop.example.net"
    config = configured(f"{{{account}: hidden, spark.mine: '7', spark.redaction.regex: mine.too}}")
    settings = session_settings(config, JARS, small=True)
    is_left_out = re.compile(settings["spark.redaction.regex"].removeprefix("(?i)"), re.IGNORECASE).search

    assert all(is_left_out(name) for name, value in settings.items() if "hidden" in value)
    assert all(map(is_left_out, ("spark.mine.too", "kafka.ssl.keystore.key", "kafka.ssl.key.pem", "privateKey")))
    plain = ("spark.mine", "spark.master", "spark.sql.catalog.lake.warehouse", "kafka.ssl.keystore.type")
    assert not any(map(is_left_out, plain))


def test_spark_keeps_no_text_of_what_went_wrong(configured: Callable[[str], Config]) -> None:
    """The error of a cast names its value; whoever protects the event log can have all of it."""
    name = "spark.eventLog.excludedPatterns"
    kinds = session_settings(configured("{spark.eventLog.enabled: true}"), JARS, small=True)[name].split(",")

    assert [kind.rpartition("SparkListener")[2] for kind in kinds] == [
        "TaskEnd", "StageCompleted", "JobEnd", "SQLExecutionEnd",
    ]  # fmt: skip
    assert session_settings(configured(f"{{{name}: ''}}"), JARS, small=True)[name] == ""


def test_our_part_of_a_list_with_a_secret_is_on_the_command_line(
    configured: Callable[[str], Config], caplog: pytest.LogCaptureFixture
) -> None:
    """The JVM starts with our log's settings and limits; that it starts without the user's is told."""
    options = "-Dproxy.password=hidden -Dtheirs=1"
    plain = session_settings(configured("{spark.mine: '7'}"), JARS, small=True)
    config = configured(f"{{spark.driver.extraJavaOptions: '{options}'}}")
    shown = command_line_settings(config, session_settings(config, JARS, small=True))

    assert shown["spark.driver.extraJavaOptions"] == plain["spark.driver.extraJavaOptions"]
    assert "JDK_JAVA_OPTIONS" in caplog.text
    assert "hidden" not in caplog.text


def test_the_jvms_chatter_is_dropped_and_the_rest_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """The line that every JVM of Spark begins with is not shown; what it says besides goes to standard error."""
    words = JvmWords()
    os.write(words.inlet, b"WARNING: Using incubator modules: jdk.incubator.vector\nout of memory\n")
    words.pass_on()
    words.close_inlet()
    words._thread.join(timeout=5)

    assert capfd.readouterr().err == "out of memory\n"


def _said(words: JvmWords, said: bytes, capfd: pytest.CaptureFixture[str]) -> str:
    """What is passed on of what a JVM says, half of it while it starts."""
    half = said.index(b"\n", len(said) // 2) + 1
    os.write(words.inlet, said[:half])
    words.pass_on()
    os.write(words.inlet, said[half:])
    words.close_inlet()
    words._thread.join(timeout=5)
    return capfd.readouterr().err


def test_options_that_a_jvm_takes_from_its_environment_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each JVM tells them word for word, also those with secrets, and where they have several lines."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dproxy.pin=canary1")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Dstore.pin=canary2\n  -Dother.pin=canary3\n\n")
    said = (
        b"NOTE: Picked up JDK_JAVA_OPTIONS: -Dstore.pin=canary2\n  -Dother.pin=canary3\n\n\n"
        b"Picked up JAVA_TOOL_OPTIONS: -Dproxy.pin=canary1\n"
        b"WARNING: Using incubator modules: jdk.incubator.vector\nout of memory\n"
    )

    assert _said(JvmWords(), said + said, capfd).split() == ["out", "of", "memory"] * 2
    words = JvmWords()
    os.write(words.inlet, said.replace(b"out of memory\n", b""))
    assert words.reason(RuntimeError("gateway exited")) == "gateway exited"


def test_what_a_jvm_says_has_no_secret_of_the_pipeline(
    configured: Callable[[str], Config], capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither what the file says is one, line by line where it has several, nor what looks like one."""
    config = configured('{spark.hadoop.fs.s3a.secret.key: "canary1\\n  canary2"}')
    said = b"cannot use canary2\nnor password=canary3\nException: canary1 is refused\n"

    assert _said(JvmWords(session._redactor(config)), said, capfd).splitlines() == [
        "cannot use ***",
        "nor password=***",
        "Exception: *** is refused",
    ]
    words = JvmWords(session._redactor(config))
    os.write(words.inlet, said)
    assert words.reason(RuntimeError("gateway exited")) == "Exception: *** is refused"


def test_what_the_jvm_says_and_nobody_reads_is_nothing_to_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, and what comes later is taken from it all the same: a JVM that cannot write waits."""
    words, write = JvmWords(), os.write

    def into_a_broken_pipe(stream: int, text: bytes) -> int:
        if stream == 2:
            raise BrokenPipeError
        return write(stream, text)

    monkeypatch.setattr(os, "write", into_a_broken_pipe)
    os.write(words.inlet, b"out of memory\n")
    words.pass_on()
    os.write(words.inlet, b"once more\n" * 10_000)
    words.close_inlet()
    words._thread.join(timeout=5)

    assert not words._thread.is_alive()


def test_a_jvm_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that it was asked for is done by then; a run that went well is not told as one that failed."""
    from pyspark import SparkContext

    asked: list[str] = []

    def wait(seconds: int | None = None) -> None:
        asked.append("wait")
        if seconds is not None:
            raise subprocess.TimeoutExpired("java", seconds)

    process = SimpleNamespace(stdin=SimpleNamespace(close=lambda: None), wait=wait, kill=lambda: asked.append("kill"))
    gateway = SimpleNamespace(proc=process, shutdown=lambda: asked.append("shutdown"))
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", object())

    session._end_jvm()

    assert asked == ["shutdown", "wait", "kill", "wait"]
    assert SparkContext._gateway is None


def test_a_jvm_does_not_end_by_what_asks_all_processes_to(tmp_path: Path, fresh: "Fresh") -> None:
    """`timeout` and `systemctl stop` ask each process of a group; the running batches need their JVM until they end."""
    launcher = tmp_path / "bin" / "spark-submit"
    launcher.parent.mkdir()
    launcher.write_text("#!/bin/sh\nkill -INT $$\nkill -TERM $$\necho Error: still there >&2\nexit 1\n")
    launcher.chmod(0o755)
    code = (
        "import os, signal, sys; from cdc_materializer.session import session\n"
        "os.environ['SPARK_HOME'] = sys.argv[1]\n"
        "try: session._start({}, {})\n"
        "except session.ConfigError as error: print(error)\n"
        "print(signal.getsignal(signal.SIGTERM).name)"
    )
    said = fresh.run(code, str(tmp_path)).out.splitlines()

    assert said[0].startswith("Spark did not start: Error: still there")
    assert said[1:] == ["SIG_DFL"]


@pytest.mark.parametrize("name", ["gettempdir", "mkdtemp"])
def test_a_machine_without_room_is_told_so(
    configured: Callable[[str], Config], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Exit code 4, and no bug: no temporary folder can be written to, or the chosen one not any more."""

    def no_room(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("cdc_materializer.jars.require_java", lambda: None)
    monkeypatch.setattr("cdc_materializer.jars.resolve", lambda: JARS)
    monkeypatch.setattr(tempfile, name, no_room)
    with pytest.raises(LakeUnavailable, match="No space left on device") as caught:
        session.open_session(configured("{}"), small=True)

    assert caught.value.exit_code == 4


def test_a_failed_start_names_the_telling_line(capfd: pytest.CaptureFixture[str]) -> None:
    """Of all that a JVM says when it cannot start, the error is taken, and nothing is printed."""
    words = JvmWords()
    os.write(words.inlet, b"Picked up JAVA_TOOL_OPTIONS: -Da=b\nInvalid maximum heap size: -Xmx4x\n\tat some.Method\n")

    assert words.reason(RuntimeError("gateway exited")) == "Invalid maximum heap size: -Xmx4x"
    assert capfd.readouterr().err == ""
