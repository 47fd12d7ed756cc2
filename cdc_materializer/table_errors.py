"""Why one of several tables was left as it is, as its report tells it: what ends one must not end the others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cdc_materializer.causes import where_from
from cdc_materializer.errors import CdcError
from cdc_materializer.logs import without_texts
from cdc_materializer.report.models import ErrorInfo
from cdc_materializer.session.watch import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.names import TableName

_LOG = logging.getLogger(__name__)


def info_of(spark: SparkSession, name: TableName, caught: Exception) -> ErrorInfo:
    """What a report says of what has ended a table; of an unexpected error no text, which may have a row's values.

    Args:
        spark: the session, which may be what has ended.
        name: the table.
        caught: what was raised.

    Returns:
        The error as one of ours; with the code `BUG`, which is exit code 70, where it is none.
    """
    failure = told(spark, caught)
    if isinstance(failure, CdcError):
        _LOG.debug("%s was left as it is: %s", name, where_from(caught.__cause__ or caught))
        return ErrorInfo.of(failure)
    _LOG.debug("%s was left as it is", name, exc_info=without_texts(caught))
    message = f"{name} stopped on an unexpected {where_from(failure)}. Run with --debug and report it."
    return ErrorInfo(code="BUG", message=message)
