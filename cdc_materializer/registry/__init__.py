"""Schemas by id: from a registry's REST interface or from a folder of recorded answers."""

from typing import TYPE_CHECKING

from cdc_materializer.config.values import reveal
from cdc_materializer.registry.access import RegistryAccess
from cdc_materializer.registry.apicurio import ApicurioRegistry
from cdc_materializer.registry.bound import BoundRegistry
from cdc_materializer.registry.confluent import ConfluentRegistry
from cdc_materializer.registry.recorded import RecordedRegistry
from cdc_materializer.registry.schemas import RegisteredSchema, Registry, Wanted
from cdc_materializer.retry import NEVER, Deadline

if TYPE_CHECKING:
    from cdc_materializer.config.connections import RegistryConfig

__all__ = [
    "ADD_REGISTRY",
    "ApicurioRegistry",
    "BoundRegistry",
    "ConfluentRegistry",
    "RecordedRegistry",
    "RegisteredSchema",
    "Registry",
    "RegistryAccess",
    "Wanted",
    "open_registry",
]

#: What to do where messages name schemas and the configuration has no registry.
ADD_REGISTRY = "Add `registry:` with its `url` (or `files` for recorded schemas) to pipeline.yaml."


def open_registry(config: "RegistryConfig | None", deadline: Deadline = NEVER) -> Registry | None:
    """Open the registry that the configuration names; None where it names none. Nothing is asked yet.

    Past the deadline nothing is asked any more.
    """
    if config is None:
        return None
    if config.files is not None:
        return RecordedRegistry(config.files, config.id)
    login, tls = config.basic_auth, config.tls
    access = RegistryAccess(
        url=config.url or "",
        basic_auth=None if login is None else (login.user, login.password.get_secret_value()),
        ca=None if tls is None or tls.ca is None else str(tls.ca),
        certificate=None if tls is None or tls.cert is None else str(tls.cert),
        key=None if tls is None or tls.key is None else str(tls.key),
        headers=reveal(config.headers),
        deadline=deadline,
    )
    return ConfluentRegistry(access) if config.id == "confluent" else ApicurioRegistry(access, config.id)
