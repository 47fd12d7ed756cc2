"""Apicurio Registry, spoken to in Confluent's REST form; its schemas are in a file and outlive a crash."""

from pathlib import Path

from cdc_materializer import jars
from integration.chain.downloads import Parts
from integration.chain.kafka import JAVA_OPTIONS
from integration.chain.process import START_SECONDS_MAX, Process, Service, free_port
from integration.chain.web import answers

#: Where Confluent's interface begins.
CONFLUENT_PATH = "/apis/ccompat/v7"
#: Where Apicurio's own begins, which its converter speaks.
NATIVE_PATH = "/apis/registry/v2"


class Registry(Service):
    """A registry on a free port."""

    def __init__(self, parts: Parts, folder: Path, options: tuple[str, ...] = ()) -> None:
        """Lay out a registry in a folder; ``options`` are more options of its JVM, its settings among them."""
        self.port = free_port()
        (jar,) = parts.registry.glob("*-runner.jar")
        database = f"jdbc:h2:file:{folder / 'schemas'};DB_CLOSE_ON_EXIT=FALSE"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            # Otherwise it is in memory, and a registry that crashed would hand out the same ids for other schemas.
            "REGISTRY_DATASOURCE_URL": database,
        }
        command = [
            str(jars.require_java()),
            "-Xmx320m",
            *JAVA_OPTIONS,
            *(f"-D{name}={text}" for name, text in settings.items()),
        ]
        super().__init__(Process("registry", [*command, *options, "-jar", str(jar)], folder))

    @property
    def url(self) -> str:
        """The address for those who speak Confluent's REST form."""
        return f"http://127.0.0.1:{self.port}{CONFLUENT_PATH}"

    @property
    def native_url(self) -> str:
        """The address for Apicurio's own converter."""
        return f"http://127.0.0.1:{self.port}{NATIVE_PATH}"

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it answers."""
        self.process.wait_until(
            "the registry answers", lambda: answers(self.port, f"{CONFLUENT_PATH}/subjects"), seconds
        )
