"""`ProtobufToAvro`, the JVM's half of reading Protobuf, as a function of columns.

Spark has no such function of its own that comes with it. The class is compiled by Janino, which Spark compiles its own
plans with, the first time that a process needs it, and brought to the executors as any library is.
"""

from __future__ import annotations

import tempfile
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

if TYPE_CHECKING:
    from pyspark.sql import Column

_SOURCE = Path(__file__).with_name("ProtobufToAvro.java")
_CLASS = "cdcm.ProtobufToAvro"
_turn = threading.Lock()
#: The class by the id of the application that has it, and the folder of its library; a process has one at a time.
_loaded: dict[str, tuple[Any, tempfile.TemporaryDirectory[str]]] = {}


def as_avro(octets: Column, program: str) -> Column:
    """The Avro datum of a Protobuf message; NULL where the bytes are not what their schema says.

    Args:
        octets: the binary message.
        program: how it is read (`protobuf.Translation`).
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no public way to the JVM
    arguments = context._gateway.new_array(context._jvm.java.lang.Object, 1)  # noqa: SLF001
    arguments[0] = program
    reader = _class(context).getConstructors()[0].newInstance(arguments)
    given: Any = octets
    return ClassicColumn(reader.of(given._jc))  # noqa: SLF001


def _class(context: Any) -> Any:  # noqa: ANN401 - PySpark's and Py4J's
    with _turn:
        found = _loaded.get(context.applicationId)
        if found is not None:
            return found[0]
        compiler = context._jvm.org.codehaus.janino.SimpleCompiler()  # noqa: SLF001
        compiler.cook(_SOURCE.read_text(encoding="utf-8"))
        folder = tempfile.TemporaryDirectory(prefix="cdcm-library-", ignore_cleanup_errors=True)
        library = Path(folder.name) / "protobuf-to-avro.jar"
        codes = compiler.getBytecodes()
        with zipfile.ZipFile(library, "w") as jar:
            for name in codes:
                jar.writestr(f"{name.replace('.', '/')}.class", bytes(codes[name]))
        context._jsc.sc().addJar(library.as_uri())  # noqa: SLF001
        made = compiler.getClassLoader().loadClass(_CLASS)
        _loaded.clear()
        _loaded[context.applicationId] = made, folder
        return made
