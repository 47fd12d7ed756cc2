"""What a JVM says on its standard error: held while it starts, then passed on less its chatter and all secrets."""

import os
import re
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from cdc_materializer.causes import java_causes
from cdc_materializer.java_options import repeats_options
from cdc_materializer.logs import Redactor

#: What a JVM with Spark's own options always says first, and nothing switches off.
_CHATTER = ("WARNING: Using incubator modules: jdk.incubator.vector",)


class JvmWords:
    """What the JVM says on its standard error: held while it starts, then passed on less its chatter and all secrets.

    Options that it takes from the environment it repeats as they are; none of that is passed on, nor held.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        outlet, self.inlet = os.pipe()
        self._held: deque[bytes] = deque(maxlen=50)
        self._passing = False
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._read, args=(outlet,), name="jvm-stderr", daemon=True)
        self._thread.start()

    def pass_on(self) -> None:
        """From now on, and for what was held: to our standard error."""
        with self._turn:
            self._passing = True
            while self._held:
                self._write(self._held.popleft())

    def close_inlet(self) -> None:
        """Give up our end; the JVM has its own."""
        if self.inlet >= 0:
            os.close(self.inlet)
            self.inlet = -1

    def reason(self, error: Exception) -> str:
        """Return the line that best says why the start failed."""
        self.close_inlet()
        self._thread.join(timeout=2)
        thrown = next(java_causes(error), None)
        if thrown is not None:
            why = f"{thrown.getClass().getSimpleName()}: {_first_line(str(thrown.getMessage()))}"
        else:
            lines = [line.decode(errors="replace").strip() for line in self._held]
            why = _telling_line(lines) or _first_line(str(error))
        return self._redactor.redact(why)

    def _read(self, outlet: int) -> None:
        with os.fdopen(outlet, "rb") as lines:
            for line in lines:
                text = os.fsdecode(line)
                if text.strip() in _CHATTER or repeats_options(text):
                    continue
                with self._turn:
                    if self._passing:
                        self._write(line)
                    else:
                        self._held.append(line)

    def _write(self, line: bytes) -> None:
        # Not sys.stderr: its lock, taken by a thread that outlives the interpreter, aborts the process.
        with suppress(OSError):  # nobody may read it any more, which is nothing to Spark
            os.write(2, os.fsencode(self._redactor.redact(os.fsdecode(line))))


def _telling_line(lines: Iterable[str]) -> str | None:
    said = [line for line in lines if line and not line.startswith("at ")]
    errors = [line for line in said if re.match(r"Error|Exception|Invalid|Unrecognized", line)]
    return next(iter([*errors, *said]), None)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given."
