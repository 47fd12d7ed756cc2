"""Logging for the commands: one handler on standard error, and one redactor that everything it writes goes through.

There is one redactor so that there is one place to look at. It is the second line of defence: by design no message has
a row's values in it, and secrets are typed as secrets; what still gets into a text, such as a library's own message,
is masked here.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from cdc_materializer.errors import CdcError

#: Longest message that is written, in characters; a stack trace under ``--debug`` comes on top.
MESSAGE_CHARS_MAX = 2_000
#: Shorter values are not masked wherever they stand: `a` as a password would blacken every text.
SECRET_CHARS_MIN = 4

#: These tell about every call they make.
_TALKATIVE = ("botocore", "great_expectations", "httpcore", "httpx2", "py4j", "pyiceberg", "pyspark", "urllib3")
_MASK = "***"
#: By an error's class one of the same name that has no text (`without_texts`); each is made once, for a follower may
#: fail for weeks.
_STAND_INS: dict[type[BaseException], type[Exception]] = {}

# A word that names a secret, then its value: `password=x`, `"sasl.password": "x"`, `token: x`. Each word is tried from
# its beginning alone, and taken whole: a long one would take the cube of its length.
_NAMED = re.compile(
    r"""(?P<name>(?<![\w.-])
            (?=[\w.-]*?(?:password|passwd|passphrase|pwd|secret|token|(?:api|access|private)[._-]?key|credential
                |keystore[.]key|ssl[.]key[.]pem))
            [\w.-]++)
        (?P<between>["']?\s*[=:]\s*)(?P<value>"[^"]*"|'[^']*'|[^\s,;&"']+)""",
    re.IGNORECASE | re.VERBOSE,
)
# What clients write of HTTP headers, with or without the scheme.
_HEADER = re.compile(
    r"""(?P<name>\b(?:proxy-)?authorization["']?\s*[=:]\s*["']?(?:(?:basic|bearer|negotiate|digest)\s+)?)[^\s,;"'}]+""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>\b(?:basic|bearer)\s+)[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE)
# `scheme://user:password@host`; everything up to the last @ before the path belongs to user and password.
_IN_ADDRESS = re.compile(r"(?P<name>://)[^/\s]+@")
# A JAAS entry is a line of its own grammar, so all that follows the login module is taken.
_JAAS = re.compile(r"(?P<name>\b\w*LoginModule\s+(?:required|requisite|sufficient|optional)\b)[^;\n]*;?")

# A private key as a text, also in a text that is cut before its end.
_PEM = re.compile(
    r"(?P<name>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----).*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)


class Redactor:
    """Masks what must not be shown: the secrets it was told of, and what looks like one."""

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()

    def hide(self, secrets: Iterable[str]) -> None:
        """From now on mask these values too, wherever they stand."""
        self._secrets |= {secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN}

    def redact(self, text: str) -> str:
        """Return ``text`` with every secret replaced by three asterisks."""
        # The longest first: one secret can be the beginning of another.
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, _MASK)
        text = _PEM.sub(rf"\g<name>{_MASK}", text)
        text = _JAAS.sub(rf"\g<name> {_MASK}", text)
        text = _IN_ADDRESS.sub(rf"\g<name>{_MASK}@", text)
        text = _HEADER.sub(rf"\g<name>{_MASK}", text)
        text = _BEARER.sub(rf"\g<name>{_MASK}", text)
        return _NAMED.sub(rf"\g<name>\g<between>{_MASK}", text)


def secrets_of(settings: object) -> Iterator[str]:
    """Give every secret value in a configuration, however deep it is."""
    from pydantic import BaseModel, SecretStr  # a tenth of a second that `cdcm --help` has no use for

    if isinstance(settings, SecretStr):
        yield settings.get_secret_value()
    elif isinstance(settings, BaseModel):
        for name in type(settings).model_fields:
            yield from secrets_of(getattr(settings, name))
    elif isinstance(settings, Mapping):
        for value in settings.values():
            yield from secrets_of(value)
    elif isinstance(settings, tuple | list):
        for value in settings:
            yield from secrets_of(value)


def shortened(text: str, chars_max: int = MESSAGE_CHARS_MAX) -> str:
    """Return ``text`` cut to ``chars_max`` characters, saying how many are left out."""
    left_out = len(text) - chars_max
    return text if left_out <= 0 else f"{text[:chars_max]} … ({left_out} more characters)"


def without_texts(error: BaseException) -> Exception:
    """What to log as `exc_info`: an error and what led to it, each with its class and its stack.

    Only the errors of this package keep their text, which is written to be shown. That of a failed cast, or of a
    driver, has a row's values, and no pattern tells them from other words.
    """
    kind, text = type(error), (str(error),) if isinstance(error, CdcError) else ()
    if kind not in _STAND_INS:
        _STAND_INS[kind] = type(kind.__qualname__, (Exception,), {"__module__": kind.__module__})
    told = _STAND_INS[kind](*text)
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    told.__cause__ = None if earlier is None else without_texts(earlier)
    return told.with_traceback(error.__traceback__)


class RedactingFormatter(logging.Formatter):
    """Formats a record, stack trace included, as text that may be shown."""

    def __init__(self, redactor: Redactor, form: str) -> None:
        super().__init__(form)
        self._redactor = redactor

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the message's line, not longer than it may be; of a secret that was cut no pattern would know."""
        record.message = shortened(self._redactor.redact(record.message))
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the whole text without secrets."""
        return self._redactor.redact(super().format(record))


class _Writer(logging.Handler):
    """Hands each finished text to a function, which knows whether a progress display is on the screen."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record))
        except Exception:  # noqa: BLE001 - as all of logging: a message that can't be written stops nothing
            self.handleError(record)


def _is_no_stack_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record is none of what Py4J tells the root logger where Spark has ended: our error says so."""
    return (record.name, record.module) != ("root", "java_gateway")


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def set_up(redactor: Redactor, *, debug: bool = False, write: Callable[[str], None] = _to_standard_error) -> None:
    """Send the logs of this process to ``write``, through the redactor.

    Args:
        redactor: masks secrets.
        debug: everything of ours from DEBUG on, with stack traces; without it warnings only.
        write: takes one finished text; standard error if left out.
    """
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s" if debug else "%(levelname)s: %(message)s"
    writer = _Writer(write)
    writer.setFormatter(RedactingFormatter(redactor, form))
    if not debug:
        writer.addFilter(_is_no_stack_of_py4j)
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _Writer)]:
        root.removeHandler(old)
    root.addHandler(writer)
    root.setLevel(logging.WARNING)
    logging.getLogger("cdc_materializer").setLevel(logging.DEBUG if debug else logging.WARNING)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.WARNING)
    # What libraries warn their callers of is for those who work on this package.
    logging.captureWarnings(capture=True)
    logging.getLogger("py.warnings").setLevel(logging.WARNING if debug else logging.ERROR)
