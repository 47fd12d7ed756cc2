"""What the models of pipeline.yaml are made of: their base, and the kinds of value that YAML has no word for.

Pure. Refusals are raised as pydantic errors that carry both halves of our messages; `config.py` turns them into one
ConfigError that names the place in the file. No message repeats a value: any value can be a secret that someone put in
the wrong place.
"""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from cdc_materializer.errors import InvalidName
from cdc_materializer.names import TableName, nearest, shown

#: Type of our own pydantic errors, whose context has `what` and `do`.
REFUSED = "refused"

#: What to do about a value of the file that is empty.
EMPTY = "Give it a value, or leave it out; an environment variable that it takes may be empty."

# Parts of a property's name that make its value a secret, in any case.
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token|key|credential|jaas|authorization|user\.info|connection[-.]string",
    re.IGNORECASE,
)
# A value with a password whatever its name: `scheme://user:password@host`, `…?password=…`, `-DkeyStorePassword=…`.
_SECRET_VALUE = re.compile(
    r"://[^/@\s]*:[^/@\s]*@"
    r"|(password|passwd|passphrase|pwd|secret|token|credential|(api|access|account|secret)[._-]?key)=",
    re.IGNORECASE,
)
_DURATION = re.compile(r"([0-9]{1,9})(s|m|h|d)")
_SECONDS_BY_UNIT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def refusal(what: str, do: str = "Correct it in the file.") -> PydanticCustomError:
    """Return the error of a value that cannot be taken; ``what`` goes on from the place in the file."""
    return PydanticCustomError(REFUSED, "{what}. {do}", {"what": what, "do": do})


def kind_of(value: object) -> str:
    """Name the kind of a YAML value for a message, never the value."""
    kinds: tuple[tuple[type[object], str], ...] = (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (str, "text"),
        (Mapping, "a map"),
        (list, "a list"),
    )
    return next((kind for cls, kind in kinds if isinstance(value, cls)), "nothing")


def reveal(properties: Mapping[str, str | SecretStr]) -> dict[str, str]:
    """Return ``properties`` with its secrets in plain text, for the client that they are meant for; never print it."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in properties.items()
    }


class Settings(BaseModel):
    """Base of every model of pipeline.yaml: frozen, and no unknown key or secret gets through it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = next((key for key in data if key not in known), None)
        if unknown is None:
            return data
        meant = nearest(str(unknown), known)
        do = f"Did you mean `{meant}`?" if meant else f"The keys known here are {', '.join(sorted(known))}."
        raise refusal(f"has the unknown key `{shown(str(unknown))}`", do)


def read_properties(given: object) -> object:
    """Read a free-form map: numbers and booleans become the text they were written as, secrets become SecretStr."""
    if not isinstance(given, Mapping):
        return given
    return {_property_name(name): _property_value(name, value) for name, value in given.items()}


def _property_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise refusal(f"has a key that is {kind_of(name)}, where the name of a property belongs")
    return name


def _property_value(name: str, value: object) -> str | SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str | int):
        raise refusal(f"has {kind_of(value)} as the value of `{shown(name)}`, where one value belongs")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return SecretStr(text) if _SECRET_NAME.search(name) or _SECRET_VALUE.search(text) else text


def holds_secret(text: str) -> bool:
    """Whether a text has a password in it, whatever it is called."""
    return _SECRET_VALUE.search(text) is not None


def _table_name(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return TableName.parse(given)
    except InvalidName as error:
        raise refusal(f"cannot be followed: {error.what.rstrip('.')}", error.do) from error


def _duration(given: object) -> object:
    if isinstance(given, timedelta):
        return given
    found = parse_duration(given) if isinstance(given, str) else None
    if found is None:
        raise refusal(f"must be a time like `30s`, `15m`, `1h` or `2d`, not {kind_of(given)} of another form")
    return found


def parse_duration(text: str) -> timedelta | None:
    """Read a length of time, written `30s`, `15m`, `1h` or `2d`; None for anything else."""
    match = _DURATION.fullmatch(text)
    return timedelta(seconds=int(match[1]) * _SECONDS_BY_UNIT[match[2]]) if match is not None else None


def _duration_text(duration: timedelta) -> str:
    """Return a duration as the file writes it, in the largest unit that it is a whole number of."""
    seconds = int(duration.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS_BY_UNIT[unit] == 0)
    return f"{seconds // _SECONDS_BY_UNIT[unit]}{unit}"


def _not_empty(given: object) -> object:
    # As a path it would be the folder of the file.
    if isinstance(given, str) and not given.strip():
        raise refusal("is empty, where a path belongs", EMPTY)
    return given


def _has_text(given: SecretStr) -> SecretStr:
    # To a server it would be a wrong one, or none at all.
    if not given.get_secret_value().strip():
        raise refusal("is empty, where a secret belongs", EMPTY)
    return given


def below_root(path: Path, info: ValidationInfo) -> Path:
    """Make a path of the file absolute: relative ones are relative to the file's folder (design section 4.2)."""
    root = (info.context or {}).get("root")
    return path if root is None else Path(os.path.normpath(root / path.expanduser()))


def _one_or_more(given: object) -> object:
    return (given,) if isinstance(given, str) else given


_SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"]}

#: A map of properties that are passed on to a client, secrets typed as such.
Properties = Annotated[
    Mapping[str, str | SecretStr],
    BeforeValidator(read_properties),
    WithJsonSchema({"type": "object", "additionalProperties": _SCALAR_SCHEMA}),
]

#: The dotted name of a table, parsed.
MirrorName = Annotated[
    TableName,
    BeforeValidator(_table_name),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["shop.orders"]}),
]

#: A length of time, written `30s`, `15m`, `1h` or `2d`.
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(_duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9}[smhd]$", "examples": ["30s", "15m", "1h", "2d"]}),
]

#: A file or folder, absolute once the file was read.
FilePath = Annotated[Path, BeforeValidator(_not_empty), AfterValidator(below_root), WithJsonSchema({"type": "string"})]

#: A password or the like; nothing and blanks are none.
Secret = Annotated[SecretStr, AfterValidator(_has_text)]

#: Some names; one alone may be written without the brackets.
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_more),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]
