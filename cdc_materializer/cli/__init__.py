"""The command ``cdcm``: thin commands around the library, their errors as one sentence and a named exit code.

Nothing here imports Spark, Great Expectations or PyIceberg before a command needs them: ``cdcm --help`` answers at
once.
"""

from cdc_materializer.cli.main import app, main

__all__ = ["app", "main"]
