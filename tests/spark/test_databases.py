"""Source databases that do not answer, or refuse: told in time, and without what the driver says."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import DatabaseConfig
from cdc_materializer.errors import DatabaseUnavailable
from cdc_materializer.proof.databases import Database
from tests.spark.marks import TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]


@contextmanager
def _silent() -> Iterator[int]:
    """A server that takes connections and never says a word; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_a_server_that_never_answers_is_told_of_in_time(spark: "SparkSession", scheme: str) -> None:
    """Neither driver would end by itself."""
    with _silent() as port:
        config = DatabaseConfig.model_validate({"url": f"jdbc:{scheme}://127.0.0.1:{port}/shop", "user": "u"})
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match=r"The database `shop` does not answer \(SQLSTATE 08"):
            Database("shop", config, spark).ask("SELECT 1 AS at", 2)

    assert time.monotonic() - began < 60
