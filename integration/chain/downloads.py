"""The Java parts of the chain: fetched once into the user's cache, verified, unpacked.

What they are stands in ``ivy.xml``, their checksums in ``ivy.sha256``. They are fetched by the Ivy inside PySpark, as
the libraries of the package itself are. ``python -m integration.chain.downloads`` fetches them and prints the folder.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cdc_materializer import environment, jars
from integration.chain.alone import alone
from integration.chain.process import ChainError

_HERE = Path(__file__).parent
_IVY, _SETTINGS, _CHECKSUMS = (_HERE / name for name in ("ivy.xml", "ivysettings.xml", "ivy.sha256"))
#: 450 MB; a firewall that swallows packets must not hang a run for ever.
_DOWNLOAD_SECONDS_MAX = 1200
_STAMP = "complete"
#: Changes with what is made of the downloads.
_LAYOUT = b"2"
#: What the jar of Apicurio's converter lacks. Without it a Connect worker has to look through the classes of every
#: plugin at each start, which takes it ten seconds.
_CONVERTER_SERVICE = "META-INF/services/org.apache.kafka.connect.storage.Converter"
_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"


@dataclass(frozen=True)
class Parts:
    """Where the Java parts are.

    Attributes:
        kafka: folder of the jars of the broker and of Kafka Connect.
        plugins: folder of connector plugins: Debezium for PostgreSQL and MariaDB, and Apicurio's Avro converter.
        registry: folder of the Apicurio registry, with one runnable jar.
        catalog: folder of the jars of the REST catalog.
        spark: folder of the jars that Spark needs besides the product's own, for S3.
    """

    kafka: Path
    plugins: Path
    registry: Path
    catalog: Path
    spark: Path


def parts() -> Parts:
    """Return the Java parts, fetching them first if this machine does not have them yet.

    Raises:
        JavaMissing: there is no Java to run them.
        ChainError: they could not be fetched, or are not those that were pinned.
    """
    jars.require_java()
    key = hashlib.sha256(_LAYOUT + _IVY.read_bytes() + _CHECKSUMS.read_bytes()).hexdigest()[:16]
    target = environment.cache_folder() / "cdc-materializer" / "integration" / f"java-{key}"
    with alone("java"):
        if not (target / _STAMP).exists():
            _make(target)
    return Parts(target / "kafka", target / "plugins", target / "registry", target / "catalog", target / "spark")


def _make(target: Path) -> None:
    """Fill ``target`` in one rename, so that a kill never leaves half a cache."""
    sys.stderr.write("Downloading the Java parts of the integration chain (about 450 MB, once) …\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=target.parent) as work:
        staged = Path(work) / "java"
        _fetch(Path(work), staged)
        _verify(staged)
        _unpack(staged)
        (staged / _STAMP).touch()
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)


def _fetch(work: Path, staged: Path) -> None:
    pattern = f"{staged}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    command = [
        str(jars.require_java()),
        f"-Duser.home={work}",
        *("-jar", str(jars._ivy_jar())),
        *("-settings", str(_SETTINGS), "-cache", str(work / "ivy"), "-ivy", str(_IVY), "-retrieve", pattern),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS_MAX)
    if done.returncode:
        wrong = [line for line in done.stdout.splitlines() if "::" in line or "WARN" in line]
        message = "\n".join(["the Java parts of the chain could not be downloaded", *wrong[-15:]])
        raise ChainError(message)


def _verify(staged: Path) -> None:
    found = _digests(staged)
    expected = jars.read_checksums(_CHECKSUMS.read_text(encoding="utf-8"))
    if not expected:  # ivy.xml was changed and the file emptied, to be written anew
        lines = [f"{digest}  {name}\n" for name, digest in found.items()]
        _CHECKSUMS.write_text("".join(lines), encoding="utf-8")
        return
    wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    if wrong:
        message = f"downloaded parts differ from integration/chain/ivy.sha256, nothing was kept: {', '.join(wrong)}"
        raise ChainError(message)


def _digests(staged: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(staged.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digests[path.relative_to(staged).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _unpack(staged: Path) -> None:
    plugins, registry = staged / "plugins", staged / "registry"
    plugins.mkdir()
    (staged / "converter").rename(plugins / "apicurio-converter")
    with zipfile.ZipFile(plugins / "apicurio-converter" / "service.jar", "w") as jar:
        jar.writestr(_CONVERTER_SERVICE, _CONVERTER)
    for archive in sorted((staged / "archives").iterdir()):
        with tarfile.open(archive) as packed:
            packed.extractall(plugins if archive.name.startswith("debezium") else registry, filter="data")
    shutil.rmtree(staged / "archives")


if __name__ == "__main__":
    sys.stdout.write(f"{parts().kafka.parent}\n")
