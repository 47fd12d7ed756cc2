"""A folder of recorded schemas (design section 4.3).

`ids/<id>.json`, `guids/<guid>.json` and `subjects/<subject>/versions/<n>.json`; for Apicurio's names in headers also
`contentIds/<id>.json`, `globalIds/<id>.json` and `contentHashes/<hash>.json`. Each file is the body that a registry
answers with in Confluent's form. The folder may grow between runs.
"""

import errno
import json
from collections.abc import Iterator
from pathlib import Path

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.errors import RegistryUnavailable
from cdc_materializer.registry.fingerprints import fingerprint_of
from cdc_materializer.registry.references import Reference, ReferenceMissingError, Registered, standalone
from cdc_materializer.registry.schemas import IdKind, RegisteredSchema, Wanted, id_bytes_of, is_numbered

_RECORD_AGAIN = "Put back the file as the registry answered it, or name another folder under registry.files."


class RecordedRegistry:
    """A registry read from files; see `Registry` for what it promises."""

    def __init__(self, folder: Path, ids: IdKind = "confluent") -> None:
        """Take the folder that holds `ids` and the others, and what ids are; nothing is read yet."""
        self._folder = folder
        self._ids = ids
        self.id_bytes = id_bytes_of(ids)
        self.place = f"{ids} {folder}"
        self.found: dict[SchemaName, RegisteredSchema] = {}
        self._fingerprints: dict[Path, str | None] = {}

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema in `ids/<id>.json`, `guids/<guid>.json` and the like; see `Registry.schema`."""
        name = SchemaName.of_id(wanted) if isinstance(wanted, int) else wanted
        if name in self.found:
            return self.found[name]
        if not self._folder.is_dir():
            what = f"The folder of recorded schemas {self._folder} does not exist."
            raise RegistryUnavailable(what, "Correct registry.files in the configuration.")
        for path in self._paths(name):
            registered = _registered(path)
            if registered is None:
                continue
            try:
                text = standalone(registered, self._version)
            except ReferenceMissingError:
                return None
            return self.found.setdefault(name, RegisteredSchema(wanted, registered.kind, text))
        return None

    def _paths(self, name: SchemaName) -> Iterator[Path]:
        """Where a schema may be, by what it is named."""
        if not name.is_possible:
            return
        if name.kind in ("content", "global"):
            yield self._folder / f"{name.kind}Ids" / f"{name.number}.json"
        if is_numbered(name, self._ids):
            yield self._folder / "ids" / f"{name.number}.json"
        elif name.kind == "guid":
            yield self._folder / "guids" / f"{name.guid}.json"
        elif name.kind == "hash" and name.parts[0].isalnum():
            yield self._folder / "contentHashes" / f"{name.parts[0]}.json"
        elif name.kind == "artifact" and name.parts[0] in ("", "default"):
            # In Confluent's form an artifact of the default group is a subject.
            yield from self._version_path(name.parts[1], name.parts[2])
        elif name.kind == "fingerprint":
            yield from self._of_fingerprint(name.text)

    def _of_fingerprint(self, text: str) -> Iterator[Path]:
        places = ("ids/*.json", "guids/*.json", "subjects/*/versions/*.json")
        for path in sorted(path for place in places for path in self._folder.glob(place)):
            if path not in self._fingerprints:
                registered = _registered(path)
                self._fingerprints[path] = fingerprint_of(registered, self._version) if registered else None
            if self._fingerprints[path] == text:
                yield path

    def _version(self, reference: Reference) -> Registered | None:
        found = [_registered(path) for path in self._version_path(reference.subject, str(reference.version))]
        return found[0] if found else None

    def _version_path(self, subject: str, version: str) -> Iterator[Path]:
        # A subject is one folder here, a version one file; anything else would read files elsewhere.
        if not any("/" in part or "\0" in part or part in ("", ".", "..") for part in (subject, version)):
            yield self._folder / "subjects" / subject / "versions" / f"{version}.json"


def _registered(path: Path) -> Registered | None:
    try:
        body = json.loads(path.read_bytes())
        return registered_from_body(body)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None  # no file can have that name
        what = f"The recorded schema {path} cannot be read ({error.strerror})."
        raise RegistryUnavailable(what, "Correct the file's permissions.") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"The recorded schema {path} is not what a registry answers."
        raise RegistryUnavailable(what, _RECORD_AGAIN) from error


def registered_from_body(body: object) -> Registered:
    """Read the JSON body that a registry answers for an id or a version.

    Raises:
        KeyError, TypeError, ValueError: the body is something else.
    """
    if not isinstance(body, dict) or not isinstance(body["schema"], str):
        msg = "no schema text"
        raise TypeError(msg)
    references = tuple(
        Reference(str(entry["name"]), str(entry["subject"]), int(entry["version"]))
        for entry in body.get("references") or ()
    )
    return Registered(body["schema"], str(body.get("schemaType") or "AVRO").upper(), references)
