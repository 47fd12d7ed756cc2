"""A class of the JVM's that is kept here as its source, for what Spark has no function of its own for.

It is compiled by Janino, which Spark compiles its own plans with, the first time that a process needs it, and brought
to the executors as any library is.
"""

from __future__ import annotations

import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

_turn = threading.Lock()
#: Classes by the id of the application that has them and their source, each with the folder of its library.
_loaded: dict[tuple[str, Path], tuple[Any, tempfile.TemporaryDirectory[str]]] = {}


def new(source: Path, *arguments: str) -> Any:  # noqa: ANN401 - PySpark's and Py4J's
    """An instance of the class in a file of that name, of the package `cdcm`, by its only constructor."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no public way to the JVM
    given = context._gateway.new_array(context._jvm.java.lang.Object, len(arguments))  # noqa: SLF001
    for at, argument in enumerate(arguments):
        given[at] = argument
    return _class(context, source).getConstructors()[0].newInstance(given)


def _class(context: Any, source: Path) -> Any:  # noqa: ANN401 - PySpark's and Py4J's
    with _turn:
        application = context.applicationId
        # A process has one application at a time.
        for place in [place for place in _loaded if place[0] != application]:
            del _loaded[place]
        found = _loaded.get((application, source))
        if found is not None:
            return found[0]
        compiler = context._jvm.org.codehaus.janino.SimpleCompiler()  # noqa: SLF001
        compiler.cook(source.read_text(encoding="utf-8"))
        folder = tempfile.TemporaryDirectory(prefix="cdcm-library-", ignore_cleanup_errors=True)
        library = Path(folder.name) / f"{source.stem}.jar"
        codes = compiler.getBytecodes()
        with zipfile.ZipFile(library, "w") as jar:
            for name in codes:
                jar.writestr(f"{name.replace('.', '/')}.class", bytes(codes[name]))
        context._jsc.sc().addJar(library.as_uri())  # noqa: SLF001
        made = compiler.getClassLoader().loadClass(f"cdcm.{source.stem}")
        _loaded[(application, source)] = made, folder
        return made
