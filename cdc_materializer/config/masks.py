"""Where pipeline.yaml says what the hashes of masked columns are keyed with."""

from collections.abc import Iterator
from typing import Self

from pydantic import Field, SecretStr, model_validator

from cdc_materializer.config.values import FilePath, Settings, refusal
from cdc_materializer.errors import ConfigError

#: A shorter key can be found by trying: who has it can hash all card numbers and compare.
KEY_BYTES_MIN = 16
KEY_BYTES_MAX = 4096


class MasksConfig(Settings):
    """The key of hashed columns; the same in all pipelines whose tables are to be joined by them."""

    key: SecretStr | None = Field(
        default=None,
        description="The key, 16 bytes or more; take it from the environment with `${NAME}`, or see `key_file`.",
    )
    key_file: FilePath | None = Field(
        default=None, description="A file that holds the key; line ends behind it do not count."
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.key is None) == (self.key_file is None):
            raise refusal("must have exactly one of `key` and `key_file`")
        if self.key is not None and len(self.key.get_secret_value().encode()) < KEY_BYTES_MIN:
            raise refusal(f"has a key of less than {KEY_BYTES_MIN} bytes", "Take a long random one.")
        return self

    def secret(self) -> bytes:
        """Return the key.

        Raises:
            ConfigError: its file cannot be read, or holds no key.
        """
        if self.key is not None or self.key_file is None:
            return self.key.get_secret_value().encode() if self.key is not None else b""
        try:
            with self.key_file.open("rb") as file:
                found = file.read(KEY_BYTES_MAX + 1).rstrip(b"\r\n")
        except OSError as error:
            what = f"The key of masked columns, {self.key_file}, cannot be read: {error.strerror}."
            raise ConfigError(what, "Mend `masks: key_file:`, or the file's permissions.") from error
        if not KEY_BYTES_MIN <= len(found) <= KEY_BYTES_MAX:
            what = f"{self.key_file} holds no key of masked columns: {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes."
            raise ConfigError(what, "Write a long random key into it.")
        return found

    def spellings(self) -> Iterator[str]:
        """Give the key as texts that no output may have; none where its file cannot be read, and so nobody uses it."""
        try:
            key = self.secret()
        except ConfigError:
            return
        yield key.decode(errors="replace")
        yield key.hex()
