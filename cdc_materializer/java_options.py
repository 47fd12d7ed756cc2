"""What Spark's JVM is started with: where it writes, what Avro's reader takes, its compilers and its collector."""

import re
from pathlib import Path

from cdc_materializer import environment

_LOG_FILE = Path(__file__).with_name("log4j2.properties")
#: How long a text, a run of bytes and an array may be for Avro's reader. It makes room for as many as a message says it
#: has, before it looks whether they are there: one damaged length of thirty bits ends a JVM. No message is as long.
AVRO_LIMITS = {
    "org.apache.avro.limits.string.maxLength": 128 * 2**20,
    "org.apache.avro.limits.bytes.maxLength": 128 * 2**20,
    "org.apache.avro.limits.collectionItems.maxLength": 16 * 2**20,
}
#: What every JVM gets that reads messages, those of executors too.
AVRO_OPTIONS = " ".join(f"-D{name}={limit}" for name, limit in AVRO_LIMITS.items())
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

#: So each JVM begins to tell, word for word, what it takes from the environment: the first is `java`'s own.
_PICKED_UP = ("NOTE: Picked up ", "Picked up ")


def repeats_options(line: str) -> bool:
    """Whether by a line a JVM tells options that it was given by the environment, where those with secrets belong."""
    return line.startswith(_PICKED_UP) or line.strip() in environment.java_option_lines()


def driver_options(own: str, *, small: bool) -> str:
    """The options of the driver's JVM, which the user's own go behind.

    Args:
        own: what else it is told, by the user and by the machine; a JVM that is told of two collectors does not start,
            so one that is named there stands alone.
        small: for a run of seconds, which only the quick compiler and one collector thread make cheap: half the CPU of
            one with both compilers. In one of minutes the slower code costs more than that.
    """
    # With the quick compiler alone the JVM keeps 48 MB for compiled code, which some twenty tables fill: it then throws
    # code away and compiles it again.
    compiler = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m") if small else ()
    # Nobody waits for an answer while it collects: three batches of 50,000 changes took 40.3 CPU-s, with G1 43.8.
    collector = f"-XX:+Use{'Serial' if small else 'Parallel'}GC"
    # Standard output belongs to our one document (design §4.1); the JVM would write its warnings there.
    said = (f'"-Dlog4j2.configurationFile={_LOG_FILE.as_uri()}"', "-XX:+DisplayVMOutputToStderr")
    return " ".join((*said, AVRO_OPTIONS, *(() if _COLLECTOR.search(own) else (collector,)), *compiler))
