"""Java and the Java libraries that Spark needs: found, fetched once, verified.

The coordinates are in ``ivy.xml``, their checksums in ``jars.sha256``. The Ivy that ships inside PySpark fetches
them into a cache folder named after both files, so two versions of this package never share one. Checksums are
verified when the libraries arrive; afterwards a start compares names and sizes with the stamp left then.

``python -m cdc_materializer.jars`` fetches and prints the folder; with ``--java`` it only checks Java.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cdc_materializer import environment
from cdc_materializer.errors import CdcError, JarsUnavailable, JavaMissing
from cdc_materializer.java_options import repeats_options

#: What Spark 4.1 runs on, the one we test with first.
JAVA_VERSIONS = (17, 21)

_IVY_FILE = Path(__file__).with_name("ivy.xml")
_CHECKSUM_FILE = Path(__file__).with_name("jars.sha256")
_STAMP = "verified.json"
#: 70 MB on a slow line; without a limit a firewall that swallows packets would hang the first run for ever.
_DOWNLOAD_SECONDS_MAX = 900
_JAVA_ADVICE = "Install Java 17 (21 works too), for example the package openjdk-17-jre-headless, or set JAVA_HOME."
_JARS_ADVICE = (
    "Run again with access to a Maven repository, or set CDCM_JARS to a folder that holds the libraries of"
    " cdc_materializer/ivy.xml."
)


def require_java() -> Path:
    """Return the ``java`` that Spark will start, after making sure that Spark can run on it.

    Looks where Spark's own launcher looks: ``JAVA_HOME`` when it is set, otherwise the PATH.

    Raises:
        JavaMissing: there is none, or its version is not one of ``JAVA_VERSIONS``.
    """
    return found_java()[0]


def found_java() -> tuple[Path, int]:
    """Return the ``java`` that Spark will start and its version; see `require_java`."""
    java = _find_java()
    found = _java_version(java)
    if found not in JAVA_VERSIONS:
        version = f"Java {found}" if found else "a Java that does not tell its version"
        raise JavaMissing(f"Spark 4.1 runs on Java 17 or 21, but this machine's java is {version}.", _JAVA_ADVICE)
    return java, found


def resolve(folder: Path | None = None, cache: Path | None = None) -> tuple[Path, ...]:
    """Return the paths of the Java libraries, fetching them first if this machine does not have them yet.

    Args:
        folder: take every ``*.jar`` in there and fetch nothing; default is what ``CDCM_JARS`` names.
        cache: the folder of caches to fetch into; default is the user's.

    Raises:
        JarsUnavailable: the folder has no libraries, or they could not be fetched, verified or stored.
    """
    folder = folder or environment.jars_folder()
    if folder is not None:
        return _own_jars(folder)
    checksums = read_checksums(_CHECKSUM_FILE.read_text(encoding="utf-8"))
    target = _cached(cache)
    if not _is_complete(target, checksums):
        _fetch(target, checksums)
    return tuple(target / name for name in checksums)


@dataclass(frozen=True)
class Found:
    """The Java libraries as they are on this machine.

    Attributes:
        folder: where they are, or would be.
        jars: how many are there.
        missing: the names of those of ours that are not.
        wrong: the names of those of ours whose content is not the tested one.
        is_own: whether the user named the folder, with ``CDCM_JARS``.
    """

    folder: Path
    jars: int
    missing: tuple[str, ...]
    wrong: tuple[str, ...]
    is_own: bool


def inspect(folder: Path | None = None, cache: Path | None = None) -> Found:
    """Say which libraries are there, and hold each against its checksum; fetches nothing. Arguments as of `resolve`."""
    own = folder or environment.jars_folder()
    checksums = read_checksums(_CHECKSUM_FILE.read_text(encoding="utf-8"))
    target = own or _cached(cache)
    there = {path.name: path for path in sorted(target.glob("*.jar"))}
    missing = tuple(name for name in checksums if name not in there)
    wrong = tuple(name for name, digest in checksums.items() if name in there and _sha256(there[name]) != digest)
    return Found(target, len(there), missing, wrong, is_own=own is not None)


def _cached(cache: Path | None) -> Path:
    return (cache or environment.cache_folder()) / "cdc-materializer" / "jars" / _cache_key()


def read_checksums(text: str) -> dict[str, str]:
    """Return SHA-256 by file name from the lines that ``sha256sum`` writes."""
    return {name: digest for digest, name in (line.split() for line in text.splitlines() if line.strip())}


def _find_java() -> Path:
    home = environment.java_home()
    if home is not None:
        java = home / "bin" / "java"
        if not java.is_file():
            raise JavaMissing(
                "JAVA_HOME names a folder without bin/java, and Spark would look nowhere else.", _JAVA_ADVICE
            )
        return java
    on_path = environment.java_on_path()
    if on_path is None:
        raise JavaMissing("Spark needs Java, and there is none on this machine's PATH.", _JAVA_ADVICE)
    return on_path


def _java_version(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 17.0.15 and later ones begin with the major version; up to Java 8 it was written 1.8.0.
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def _own_jars(folder: Path) -> tuple[Path, ...]:
    jars = tuple(sorted(folder.glob("*.jar")))
    if not jars:
        raise JarsUnavailable(
            f"CDCM_JARS names {folder}, and there is no *.jar in it.",
            "Put the libraries of cdc_materializer/ivy.xml there, or unset CDCM_JARS to have them downloaded.",
        )
    return tuple(jar.absolute() for jar in jars)


def _cache_key() -> str:
    return hashlib.sha256(_IVY_FILE.read_bytes() + _CHECKSUM_FILE.read_bytes()).hexdigest()[:16]


def _is_complete(target: Path, checksums: Mapping[str, str]) -> bool:
    try:
        sizes = json.loads((target / _STAMP).read_text(encoding="utf-8"))
        return all((target / name).stat().st_size == sizes[name] for name in checksums)
    except (OSError, ValueError, KeyError):
        return False


def _fetch(target: Path, checksums: Mapping[str, str]) -> None:
    """Fill ``target`` in one rename, so that a kill or a second process never leaves or sees half a cache."""
    sys.stderr.write("Downloading the Java libraries (about 70 MB, once) …\n")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="part-", dir=target.parent) as work:
            staged = Path(work) / "jars"
            _run_ivy(Path(work), staged)
            _verify(staged, checksums)
            sizes = {name: (staged / name).stat().st_size for name in checksums}
            (staged / _STAMP).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
            _move_into_place(staged, target, checksums)
    except OSError as error:
        what = f"The Java libraries cannot be stored in {target.parent}: {error.strerror or error}."
        raise JarsUnavailable(what, "Make room or set XDG_CACHE_HOME to a folder that can be written.") from error


def _run_ivy(work: Path, staged: Path) -> None:
    command = _ivy_command(require_java(), work, staged)
    try:
        # Its first resolver is ~/.m2 whatever the settings say, and a POM there without its jar makes it give up:
        # hence a home folder that is empty.
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        what = f"The download of the Java libraries did not finish in {_DOWNLOAD_SECONDS_MAX} seconds."
        raise JarsUnavailable(what, _JARS_ADVICE) from error
    if done.returncode:
        log = work.parent / "last-failure.log"
        said = (line for line in f"{done.stdout}{done.stderr}".splitlines(keepends=True) if not repeats_options(line))
        log.write_text("".join(said), encoding="utf-8")
        raise JarsUnavailable(f"The Java libraries could not be downloaded (details in {log}).", _JARS_ADVICE)


def _ivy_command(java: Path, work: Path, staged: Path) -> Sequence[str]:
    home = work / "home"
    home.mkdir()
    pattern = f"{staged}/[artifact]-[revision].[ext]"
    return [
        str(java),
        f"-Duser.home={home}",
        "-jar",
        str(_ivy_jar()),
        *("-cache", str(work / "ivy")),
        *("-ivy", str(_IVY_FILE)),
        *("-retrieve", pattern),
    ]


def _ivy_jar() -> Path:
    # find_spec looks the package up without importing it: half a second that a check of the cache need not cost.
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(Path(folders[0]).glob("jars/ivy-*.jar")) if folders else []
    if not found:
        raise JarsUnavailable("The installed pyspark carries no Ivy to download the Java libraries with.", _JARS_ADVICE)
    return found[-1]


def _verify(staged: Path, checksums: Mapping[str, str]) -> None:
    for name, expected in checksums.items():
        jar = staged / name
        if not jar.is_file():
            raise JarsUnavailable(f"The download ended without {name}.", _JARS_ADVICE)
        if _sha256(jar) != expected:
            raise JarsUnavailable(
                f"The {name} that was downloaded is not the one this version was tested with; nothing was kept.",
                "Run again; if it stays so, ask who runs the Maven repository or the proxy before it.",
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _move_into_place(staged: Path, target: Path, checksums: Mapping[str, str]) -> None:
    try:
        staged.rename(target)
    except OSError:
        if _is_complete(target, checksums):
            return  # another process was faster; its files passed the same check
        # What is there is damaged. It leaves by rename too, so that nobody sees it half gone.
        target.rename(staged.with_name("damaged"))
        staged.rename(target)


def main(arguments: Sequence[str]) -> int:
    """Check Java and, unless ``--java`` is given, fetch the libraries and print their folder; for the Makefile."""
    try:
        require_java()
        if "--java" not in arguments:
            sys.stdout.write(f"{resolve()[0].parent}\n")
    except CdcError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
