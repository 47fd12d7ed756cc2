"""A folder of recorded schemas (design section 4.3): `ids/<id>.json` and `subjects/<subject>/versions/<n>.json`.

Each file is the body that a registry answers with. The folder may grow between runs.
"""

import json
from pathlib import Path

from cdc_materializer.errors import RegistryUnavailable
from cdc_materializer.registry.references import Reference, ReferenceMissingError, Registered, standalone
from cdc_materializer.registry.schemas import RegisteredSchema

_RECORD_AGAIN = "Put back the file as the registry answered it, or name another folder under registry.files."


class RecordedRegistry:
    """A registry read from files; see `Registry` for what it promises."""

    def __init__(self, folder: Path) -> None:
        """Take the folder that holds `ids` and `subjects`; nothing is read yet."""
        self._folder = folder
        self._found: dict[int, RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Find a schema in `ids/<id>.json`; see `Registry.schema`."""
        if schema_id in self._found:
            return self._found[schema_id]
        if not self._folder.is_dir():
            what = f"The folder of recorded schemas {self._folder} does not exist."
            raise RegistryUnavailable(what, "Correct registry.files in the configuration.")
        path = self._folder / "ids" / f"{schema_id}.json"
        registered = _registered(path)
        if registered is None:
            return None
        try:
            text = standalone(registered, self._version)
        except ReferenceMissingError:
            return None
        except ValueError as error:
            what = f"The recorded schema {path}, or one that it refers to, is not an Avro schema."
            raise RegistryUnavailable(what, _RECORD_AGAIN) from error
        return self._found.setdefault(schema_id, RegisteredSchema(schema_id, registered.kind, text))

    def _version(self, reference: Reference) -> Registered | None:
        subject = reference.subject
        if "/" in subject or subject in ("", ".", ".."):
            # A subject is one folder here; anything else would read files elsewhere.
            return None
        return _registered(self._folder / "subjects" / subject / "versions" / f"{reference.version}.json")


def _registered(path: Path) -> Registered | None:
    try:
        body = json.loads(path.read_bytes())
        return registered_from_body(body)
    except FileNotFoundError:
        return None
    except OSError as error:
        what = f"The recorded schema {path} cannot be read ({error.strerror})."
        raise RegistryUnavailable(what, "Correct the file's permissions.") from error
    except (ValueError, TypeError, KeyError) as error:
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
