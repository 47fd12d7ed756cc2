"""What values of pipeline.yaml are taken from: `${NAME}` is an environment variable, `${file:PATH}` the text of a file.

So no secret needs to stand in the file, and those that do all the same can be told. No message repeats a value.
"""

import os
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, SecretStr

from cdc_materializer.config.faults import below
from cdc_materializer.config.values import holds_secret
from cdc_materializer.errors import ConfigError
from cdc_materializer.names import shown

#: Most values in pipeline.yaml, and how deep they may nest: YAML aliases make much of a small file.
VALUES_MAX = 100_000
DEPTH_MAX = 16
#: Largest file that a value is taken from, in bytes.
SECRET_FILE_BYTES_MAX = 64 << 10

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = "file:"
#: The settings whose secrets are told where they stand in the file; those of tables are in the lake for all to read.
_SECTIONS = ("source", "registry", "catalog", "spark", "masks", "databases")
# What is typed as a secret because of a word in its name, and is none by the last one (`ssl.key.location`), or because
# it names one of Kubernetes.
_NO_SECRET = re.compile(
    r"[._-](location|file|path|keytab|provider|class|impl|type|enabled|ur[il]|endpoint|id|ms|seconds|interval|algorithm)$"
    r"|^spark[.]kubernetes[.](driver|executor)[.]secret(s|KeyRef)[.]",
    re.IGNORECASE,
)


class References:
    """Puts values where the file asks for them: `${NAME}` and `${file:PATH}` in any text, `$${` for a plain `${`."""

    def __init__(self, path: Path, root: Path, variables: Mapping[str, str]) -> None:
        """Take the file's name, for messages, its folder, which relative paths start from, and the environment."""
        self._path = path
        self._root = root
        self._variables = variables
        self._values = 0
        #: Where in the file a value was taken from elsewhere.
        self.places: set[str] = set()

    def filled_in(self, value: object, place: str = "", depth: int = 0) -> object:
        """Return ``value`` with every reference replaced, after YAML was read: a value cannot become structure.

        Raises:
            ConfigError: a variable or a file is not there, a file's content is no text of its size, or there are too
                many values; it names the place.
        """
        self._values += 1
        if self._values > VALUES_MAX or depth > DEPTH_MAX:
            raise ConfigError(f"{self._path} has too many values, or nests too deeply.", "Use fewer YAML aliases.")
        if isinstance(value, Mapping):
            return {key: self.filled_in(item, below(place, key), depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.filled_in(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
        return _REFERENCE.sub(lambda found: self._look_up(found, place), value) if isinstance(value, str) else value

    def _look_up(self, found: re.Match[str], place: str) -> str:
        name, closed = found[1], found[2]
        if name is None:
            return "${"
        if closed and name.startswith(_FILE) and name != _FILE:
            value = self._content(name.removeprefix(_FILE), place)
        elif closed and _VARIABLE_NAME.fullmatch(name):
            value = self._variable(name, place)
        else:
            raise ConfigError(
                f"{self._path}, {place} has a `${{` without the name of an environment variable and `}}` after it.",
                "Write `${NAME}`, `${file:PATH}`, or `$${` where a plain `${` is meant.",
            )
        self.places.add(place)
        return value

    def _variable(self, name: str, place: str) -> str:
        value = self._variables.get(name)
        if value is None:
            raise ConfigError(
                f"{self._path}, {place} takes the environment variable {shown(name)}, which is not set.",
                f"Set {shown(name)}, or write `$${{` where a plain `${{` is meant.",
            )
        return value

    def _content(self, name: str, place: str) -> str:
        """Read a file that holds one value; line ends behind it do not count."""
        what = f"{self._path}, {place} takes the file {shown(name)}, which"
        try:
            path = Path(os.path.normpath(self._root / Path(name).expanduser()))
            with path.open("rb") as file:
                content = file.read(SECRET_FILE_BYTES_MAX + 1)
        except (OSError, RuntimeError, ValueError) as error:
            # No file has a name with a zero in it, and `~` may be nobody's.
            reason = error.strerror if isinstance(error, OSError) else "no file has such a name"
            do = "Correct the path, which starts from the configuration's folder, or the file's permissions."
            raise ConfigError(f"{what} cannot be read: {reason}.", do) from None
        if len(content) > SECRET_FILE_BYTES_MAX:
            raise ConfigError(f"{what} is larger than {SECRET_FILE_BYTES_MAX} bytes.", "Name a file of one value.")
        try:
            text = content.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise ConfigError(f"{what} is not UTF-8 text.", "Name a file of one value, as text.") from None
        if not text.strip():
            raise ConfigError(f"{what} is empty.", "Write the value into it, and nothing else.")
        return text


def plain_secrets(file: BaseModel, taken: Container[str]) -> tuple[str, ...]:
    """Return the places of the secrets in pipeline.yaml that are taken from nowhere else.

    Args:
        file: what stands in it.
        taken: the places whose values are from the environment or from files.
    """
    found = [secret for name in _SECTIONS for secret in _secrets(getattr(file, name), name)]
    return tuple(place for place, name, text in found if place not in taken and _is_told(name, text))


def _is_told(name: str, text: str) -> bool:
    return holds_secret(text) or (_NO_SECRET.search(name) is None and text not in {"", "true", "false"})


def _secrets(value: object, place: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Give each secret with its place in the file and its own name."""
    if isinstance(value, SecretStr):
        yield place, name, value.get_secret_value()
    elif isinstance(value, BaseModel):
        for own in type(value).model_fields:
            # The file has the properties of a catalog beside its name.
            is_flat = (place, own) == ("catalog", "properties")
            yield from _secrets(getattr(value, own), place if is_flat else below(place, own), own)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, below(place, key), str(key))
