"""How registries are reached over HTTP, and what is said when they are not."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cdc_materializer.errors import ConfigError, RegistryUnavailable, TimeOver
from cdc_materializer.retry import NEVER, Deadline

#: How long one request may take, in seconds.
REQUEST_TIMEOUT_SECONDS = 10.0
#: How long an answer may be once it is unpacked, in bytes: what the longest schemas take with every sign escaped.
ANSWER_BYTES_MAX = 32 * 2**20

UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
#: What registries answer to a name that they do not have or that cannot be one, as a header may hold anything.
NO_SUCH_NAME = frozenset({400, NOT_FOUND, 405, 414, 422})


class AnswerTooLongError(Exception):
    """Raised when a registry answers with more than any schema is."""


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How to reach a registry and to be let in; nothing secret is ever shown.

    Attributes:
        url: base address, or several separated by commas that are tried in turn.
        basic_auth: user and password, or None.
        ca, certificate, key: paths of PEM files, or None.
        headers: added to every request.
        timeout_seconds: how long one request may take.
        deadline: when nothing is asked any more.
    """

    url: str
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
    deadline: Deadline = NEVER

    @property
    def patience(self) -> float:
        """How long the next request may take, in seconds."""
        return self.deadline.within(self.timeout_seconds)

    @property
    def shown(self) -> str:
        """The address without the user and password that a URL can carry."""
        return ",".join(_without_credentials(url.strip()) for url in self.url.split(","))

    def refused(self, status: int) -> RegistryUnavailable:
        """The error for an answer that is neither a schema nor that there is none."""
        if status in (UNAUTHORIZED, FORBIDDEN):
            what = f"The registry {self.shown} refused access (status {status})."
            return RegistryUnavailable(what, "Check basic_auth, headers or tls under registry.")
        if status == NOT_FOUND:
            what = f"No schema registry answers at {self.shown} (status {status})."
            return RegistryUnavailable(what, "Correct registry.url; it often ends in a path.")
        what = f"The registry {self.shown} failed (status {status})."
        return RegistryUnavailable(what, "Look at the registry's log, then run again.")

    def unusable(self) -> ConfigError:
        """The error for settings with which no question can be put."""
        # Nobody else's text is passed on: it may quote the URL with its password.
        what = f"The registry {self.shown} cannot be asked with the settings under registry."
        return ConfigError(what, "Check url, basic_auth and the files under tls.")

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Say in our words what goes wrong in the HTTP library while a question is put.

        Raises:
            TimeOver: the deadline has come, or comes before an answer.
            RegistryUnavailable: nothing answers, or not in HTTP.
            ConfigError: there is no such address.
        """
        library = http()
        self._check_time()
        try:
            yield
        except library.TimeoutException as error:
            self._check_time()
            raise self.silent() from error
        except library.DecodingError as error:
            raise self.strange() from error
        except library.HTTPError as error:
            raise self.unreachable(error) from error
        except library.InvalidURL as error:
            raise self.unusable() from error

    def bound(self, client: Any) -> None:  # noqa: ANN401 - of one of two modules
        """Let a client of the HTTP library wait for no answer that has no end, in bytes or in time."""
        client.event_hooks = {"request": [self._limit], "response": [self._take]}

    def _check_time(self) -> None:
        if self.deadline.is_over:
            what = f"The time for this run was over before the registry {self.shown} had answered."
            raise TimeOver(what, "Run again, with more time if it is always so.")

    def _limit(self, question: Any) -> None:  # noqa: ANN401 - of one of two modules
        """Let each request of a client, which makes them again by itself, take no longer than there is time for it.

        Raises:
            TimeOver: there is none.
        """
        self._check_time()
        question.extensions["timeout"] = http().Timeout(self.patience).as_dict()

    def _take(self, answer: Any) -> None:  # noqa: ANN401 - of one of two modules
        """Read an answer, of which the library would otherwise take all.

        Raises:
            AnswerTooLongError: it is longer than any schema.
            ReadTimeout: the library's; by itself that counts from each part of the answer.
        """
        end, content = Deadline.after(self.patience, self.deadline.clock), bytearray()
        for part in answer.iter_bytes():
            content += part
            if end.is_over:
                raise http().ReadTimeout("", request=answer.request)
            if len(content) > ANSWER_BYTES_MAX:
                answer.close()
                if answer.is_success:
                    raise AnswerTooLongError
                content.clear()  # its status is all that counts of a refusal
                break
        answer._content = bytes(content)  # noqa: SLF001 - the library has no public name for it

    def silent(self) -> RegistryUnavailable:
        """The error for a registry that takes too long."""
        what = f"The registry {self.shown} did not answer within {self.timeout_seconds:g} s."
        return RegistryUnavailable(what, "Check that it runs, then run again.")

    def unreachable(self, error: Exception) -> RegistryUnavailable:
        """The error for a broken connection, or none."""
        what = f"The registry {self.shown} cannot be reached ({type(error).__name__})."
        return RegistryUnavailable(what, "Check registry.url and that the registry runs, then run again.")

    def strange(self) -> RegistryUnavailable:
        """The error for an answer that no registry gives."""
        what = f"What answers at {self.shown} is not a schema registry."
        return RegistryUnavailable(what, "Correct registry.url; it often ends in a path.")


def http() -> Any:  # noqa: ANN401 - one of two modules
    """The HTTP library that the registry's client has: httpx2 or httpx, whichever is installed."""
    # authlib, which the client imports, warns of a module that it will stop supporting, and turns its own warnings
    # on; so they are recorded, and so not printed.
    with warnings.catch_warnings(record=True):
        from confluent_kafka.schema_registry._sync import schema_registry_client
    return schema_registry_client.httpx


def _without_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be read)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
