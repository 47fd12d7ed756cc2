"""pipeline.yaml, as it is read or refused."""

from pathlib import Path

import pytest

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import ConfigError

SMALL = "name: shop\nsource: {files: recorded}\ntables: [{topic: shop.public.orders}]\n"


def load(folder: Path, text: str | bytes) -> Config:
    """Write a folder's pipeline.yaml, and read it."""
    path = folder / "pipeline.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path)


def refusal(folder: Path, text: str | bytes) -> str:
    """Return the message of a file that is refused, without the folder's name."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return str(caught.value).replace(f"{folder}/", "")
