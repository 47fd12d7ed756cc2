"""Java and the Java libraries: found, refused, fetched once, verified; with a `java` made of a few lines of shell."""

import hashlib
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cdc_materializer import jars
from cdc_materializer.errors import JarsUnavailable, JavaMissing
from tests.unit.javas import VERSION_LINE, make_java


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java, no folder of jars, an empty cache, until a test says otherwise; /bin for the shell."""
    monkeypatch.delenv("CDCM_JARS", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def two_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Let the list of libraries be two small ones, and JAVA_HOME a java that "downloads" exactly them."""
    checksums = {f"{name}-1.jar": hashlib.sha256(f"{name}\n".encode()).hexdigest() for name in ("a", "b")}
    listed = tmp_path / "jars.sha256"
    listed.write_text("".join(f"{digest}  {name}\n" for name, digest in checksums.items()))
    monkeypatch.setattr(jars, "_CHECKSUM_FILE", listed)
    use_ivy(monkeypatch, tmp_path, delivers())
    return checksums


def delivers(a: str = "a") -> str:
    """Shell lines that do what Ivy does: count the call, take the pattern after -retrieve, write two files there."""
    return (
        'for word in "$@"; do pattern="$word"; done\nfolder="${pattern%/*}"\nmkdir -p "$folder"\n'
        f'echo {a} > "$folder/a-1.jar"\necho b > "$folder/b-1.jar"\n'
        'echo "$@" >> "$(dirname "$0")/calls"'
    )


def use_ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ivy: str) -> None:
    """Make JAVA_HOME a java whose Ivy is the shell lines `ivy`."""
    make_java(tmp_path / "java", ivy=ivy)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))


def calls(tmp_path: Path) -> list[str]:
    """Return the command lines that Ivy was started with."""
    log = tmp_path / "java" / "bin" / "calls"
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2"])
def test_java_17_and_21_are_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    """A Java that Spark 4.1 runs on is returned, with the path that will be started."""
    java = make_java(tmp_path, VERSION_LINE.format(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert jars.require_java() == java


@pytest.mark.parametrize(("version", "named"), [("1.8.0_392", "Java 8"), ("11.0.2", "Java 11"), ("25", "Java 25")])
def test_other_javas_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, named: str
) -> None:
    """Any other version is refused, and the message names the one that was found and the one to install."""
    make_java(tmp_path, VERSION_LINE.format(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match=rf"{named}\. Install Java 17"):
        jars.require_java()


def test_a_java_that_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program called java that tells no version is not Java."""
    make_java(tmp_path, "hello")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaMissing, match="does not tell its version"):
        jars.require_java()


def test_missing_java_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With neither JAVA_HOME nor a java on the PATH, the message says so and what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaMissing, match="there is none on this machine's PATH"):
        jars.require_java()


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME without a java is an error even with one on the PATH, because Spark's launcher would fail there."""
    make_java(tmp_path / "good")
    monkeypatch.setenv("PATH", str(tmp_path / "good" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(JavaMissing, match="JAVA_HOME"):
        jars.require_java()


def test_own_folder_of_jars_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CDCM_JARS gives every *.jar of the folder, and nothing is fetched."""
    for name in ("two.jar", "one.jar", "README"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CDCM_JARS", str(tmp_path))

    assert jars.resolve() == (tmp_path / "one.jar", tmp_path / "two.jar")


def test_own_folder_without_jars_is_refused(tmp_path: Path) -> None:
    """A folder without a *.jar is a mistake, not a reason to download."""
    with pytest.raises(JarsUnavailable, match=r"no \*\.jar in it"):
        jars.resolve(folder=tmp_path)


def test_jars_are_fetched_once(two_jars: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first call fetches and says so in one line on standard error; the second starts nothing and is silent."""
    first = jars.resolve()
    said = capsys.readouterr()
    second = jars.resolve()

    assert [path.name for path in first] == list(two_jars)
    assert first == second
    assert len(calls(tmp_path)) == 1
    assert (said.out, said.err.count("\n"), capsys.readouterr().err) == ("", 1, "")


def test_ivy_sees_an_empty_home(two_jars: dict[str, str], tmp_path: Path) -> None:
    """Ivy gets a home folder of its own: a POM without its jar in ~/.m2 would make it give up."""
    assert two_jars
    jars.resolve()

    assert f"-Duser.home={tmp_path / 'cache'}" in calls(tmp_path)[0]


def test_a_filled_cache_needs_no_java(two_jars: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a filled cache nothing is started, so an offline machine works."""
    before = jars.resolve()
    monkeypatch.setenv("JAVA_HOME", "nowhere")

    assert jars.resolve() == before
    assert len(before) == len(two_jars)


def test_a_damaged_cache_is_fetched_again(two_jars: dict[str, str], tmp_path: Path) -> None:
    """A library whose size is not the one that was verified is replaced."""
    damaged = jars.resolve()[0]
    damaged.write_text("")

    assert jars.resolve()[0].read_text() == "a\n"
    assert len(calls(tmp_path)) == len(two_jars)


def test_a_changed_jar_is_refused_and_nothing_kept(
    two_jars: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A download with another checksum is an error that names the file, and leaves no cache behind."""
    use_ivy(monkeypatch, tmp_path, delivers(a="x"))

    with pytest.raises(JarsUnavailable, match=next(iter(two_jars))):
        jars.resolve()
    assert list((tmp_path / "cache").rglob("*.jar")) == []


def test_a_failed_download_says_what_to_do(
    two_jars: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When Ivy fails, the message names CDCM_JARS and the log, which holds Ivy's own words, and not Java's options."""
    assert two_jars
    said = "echo 'Picked up JAVA_TOOL_OPTIONS: -Dproxy.password=canary' >&2"
    use_ivy(monkeypatch, tmp_path, f"{said}; echo no route; exit 1")

    with pytest.raises(JarsUnavailable, match="CDCM_JARS"):
        jars.resolve()
    assert [log.read_text() for log in (tmp_path / "cache").rglob("last-failure.log")] == ["no route\n"]


def test_a_download_that_lacks_a_jar_is_refused(
    two_jars: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ivy ending well is not enough: each library must be there."""
    assert two_jars
    use_ivy(monkeypatch, tmp_path, "exit 0")

    with pytest.raises(JarsUnavailable, match=r"without a-1\.jar"):
        jars.resolve()


def test_a_cache_that_cannot_be_written_is_one_clear_sentence(two_jars: dict[str, str], tmp_path: Path) -> None:
    """A cache folder that cannot be made is named, with the variable that moves it."""
    assert two_jars
    (tmp_path / "cache").touch()

    with pytest.raises(JarsUnavailable, match="XDG_CACHE_HOME"):
        jars.resolve()


def test_two_processes_at_once_both_succeed(
    two_jars: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both fetch into folders of their own; one is moved into place, and both get a whole cache."""
    # Each waits until the other has begun, so that neither finds the other's result.
    wait = 'cd "$(dirname "$0")"; touch begun.$$\nwhile [ "$(ls begun.* | wc -l)" -lt 2 ]; do sleep 0.02; done\ncd /\n'
    use_ivy(monkeypatch, tmp_path, wait + delivers())
    found: list[tuple[Path, ...]] = []
    threads = [threading.Thread(target=lambda: found.append(jars.resolve())) for _ in two_jars]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert len(found) == len(calls(tmp_path)) == 2
    assert all(path.is_file() for path in (*found[0], *found[1]))
    assert list((tmp_path / "cache").rglob("part-*")) == []


def test_every_pinned_library_has_a_checksum() -> None:
    """ivy.xml and jars.sha256 list the same files, and nothing is resolved transitively."""
    package = Path(jars.__file__).parent
    dependencies = ET.parse(package / "ivy.xml").getroot().iter("dependency")  # noqa: S314 - our own file
    pinned = {f"{d.get('name')}-{d.get('rev')}.jar": d.get("transitive") for d in dependencies}

    assert sorted(pinned) == sorted(jars.read_checksums((package / "jars.sha256").read_text()))
    assert set(pinned.values()) == {"false"}


def test_the_command_prints_only_the_folder(two_jars: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m cdc_materializer.jars` prints the folder of the libraries and ends with 0."""
    status = jars.main([])
    folder = Path(capsys.readouterr().out.strip())

    assert status == 0
    assert sorted(path.name for path in folder.glob("*.jar")) == sorted(two_jars)


def test_the_command_ends_with_the_errors_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Java the command prints the sentence on standard error and ends with 2."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    assert jars.main(["--java"]) == 2
    assert capsys.readouterr().err.startswith("JAVA_HOME names a folder without bin/java")


def test_the_slower_of_two_leaves_the_faster_ones_files_in_place(two_jars: dict[str, str], tmp_path: Path) -> None:
    """Whoever finds a whole cache where its own should go keeps it: another JVM may already read those files."""
    target = jars.resolve()[0].parent
    before = target.stat().st_ino
    staged = tmp_path / "staged"
    staged.mkdir()
    jars._move_into_place(staged, target, two_jars)

    assert target.stat().st_ino == before


def test_libraries_are_held_against_their_checksums(two_jars: dict[str, str], tmp_path: Path) -> None:
    """What is missing and what is not the tested one is named; nothing is fetched."""
    nothing = jars.inspect()
    folder = jars.resolve()[0].parent
    complete = jars.inspect()
    (folder / "a-1.jar").write_text("another")
    (folder / "b-1.jar").unlink()
    found = jars.inspect()

    assert (nothing.jars, nothing.missing, nothing.is_own) == (0, tuple(two_jars), False)
    assert (complete.folder, complete.jars, complete.missing, complete.wrong) == (folder, 2, (), ())
    assert (found.jars, found.missing, found.wrong) == (1, ("b-1.jar",), ("a-1.jar",))
    assert len(calls(tmp_path)) == 1
