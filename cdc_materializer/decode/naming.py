"""How a message names the schema that it was written with, as one short text (changelog-semantics §4). Pure.

The text is a kind and the name in upper-case hexadecimal, as Spark's `hex` writes it: `id:00000011`. Bytes of the key
or value give it (`named_in_bytes` here, for a few messages; `framing.selector` does the same for a frame of them), or
headers do, whose bytes then stand alone. A header that names a Protobuf schema also says which message of its file it
is: `id:00000011/00`.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Literal, Self

#: Bytes of an id behind the zero byte: Confluent's and Apicurio's, and those of Apicurio's former eight.
ID_BYTES = 4
LEGACY_ID_BYTES = 8
GUID_BYTES = 16
FINGERPRINT_BYTES = 8

MAGIC_ID = b"\x00"
MAGIC_GUID = b"\x01"
#: A number whose first byte is this or more is a negative one to a registry, and no id.
NEGATIVE = b"\x80"
#: Avro's single-object encoding: these two bytes, then CRC-64-AVRO of the schema, little-endian.
MAGIC_SINGLE_OBJECT = b"\xc3\x01"

#: The longest name in bytes that a registry is asked for; Apicurio's own are no longer than that.
NAME_BYTES_MAX = 512
#: What parts of an address go up: the writer of a header may not choose which question a registry is asked.
_STEPS = frozenset({".", ".."})

#: What a name is:
#: - id: the number in front of the datum, of the kind that `registry.id` says
#: - guid: Confluent's GUID
#: - content, global: Apicurio's two kinds of numbers, from a header that says which it is
#: - hash: Apicurio's hash of the schema's text
#: - artifact: Apicurio's group, artifact and version
#: - fingerprint: of Avro's single-object encoding
#: - encoding: no name at all, but a header saying that the datum is written in another way than Avro's binary one
Kind = Literal["id", "guid", "content", "global", "hash", "artifact", "fingerprint", "encoding"]
_KINDS = frozenset({"id", "guid", "content", "global", "hash", "artifact", "fingerprint", "encoding"})
#: Those that name a schema.
LOOKUPS = _KINDS - {"encoding"}
_NUMBERS = frozenset({"id", "content", "global"})
_HEADERS_ONLY = frozenset({"content", "global", "hash", "artifact"})
_TOLD_BESIDE = frozenset({"id", "guid"})


@dataclass(frozen=True, slots=True)
class SchemaName:
    """One schema as a message names it.

    Attributes:
        kind: what kind of name it is.
        text: the name in hexadecimal; of an artifact three such texts with `/` between them.
        subject: where a registry may look for a schema that it cannot find by its name alone; no part of the name.
        told: what a header says behind the name, in hexadecimal; no part of the name.
    """

    kind: Kind
    text: str
    subject: str | None = None
    told: str | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, selector: str) -> Self | None:
        """Read a selector; None for one that names no schema."""
        kind, colon, text = selector.partition(":")
        if not colon or kind not in _KINDS:
            return None
        if kind in _TOLD_BESIDE and "/" in text:
            text, _, told = text.partition("/")
            return cls(kind, text, told=told)  # type: ignore[arg-type]  # it is in _KINDS
        return cls(kind, text)  # type: ignore[arg-type]

    @classmethod
    def of_id(cls, number: int) -> Self:
        """The name that is a number in front of the datum."""
        return cls("id", f"{number:08X}")

    def __str__(self) -> str:
        """Return the selector."""
        return f"{self.kind}:{self.text}" if self.told is None else f"{self.kind}:{self.text}/{self.told}"

    @property
    def is_lookup(self) -> bool:
        """Whether it is the name of a schema, and not what tells that there is none."""
        return self.kind in LOOKUPS

    @property
    def is_possible(self) -> bool:
        """Whether a registry can hold a schema of this name; a header can have anything in it."""
        if self.kind in _NUMBERS:
            return bytes.fromhex(self.text[:2]) < NEGATIVE
        if self.kind == "hash":
            return _is_name(self.parts[0])
        if self.kind == "artifact":
            group, artifact, version = self.parts
            # Without its version, or with Apicurio's `branch=latest`, an artifact is another schema tomorrow.
            is_fixed = _is_name(version) and not version.startswith("branch=")
            return is_fixed and _is_name(artifact) and _is_name(group or "default")
        return True

    @property
    def number(self) -> int | None:
        """The number that it is, None for other kinds."""
        return int(self.text, 16) if self.kind in _NUMBERS else None

    @property
    def parts(self) -> tuple[str, ...]:
        """The texts that it is made of, for those made of texts; those that are no UTF-8 are no names of anything."""
        return tuple(bytes.fromhex(part).decode("utf-8", "replace") for part in self.text.split("/"))

    @property
    def index(self) -> bytes | None:
        """Which message of a Protobuf file a header names; None where the bytes of the key or value begin with that."""
        if self.told is not None:
            return bytes.fromhex(self.told)
        # Apicurio's headers name a schema, and nothing stands before the message.
        return b"" if self.kind in _HEADERS_ONLY else None

    @property
    def shown(self) -> str:
        """The name for people: its kind, and what a registry is asked by (`id:17`)."""
        if self.number is not None:
            return f"{self.kind}:{self.number}"
        if self.kind == "guid":
            return f"{self.kind}:{self.guid}"
        return str(self) if self.kind == "fingerprint" else f"{self.kind}:{'/'.join(self.parts)}"

    @property
    def guid(self) -> str:
        """A GUID as registries write it."""
        return str(uuid.UUID(hex=self.text))


def _is_name(text: str) -> bool:
    is_short = 0 < len(text.encode()) <= NAME_BYTES_MAX
    return is_short and _STEPS.isdisjoint(re.split(r"[/\\]", text))


def named_in_bytes(octets: bytes, id_bytes: int = ID_BYTES) -> tuple[SchemaName | None, int]:
    """The schema that a key's or value's own first bytes name, None for none; and where its datum begins.

    Args:
        octets: the key or value.
        id_bytes: how many bytes an id has.
    """
    if octets[:1] == MAGIC_ID and len(octets) > id_bytes and octets[1:2] < NEGATIVE:
        return SchemaName("id", octets[1 : 1 + id_bytes].hex().upper()), 1 + id_bytes
    if octets[:1] == MAGIC_GUID and len(octets) > GUID_BYTES:
        return SchemaName("guid", octets[1 : 1 + GUID_BYTES].hex().upper()), 1 + GUID_BYTES
    begin = len(MAGIC_SINGLE_OBJECT)
    if octets[:begin] == MAGIC_SINGLE_OBJECT and len(octets) >= begin + FINGERPRINT_BYTES:
        end = begin + FINGERPRINT_BYTES
        return SchemaName("fingerprint", octets[begin:end].hex().upper()), end
    return None, 0
