"""PyIceberg's client of a REST catalog, which by itself waits for an answer for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog

from cdc_materializer.retry import Deadline

if TYPE_CHECKING:
    from requests import Response, Session

#: How long a connection may take, and a pause within an answer. Java's client gives up within three minutes.
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0


class PatientRestCatalog(RestCatalog):
    """A REST catalog of which no question, its first and those for tokens among them, waits for longer than it may."""

    def __init__(self, name: str, deadline: Deadline, properties: dict[str, str]) -> None:
        """Connect.

        Args:
            name: the catalog's name.
            deadline: past which no answer is waited for.
            properties: Iceberg's, with `uri` among them.

        Raises:
            Exception: whatever the HTTP library or PyIceberg has; there is no list of it.
        """
        self._deadline = deadline
        super().__init__(name, **properties)

    def _config_headers(self, session: Session) -> None:
        """Bound a session's waiting, before anything is asked through it."""
        super()._config_headers(session)
        ask = session.request

        def bounded(*question: Any, **given: Any) -> Response:  # noqa: ANN401 - the HTTP library's
            waits = (self._deadline.within(CONNECT_SECONDS), self._deadline.within(ANSWER_SECONDS))
            return ask(*question, **{"timeout": waits, **given})

        session.request = bounded  # type: ignore[method-assign]
