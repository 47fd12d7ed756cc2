"""Values that break rules and that nothing may tell, and everything that tells of a table."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.cli import main
from cdc_materializer.config import Config
from cdc_materializer.names import TableName

MAIL, CARD = "canary.ann@example.test", "4111-1111-1111-1111"
#: Parts of them, so that one that was cut is found too; long enough to be in no random number or uuid of a log.
PARTS = (MAIL, "canary.ann", CARD, CARD[-9:])


def found_in(told: Sequence[str]) -> list[tuple[str, str]]:
    """The canaries that stand in a text, with what stands before them."""
    return [(canary, text[: text.index(canary)][-300:]) for canary in PARTS for text in told if canary in text]


def shown(command: Sequence[str], config: Config, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a command that succeeds writes, to both of its outputs."""
    assert main([*command, "-c", str(config.path)]) == 0
    written = capsys.readouterr()
    assert written.out
    return [written.out, written.err]


@contextmanager
def listening(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep what is logged meanwhile, but not every call of py4j, which `--debug` does not show: they fill memory."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="py4j"):
        yield


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What `--debug` shows: of libraries nothing below INFO."""
    return [
        caplog.handler.format(record)
        for record in caplog.records
        if record.levelno >= logging.INFO or record.name.startswith("cdc_materializer")
    ]


def summaries(config: Config, table: TableName) -> Iterator[str]:
    """What the snapshots of a mirror, its raw and its quarantine say of themselves."""
    lake = open_tables(config.catalog)
    for name in (table, table.raw, table.quarantine):
        yield from (str(dict(line.summary)) for line in lake.lines_of(name))
