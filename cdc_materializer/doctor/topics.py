"""The part of `cdcm doctor` that asks what a broker does to a table's topics, and a registry to its schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from cdc_materializer.catalog.catalog import Tables
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.config import TableConfig
from cdc_materializer.errors import CdcError, SchemaReplaced
from cdc_materializer.marker.marker import MARKER_PREFIX, Marker
from cdc_materializer.progress import asked_again, plan_reading
from cdc_materializer.registry import BoundRegistry, Registry
from cdc_materializer.registry.bound import Bound
from cdc_materializer.report.setup_models import DoctorCheck
from cdc_materializer.report.wording import duration, quantity, utc
from cdc_materializer.source import Source, TopicState


def check_compacted(
    table: TableConfig, lake: Tables | None, topic: TopicState, source: Source, now: datetime
) -> Iterator[DoctorCheck]:
    """Say of compacted topics for how long a reader may stand still, and whether this one has stood longer.

    A broker takes a delete out of a compacted topic once it is old enough. Who reads later finds no trace of it, and
    not even a gap: such topics have holes anyway (changelog-semantics §2.2).

    Args:
        table: the table's settings.
        lake: the catalog; None where it cannot be asked.
        topic: where the topic begins and ends.
        source: where the topics are.
        now: the time.

    Raises:
        LakeUnavailable: raw cannot be read.
    """
    name = str(table.mirror)
    for one in table.topics or (table.topic,):
        try:
            kept = source.deletes_kept(one)
        except CdcError:
            # Not every user is told settings, and no run asks for them.
            continue
        if kept is None:
            continue
        what = f"{one} is compacted, and keeps a delete for {duration(kept.total_seconds())} (`delete.retention.ms`)."
        if table.key and table.format == "debezium":
            lost = "Rows have their key from `key`: a tombstone that compaction has left without its delete ends none."
            do = (
                "Leave `key` out where the keys of the messages tell rows apart. Otherwise compare with the database "
                "from time to time (`cdcm verify --source`), or take a complete snapshot with `snapshot_sweep`."
            )
            yield DoctorCheck(name="compaction", outcome="warning", message=f"{what} {lost}", do=do, table=name)
        since = _standing_since(table, lake, topic, source) if lake is not None else None
        if since is None or now - since <= kept:
            yield DoctorCheck(name="compaction", outcome="ok", message=what, table=name)
            continue
        late = f"Raw has had nothing of it since {utc(since)}, and there is more: deletes may be gone unread."
        do = (
            "Compare with the database (`cdcm verify --source`), or take a complete snapshot with `snapshot_sweep`. "
            "Then run more often, or raise `delete.retention.ms`."
        )
        yield DoctorCheck(name="compaction", outcome="warning", message=f"{what} {late}", do=do, table=name)


def check_servers(table: TableConfig) -> Iterator[DoctorCheck]:
    """Warn of topics of several servers in one mirror, which has nothing that tells their rows apart.

    Connectors of Debezium's begin a topic's name with that of the server (`topic.prefix`), and no two may share one.
    """
    servers = sorted({topic.partition(".")[0] for topic in table.topics})
    if len(servers) <= 1 or table.shard is not None:
        return
    what = (
        f"Topics of {quantity(len(servers), 'server')} ({', '.join(servers)}) go to the mirror, which has no `shard`:"
    )
    lost = "rows that have the same key there are one, and places in their logs are compared."
    do = "Set `shard`, or make a table of each server's topics, unless one goes on with the rows of the other."
    message = f"{what} {lost}"
    yield DoctorCheck(name="servers", outcome="warning", message=message, do=do, table=str(table.mirror))


def check_schemas(table: TableConfig, lake: Tables, registry: Registry) -> Iterator[DoctorCheck]:
    """Say whether the registry has the schemas that a table's messages were decoded by; of what it lacks nothing.

    Raises:
        LakeUnavailable: raw cannot be read.
        CdcError: the registry cannot be asked.
    """
    name, raw = str(table.mirror), lake.load(table.mirror.raw)
    bound = Bound.of(raw.metadata.properties if raw is not None else {}, str(table.mirror.raw))
    if not bound.digests:
        return
    try:
        BoundRegistry(registry, lambda: bound, name).check_all()
    except SchemaReplaced as stop:
        code = stop.exit_code
        yield DoctorCheck(name="schemas", outcome="problem", message=stop.what, do=stop.do, table=name, exit_code=code)
    else:
        message = f"None of {quantity(len(bound.digests), 'schema')} was replaced."
        yield DoctorCheck(name="schemas", outcome="ok", message=message, table=name)


def _standing_since(table: TableConfig, lake: Tables, topic: TopicState, source: Source) -> datetime | None:
    """When raw got its newest messages, where there are more to be read; None where there are none, or nobody knows."""
    try:
        raw = lake.marker_of(table.mirror.raw)
        if raw is None or plan_reading(table, asked_again(source, table, topic, raw), raw).is_empty:
            return None
    except CdcError:
        # What cannot be gone on with is told where the tables are looked at.
        return None
    return _landed(lake.lines_of(table.mirror.raw), raw)


def _landed(lines: Sequence[SnapshotLine], raw: Marker) -> datetime | None:
    """When a marker's batch was landed: maintenance repeats the marker later."""
    of_batch = [line.at for line in lines if line.summary.get(f"{MARKER_PREFIX}batch") == raw.batch]
    return min(of_batch, default=None)
