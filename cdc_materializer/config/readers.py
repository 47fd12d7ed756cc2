"""Engines that read Iceberg tables, and which forms of a mirror each of them can read.

Every row that a batch replaces or ends is deleted from files that are there. Iceberg has four forms for that: deletion
vectors (format 3), position deletes (format 2), files written anew (copy-on-write), and equality deletes, which fast
writers choose and which are never written here: three of the five libraries that were tried refuse them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from cdc_materializer.config.values import refusal

Reader = Literal[
    "athena",
    "bigquery",
    "clickhouse",
    "daft",
    "databricks",
    "datafusion",
    "dremio",
    "duckdb",
    "emr",
    "flink",
    "glue",
    "polars",
    "presto",
    "pyiceberg",
    "snowflake",
    "spark",
    "starrocks",
    "trino",
]

#: Tried with a table of 1,010 rows of which 100 were deleted; all others are as their makers say.
TRIED = "tried"
_AWS = "https://docs.aws.amazon.com/prescriptive-guidance/latest/apache-iceberg-on-aws/table-spec-v3.html"
_DATABRICKS = "https://docs.databricks.com/iceberg/iceberg-v3"
_DREMIO = "https://docs.dremio.com/dremio-cloud/developer/data-formats/iceberg/"
_GOOGLE = "https://docs.cloud.google.com/lakehouse/docs/use-iceberg-v3-binary-deletion-vectors"
_SNOWFLAKE = "https://docs.snowflake.com/en/release-notes/2026/other/2026-05-07-iceberg-v3-ga.html"


@dataclass(frozen=True)
class Reads:
    """What an engine reads; all of them read tables of format 2 that are written copy-on-write.

    Attributes:
        vectors: deletion vectors, and with them tables of format 3.
        positions: position deletes.
        since: the version that was tried, or the one or the day from which on its makers say so.
        source: where that is known from.
    """

    vectors: bool
    positions: bool
    since: str
    source: str


READERS: Mapping[Reader, Reads] = {
    "athena": Reads(vectors=False, positions=True, since="2026", source=_AWS),
    "bigquery": Reads(vectors=True, positions=True, since="2026", source=_GOOGLE),
    "clickhouse": Reads(vectors=False, positions=True, since="2026", source="ClickHouse/ClickHouse#107502"),
    "daft": Reads(vectors=False, positions=True, since="0.7.26", source=TRIED),
    "databricks": Reads(vectors=True, positions=False, since="Runtime 18", source=_DATABRICKS),
    "datafusion": Reads(vectors=True, positions=True, since="54.0, pyiceberg-core 0.11", source=TRIED),
    "dremio": Reads(vectors=True, positions=True, since="2026, a preview", source=_DREMIO),
    "duckdb": Reads(vectors=True, positions=True, since="1.4.4", source=TRIED),
    "emr": Reads(vectors=True, positions=True, since="7.12", source=_AWS),
    "flink": Reads(vectors=True, positions=True, since="2026", source=_GOOGLE),
    "glue": Reads(vectors=True, positions=True, since="2026", source=_AWS),
    "polars": Reads(vectors=True, positions=True, since="2.1, polars_iceberg 0.1", source=TRIED),
    "presto": Reads(vectors=False, positions=True, since="2026", source="prestodb/presto#27196"),
    "pyiceberg": Reads(vectors=True, positions=True, since="0.12", source=TRIED),
    "snowflake": Reads(vectors=True, positions=True, since="7 May 2026", source=_SNOWFLAKE),
    "spark": Reads(vectors=True, positions=True, since="4.1, Iceberg 1.12", source=TRIED),
    "starrocks": Reads(vectors=False, positions=True, since="2026", source="StarRocks/starrocks#76228, open"),
    "trino": Reads(vectors=True, positions=True, since="early 2026", source="trinodb/trino#27788"),
}
#: The properties that say how rows are deleted, and what Iceberg takes for them, in capitals too.
_MODES = tuple(f"write.{operation}.mode" for operation in ("delete", "update", "merge"))
_KNOWN_MODES = ("copy-on-write", "merge-on-read")


def format_of(readers: Iterable[Reader]) -> dict[str, str]:
    """The Iceberg properties of a table that all of some engines can read.

    Format 3 with deletion vectors where every one takes these, else format 2 with position deletes, and copy-on-write
    where one does not take those either (design section 6).
    """
    known = [READERS[reader] for reader in readers]
    version = "3" if all(reads.vectors for reads in known) else "2"
    mode = "merge-on-read" if version == "3" or all(reads.positions for reads in known) else "copy-on-write"
    return {"format-version": version} | dict.fromkeys(_MODES, mode)


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse Iceberg properties of a mirror that make every batch fail, or every one but the first."""
    if properties.get("format-version", "3") not in {"2", "3"}:
        raise refusal("has a `format-version` that rows cannot be deleted from", "Use 2 or 3.")
    unknown = [mode for mode in _MODES if properties.get(mode, _KNOWN_MODES[0]).lower() not in _KNOWN_MODES]
    if unknown:
        raise refusal(f"has a `{unknown[0]}` that Iceberg does not know", f"Use {' or '.join(_KNOWN_MODES)}.")
    if properties.get("commit.retry.num-retries", "0") != "0":
        raise refusal(
            "has Iceberg try commits again by itself (`commit.retry.num-retries`)",
            "Leave it out: a batch that lost to another writer is planned anew on the new head.",
        )


def who_cannot_read(readers: Iterable[Reader], properties: Mapping[str, str]) -> list[Reader]:
    """Those of some engines that cannot read tables with these Iceberg properties.

    Args:
        readers: the engines.
        properties: with a `format-version`; of modes that are not there Iceberg copies.
    """
    vectors = properties["format-version"] == "3"
    copied = all(properties.get(mode, _KNOWN_MODES[0]).lower() == _KNOWN_MODES[0] for mode in _MODES)
    return [
        reader
        for reader in readers
        if not (READERS[reader].vectors if vectors else copied or READERS[reader].positions)
    ]
