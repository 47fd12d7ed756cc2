"""An Iceberg REST catalog: the servlet that Iceberg tests its own clients with, under Jetty, over SQLite.

There is no code of ours in it: Jetty builds a server from an XML file, so no Java compiler is needed.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from cdc_materializer import jars
from integration.chain.downloads import Parts
from integration.chain.kafka import JAVA_OPTIONS
from integration.chain.process import START_SECONDS_MAX, Process, Service, free_port
from integration.chain.s3 import S3
from integration.chain.web import answers

_SERVER = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure id="server" class="org.eclipse.jetty.server.Server">
  <New id="configuration" class="org.apache.hadoop.conf.Configuration"/>
  <New id="properties" class="java.util.HashMap">
{properties}
  </New>
  <Call id="catalog" class="org.apache.iceberg.CatalogUtil" name="buildIcebergCatalog">
    <Arg>rest_backend</Arg>
    <Arg><Ref refid="properties"/></Arg>
    <Arg><Ref refid="configuration"/></Arg>
  </Call>
  <Call name="addConnector">
    <Arg>
      <New class="org.eclipse.jetty.server.ServerConnector">
        <Arg name="server"><Ref refid="server"/></Arg>
        <Set name="host">127.0.0.1</Set>
        <Set name="port">{port}</Set>
      </New>
    </Arg>
  </Call>
  <Set name="handler">
    <New id="handler" class="org.eclipse.jetty.ee10.servlet.ServletContextHandler">
      <Set name="contextPath">/</Set>
      <Call name="addServlet">
        <Arg>
          <New class="org.eclipse.jetty.ee10.servlet.ServletHolder">
            <Arg>
              <New class="org.apache.iceberg.rest.RESTCatalogServlet">
                <Arg>
                  <New class="org.apache.iceberg.rest.RESTCatalogAdapter">
                    <Arg><Ref refid="catalog"/></Arg>
                  </New>
                </Arg>
              </New>
            </Arg>
          </New>
        </Arg>
        <Arg>/*</Arg>
      </Call>
    </New>
  </Set>
</Configure>
"""
_PROPERTY = '    <Call name="put"><Arg>{}</Arg><Arg>{}</Arg></Call>'


class RestCatalog(Service):
    """A catalog on a free port, whose tables are on an S3 store or in its folder; its memory outlives a kill."""

    def __init__(self, parts: Parts, folder: Path, s3: S3 | None = None) -> None:
        """Lay out a catalog in a folder; with ``s3``, tables go to that store's bucket."""
        self.port = free_port()
        self._s3 = s3
        warehouse = s3.warehouse if s3 else (folder / "warehouse").as_uri()
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:file:{folder / 'catalog.db'}",
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            **(s3_properties(s3.url) if s3 else {}),
        }
        lines = [_PROPERTY.format(escape(name), escape(text)) for name, text in properties.items()]
        server = folder / "server.xml"
        server.write_text(_SERVER.format(properties="\n".join(lines), port=self.port), encoding="utf-8")
        command = [str(jars.require_java()), "-Xmx256m", *JAVA_OPTIONS, *(f"-D{n}={t}" for n, t in _aws(s3).items())]
        program = ["-cp", f"{parts.catalog}/*", "org.eclipse.jetty.xml.XmlConfiguration", str(server)]
        super().__init__(Process("rest-catalog", [*command, *program], folder))

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def client_properties(self) -> Mapping[str, str]:
        """What pipeline.yaml needs under `catalog` to use it."""
        return {"type": "rest", "uri": self.url, **(s3_properties(self._s3.url) if self._s3 else {})}

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it answers."""
        self.process.wait_until("the REST catalog answers", lambda: answers(self.port, "/v1/config"), seconds)


def s3_properties(endpoint: str) -> dict[str, str]:
    """What an Iceberg client needs to reach the store at an address."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": S3.user,
        "s3.secret-access-key": S3.password,
        "client.region": S3.region,
    }


def _aws(s3: S3 | None) -> dict[str, str]:
    return {"aws.region": s3.region} if s3 else {}
