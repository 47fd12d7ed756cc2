"""Source positions: as text they sort in the order in which the database made the changes (semantics §2.1)."""

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch.markers import LOGS_MAX
from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import Source, log, position, with_parts
from cdc_materializer.changes.source_fields import OWN_FIELDS, RANK_FIELDS, SOURCE_FIELDS
from cdc_materializer.marker.gtids import GtidSets
from cdc_materializer.order import numbered
from cdc_materializer.order.epochs import MOVES, Recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_FIELDS = SOURCE_FIELDS | RANK_FIELDS | OWN_FIELDS


def _lcr(commit: int, scn: int, number: int) -> dict[str, Any]:
    """A change as XStream numbers it: 33 bytes, of which the first are those of the commit."""
    place = f"{commit:016X}{1:08X}{1:08X}{scn:016X}{1:08X}{number:08X}02"
    return {"scn": str(scn), "lcr_position": place}


#: The `source` blocks of changes in the order in which they were made, by connector; only what tells them apart.
IN_ORDER: dict[str, list[dict[str, Any]]] = {
    "postgresql": [
        {"lsn": 99, "sequence": '[null,"99"]'},
        {"lsn": 250, "sequence": '["100","250"]'},
        # Of a transaction that committed later, though it began earlier.
        {"lsn": 200, "sequence": '["300","200"]'},
        {"lsn": 1000, "sequence": '["300","1000"]'},
        # With the commit of the transaction itself (debezium#7764).
        {"lsn": 350, "sequence": '["300","350"]', "commit_lsn": "400"},
        {"lsn": 320, "commit_lsn": "450"},
    ],
    "mysql": [
        {"file": "mysql-bin.000002", "pos": 900},
        {"file": "mysql-bin.000002", "pos": 1000, "row": 0},
        {"file": "mysql-bin.000002", "pos": 1000, "row": 2},
        {"file": "mysql-bin.000002", "pos": 1000, "row": 10},
        {"file": "mysql-bin.999999", "pos": 4},
        {"file": "mysql-bin.1000000", "pos": 4},
    ],
    "mariadb": [
        {"file": "bin.a.000009", "pos": 10, "row": 0},
        {"file": "bin.a.000010", "pos": 9, "row": 0},
        # The binlog that InnoDB keeps: its places are in no order.
        {"file": "binlog-000007.ibb", "gtid": "0-1-9", "pos": 900, "row": 0},
        {"file": "binlog-000007.ibb", "gtid": "0-2-10", "pos": 4, "row": 0},
        {"file": "binlog-000006.ibb", "gtid": "0-1-11", "pos": None, "row": 0},
    ],
    "sqlserver": [
        # The later commit has the earlier change.
        {"commit_lsn": "0000002A:00000b78:0003", "change_lsn": "0000002a:00000b90:0002", "event_serial_no": "2"},
        {"commit_lsn": "0000002a:00000b80:0003", "change_lsn": "0000002a:00000b10:0002", "event_serial_no": "1"},
        {"commit_lsn": "0000002a:00000b80:0003", "change_lsn": "0000002a:00000b10:0002", "event_serial_no": "2"},
        {"commit_lsn": "0000002a:00000b80:0003", "change_lsn": "0000002a:00000b10:0002", "event_serial_no": "10"},
        # Each change of a commit counts its events for itself.
        {"commit_lsn": "0000002a:00000b80:0003", "change_lsn": "0000002A:00000b1a:0002", "event_serial_no": "1"},
    ],
    "db2": [
        {"commit_lsn": "00000000:00000000:00000000:00ab10", "change_lsn": "00000000:00000000:00000000:00ab02"},
        {"commit_lsn": "00000000:00000000:00000000:00ab11", "change_lsn": "00000000:00000000:00000000:00ab01"},
        {"commit_lsn": "00000000:00000000:00000000:00ab11", "change_lsn": "00000000:00000000:00000000:00ab0a"},
    ],
    "informix": [
        {"commit_lsn": "99", "change_lsn": "98"},
        {"commit_lsn": "100", "change_lsn": "9"},
        {"commit_lsn": "100", "change_lsn": "10"},
    ],
    "oracle": [
        {"commit_scn": "9999999999999999999", "scn": "30"},
        {"commit_scn": "10000000000000000000", "scn": "5", "redo_thread": "1", "ssn": "0"},
        {"commit_scn": "10000000000000000000", "scn": "5", "redo_thread": "1", "ssn": "7"},
        {"commit_scn": "10000000000000000000", "scn": "12", "redo_thread": "1", "ssn": "0"},
        {"commit_scn": "10000000000000000000", "scn": "13", "redo_thread": "1", "ssn": "0", "txSeq": "9"},
        {"commit_scn": "10000000000000000000", "scn": "13", "redo_thread": "1", "ssn": "0", "txSeq": "10"},
        # XStream's, from here on: of the last commit the first change is the oldest, and two are at one number.
        _lcr(10000000000000000001, 13, 1),
        _lcr(10000000000000000002, 7, 1) | {"commit_scn": "10000000000000000002"},
        _lcr(10000000000000000002, 7, 9),
        _lcr(10000000000000000002, 7, 10),
        _lcr(10000000000000000002, 12, 2),
    ],
    "mongodb": [
        {"version": "3.3.1.Final", "ts_ms": 5000, "ord": "2"},
        {"version": "2.7.0.Final", "ts_ms": 5000, "ord": "10"},
        {"version": "3.4.0.Final", "wallTime": 0, "ts_ms": 6000, "ord": "1"},
    ],
    "spanner": [
        {"ts_ns": 1_700_000_000_000_000_001, "server_transaction_id": "a", "sequence": "00000000", "mod_number": "1"},
        {"ts_ns": 1_700_000_000_000_000_001, "server_transaction_id": "a", "sequence": "00000000", "mod_number": "10"},
        {"ts_ns": 1_700_000_000_000_000_001, "server_transaction_id": "a", "sequence": "00000002", "mod_number": "0"},
        {"ts_ns": 1_700_000_000_000_000_001, "server_transaction_id": "b", "sequence": "00000001", "mod_number": "0"},
        {"ts_ns": 1_700_000_000_000_000_002, "server_transaction_id": "A", "sequence": "00000000", "mod_number": "0"},
    ],
    "vitess": [
        {"transaction_epoch": "0", "transaction_rank": "99999999999999999999", "total_order": "1"},
        {"transaction_epoch": "0", "transaction_rank": "100000000000000000000", "total_order": "2"},
        {"transaction_epoch": "0", "transaction_rank": "100000000000000000000", "total_order": "10"},
        {"transaction_epoch": "1", "transaction_rank": "5", "total_order": "1"},
    ],
    "cockroachdb": [
        {"ts_hlc": "999.0000000000"},
        {"ts_hlc": "1000.0000000002"},
        {"ts_hlc": "1000.0000000010"},
        {"ts_hlc": "1001"},
    ],
}
#: Blocks from which no position can be made: changes with these are ordered by offset.
WITHOUT: list[dict[str, Any]] = [
    {"connector": "vitess", "lsn": 5},
    {"connector": "postgresql"},
    {"connector": "mysql", "file": "no-number", "pos": 4},
    {"connector": "mariadb", "pos": 4},
    {"connector": "sqlserver", "change_lsn": "0000002a:00000b10:0002"},
    {"connector": "sqlserver", "commit_lsn": "soon", "change_lsn": "0000002a:00000b10:0002"},
    {"connector": "db2", "commit_lsn": "", "change_lsn": "00000000:00000000:00000000:00ab02"},
    # Longer than a part is wide: cut, they would sort before all others.
    {"connector": "postgresql", "sequence": f'["{"9" * 21}","{"9" * 21}"]'},
    {"connector": "informix", "commit_lsn": "9" * 21, "change_lsn": "5"},
    {"connector": "oracle", "commit_scn": "9" * 41, "scn": "7"},
    {"connector": "mongodb", "version": "3.3.1.Final", "ts_ms": 5000, "ord": "9" * 11},
    {"connector": "spanner", "ts_ns": 5, "server_transaction_id": "t", "sequence": "9" * 21},
    {"connector": "oracle", "commit_scn": "seven"},
    {"connector": "oracle", "lcr_position": "no hexadecimal number"},
    {"connector": "mongodb", "version": "3.3.1.Final", "ts_ms": 5000},
    # A wall clock, or what may be one.
    {"connector": "mongodb", "version": "3.4.0.Final", "ts_ms": 6000, "wallTime": 6000, "ord": "1"},
    {"connector": "mongodb", "version": "4.0.0.Final", "ts_ms": 6000, "wallTime": 6000, "ord": "1"},
    {"connector": "mongodb", "ts_ms": 6000, "ord": "1"},
    {"connector": "cockroachdb", "ts_hlc": "soon"},
    {},
]


@pytest.fixture(scope="module")
def positions(spark: "SparkSession") -> list[str | None]:
    """The positions of all blocks, those of IN_ORDER first."""
    blocks = [{"connector": name, **block} for name, given in IN_ORDER.items() for block in given]
    rows = [(at, *[block.get(name) for name in _FIELDS]) for at, block in enumerate([*blocks, *WITHOUT])]
    fields = ", ".join(f"`{name}` {ddl}" for name, ddl in _FIELDS.items())
    frame = spark.createDataFrame(rows, f"at int, {fields}")
    source = Source(F.struct(*_FIELDS), frozenset(_FIELDS))
    found = with_parts(frame, source).select("at", position(source).alias("position")).orderBy("at").collect()
    return [row["position"] for row in found]


@pytest.mark.parametrize("connector", IN_ORDER)
def test_positions_sort_as_the_database_ordered(positions: list[str | None], connector: str) -> None:
    """Each is greater than the one before."""
    start = sum(
        len(given) for name, given in IN_ORDER.items() if list(IN_ORDER).index(name) < list(IN_ORDER).index(connector)
    )
    found = [text for text in positions[start : start + len(IN_ORDER[connector])] if text is not None]

    assert len(found) == len(IN_ORDER[connector])
    assert found == sorted(set(found))


@pytest.mark.parametrize("connector", IN_ORDER)
def test_a_position_is_the_same_where_no_writer_tells_more(
    spark: "SparkSession", positions: list[str | None], connector: str
) -> None:
    """What the writers of a table do not tell is left out of its plan, and would have been NULL."""
    told = {name: ddl for name, ddl in _FIELDS.items() if any(block.get(name) for block in IN_ORDER[connector])}
    told["connector"] = "string"
    rows = [
        (at, *[{"connector": connector, **block}.get(name) for name in told])
        for at, block in enumerate(IN_ORDER[connector])
    ]
    frame = spark.createDataFrame(rows, ", ".join(["at int", *[f"`{name}` {ddl}" for name, ddl in told.items()]]))
    source = Source(F.struct(*told), frozenset(told))
    found = with_parts(frame, source).select("at", position(source).alias("position")).orderBy("at").collect()
    start = sum(len(IN_ORDER[name]) for name in list(IN_ORDER)[: list(IN_ORDER).index(connector)])

    assert [row["position"] for row in found] == positions[start : start + len(found)]


def test_a_block_that_lacks_a_part_has_no_position(positions: list[str | None]) -> None:
    """A guess would sort somewhere; none is made."""
    assert positions[-len(WITHOUT) :] == [None] * len(WITHOUT)


_UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("gtid", "found"),
    [
        (f"{_UUID}:7", (f"gtid:{_UUID}", 7)),
        (f"{_UUID.upper()}:Tag_1:7", (f"gtid:{_UUID}:tag_1", 7)),
        ("0-1-7", ("gtid:0", 7)),
        ("4294967295-1-7", ("gtid:4294967295", 7)),
        *[
            (text, ("file:bin", None))
            for text in (
                f"whatever {_UUID}:7",
                f"{_UUID}:a b:7",
                f"{_UUID}:7\n",
                "x:7",
                "00-1-7",
                "99999999999-1-7",
                "",
            )
        ],
    ],
)
def test_the_id_of_a_transaction_has_the_form_of_its_server(
    spark: "SparkSession", gtid: str, found: tuple[str, int | None]
) -> None:
    """The log of any other text would be kept in the marker for ever, with what a message says in it."""
    frame = spark.createDataFrame([("mysql", gtid, "bin.000001")], "connector string, gtid string, file string")
    source = Source(F.struct("connector", "gtid", "file"), frozenset({"connector", "gtid", "file"}))

    assert with_parts(frame, source).select(*log(source)).first() == found


@pytest.mark.parametrize("home", [MOVES, "2 int"])
def test_a_source_of_many_logs_is_planned_as_one_of_few(spark: "SparkSession", home: str) -> None:
    """What was read of each is told, however many there are."""
    sets = {f"gtid:{number}": {0: ((5, 9), (200_000, 200_001)), 1: ((7, 12),)} for number in range(LOGS_MAX)}
    logs = dict.fromkeys(sets, 12) | {"file:a": 0}
    recorded = Recorded(partitions=2, logs=logs, gtids=GtidSets(sets), home=home)
    changes = [
        *((0, "gtid:17", number, "u") for number in (4, 5, 12, 13, 200_001, 200_002)),
        *((0, "gtid:new", 1, "u"), (1, "gtid:17", 5, "u"), (2, "gtid:17", 100, "u")),
        *((0, "file:a", None, "u"), (0, None, None, "u"), (0, "gtid:17", 12, "t")),
    ]
    ddl = f"`{m.PARTITION}` int, `{m.LOG}` string, `{m.LOG_NUMBER}` bigint, `{m.OP}` string"
    frame = spark.createDataFrame(changes, ddl)
    tests = (numbered.is_unseen(recorded), numbered._is_read_anywhere(recorded), numbered._is_left_out(recorded))
    unseen, read, left_out = zip(*frame.select(*tests).collect(), strict=True)

    assert read == (False, True, True, False, True, False, False, True, False, False, False, True)
    stays = recorded.keys_stay
    assert left_out == (False, False, stays, True, False, True, False, False, False, False, False, False)
    assert unseen == (False, False, stays, True, False, True, True, False, True, False, False, False)
