"""Recorded topics: what the driver learns from a folder before Spark reads it."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.config.connections import SourceConfig
from cdc_materializer.errors import SourceUnavailable, TopicMissing
from cdc_materializer.offsets import Offsets
from cdc_materializer.source import RecordedSource, open_source
from cdc_materializer.testing import TopicBuilder, recorded_line

TOPIC = "shop.public.orders"


def write(folder: Path, *lines: str) -> Path:
    """Write lines as the topic's file."""
    path = folder / f"{TOPIC}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def line(at: int, on: int = 0, /, **changed: Any) -> str:  # noqa: ANN401
    """Return a right line with some fields changed."""
    return json.dumps(json.loads(recorded_line(TOPIC, on, at, b"k", b"secret")) | changed)


def test_topics_are_the_files_of_the_folder(tmp_path: Path) -> None:
    """Each .jsonl and .jsonl.gz file is a topic; other files and folders are none."""
    TopicBuilder("b.b").write(tmp_path)
    TopicBuilder("a.a").write(tmp_path, compressed=True)
    (tmp_path / "truth").mkdir()
    (tmp_path / "connector.json").write_text("{}")

    assert RecordedSource(tmp_path).topics() == ("a.a", "b.b")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_topic_begins_at_its_first_offset_and_ends_after_its_last(tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001
    """Beginnings and ends are per partition, holes between are none of its business, and there is no topic id."""
    topic = TopicBuilder(TOPIC, first_offset=7)
    topic.add(b"k", b"v")
    topic.skip(3)
    topic.add(b"k", None, headers=[("h", None)])
    topic.add(None, b"v", partition=2)
    topic.write(tmp_path, compressed=compressed)

    state = RecordedSource(tmp_path).state(TOPIC)

    assert (state.topic, state.topic_id) == (TOPIC, None)
    assert state.beginnings == Offsets({0: 7, 2: 7})
    assert state.ends == Offsets({0: 12, 2: 8})


def test_fields_may_come_in_any_order(tmp_path: Path) -> None:
    """A header or value that looks like a field of the message is not taken for one."""
    message = json.loads(line(5, headers=[{"key": '"offset": 99, "partition": 9', "value": None}]))
    write(tmp_path, json.dumps(dict(reversed(message.items()))))

    assert RecordedSource(tmp_path).state(TOPIC).ends == Offsets({0: 6})


def test_an_empty_file_is_a_topic_without_partitions(tmp_path: Path) -> None:
    """The first message may have any offset, so nothing is claimed before it is there."""
    write(tmp_path)

    state = RecordedSource(tmp_path).state(TOPIC)

    assert (state.beginnings, state.ends) == (Offsets(), Offsets())


def test_a_line_that_is_cut_at_the_end_is_not_there_yet(tmp_path: Path) -> None:
    """Wherever a writer was interrupted, the topic ends before that line; once complete, after it."""
    path, whole = write(tmp_path, line(0)), line(1, headers=[{"key": "a", "value": None}])
    source = RecordedSource(tmp_path)

    with path.open("a", encoding="utf-8") as file:
        for character in whole:
            assert source.state(TOPIC).ends == Offsets({0: 1})
            file.write(character)
            file.flush()

    assert source.state(TOPIC).ends == Offsets({0: 2})


def test_a_file_that_grew_is_checked_from_where_it_ended(tmp_path: Path) -> None:
    """New lines are found, and an error in them has the number that it has in the whole file."""
    path = write(tmp_path, line(0), line(1))
    source = RecordedSource(tmp_path)
    source.state(TOPIC)

    with path.open("a") as file:
        file.write(line(2) + "\n")
    assert source.state(TOPIC).ends == Offsets({0: 3})

    with path.open("a") as file:
        file.write(line(3) + "\nrubbish\n")
    with pytest.raises(SourceUnavailable, match="line 5: it is not a JSON object"):
        source.state(TOPIC)


@pytest.mark.parametrize("offsets", [(10, 11, 12), (10,)])
def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    """A longer or a shorter file in place of the old one is not taken for a continuation of it."""
    path = write(tmp_path, line(0), line(1))
    source = RecordedSource(tmp_path)
    source.state(TOPIC)

    path.write_text("".join(line(offset) + "\n" for offset in offsets))

    assert source.state(TOPIC).beginnings == Offsets({0: 10})
    assert source.state(TOPIC).ends == Offsets({0: offsets[-1] + 1})


def without(field: str) -> str:
    """Return a line that lacks a field."""
    return json.dumps({name: value for name, value in json.loads(line(1)).items() if name != field})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("secret", "not a JSON object"),
        ('["secret"]', "not a JSON object"),
        (line(1)[:-20], "not a JSON object"),
        (line(1, topic="secret"), "`topic` is not the one"),
        (line(0), "offset 0 of partition 0 comes after offset 0"),
        (line(-1), "whole numbers"),
        (line(1, partition="secret"), "whole numbers"),
        (line(1, partition=True), "whole numbers"),
        (line(1, partition=2**31), "whole numbers"),
        (line(1, offset=1.0), "whole numbers"),
        (line(1, key="c2Vj!cmV0"), "`key` must be base64"),
        (line(1, key="secret!"), "`key` must be base64"),
        (line(1, value="c2VjcmV0c"), "`value` must be base64"),
        (line(1, value=7), "`value` must be base64"),
        (line(1, timestamp="secret"), "`timestamp` must be like"),
        (line(1, timestamp="2026-11-21T10:00:00.123"), "`timestamp` must be like"),
        (line(1, timestampType="secret"), "`timestampType` must be a number"),
        (line(1, headers={"secret": "x"}), "`headers` must be a list"),
        (line(1, headers=[{"key": "h", "value": "secret!"}]), "`headers` must be a list"),
        (line(1, headers=[{"key": "h"}]), "`headers` must be a list"),
        (without("value"), "no `value`"),
        (without("key"), "no `key`"),
        (without("offset"), "no `offset`"),
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_never_shown(tmp_path: Path, wrong: str, said: str) -> None:
    """Whatever is wrong with a line in the middle, the error names the file and the line, not its content."""
    path = write(tmp_path, line(0), wrong, line(2))

    with pytest.raises(SourceUnavailable) as caught:
        RecordedSource(tmp_path).state(TOPIC)

    assert f"{path}, line 2: " in caught.value.what
    assert said in caught.value.what
    assert "secret" not in str(caught.value).replace(str(tmp_path), "")


def test_offsets_rise_within_a_partition_only(tmp_path: Path) -> None:
    """Partitions interleave freely; going back within one is an error that names both offsets."""
    write(tmp_path, line(5, 0), line(1, 1), line(6, 0), line(0, 1))

    with pytest.raises(SourceUnavailable, match="line 4: offset 0 of partition 1 comes after offset 1"):
        RecordedSource(tmp_path).state(TOPIC)


def test_a_missing_topic_names_the_nearest(tmp_path: Path) -> None:
    """The error says what there is instead; a name never leads out of the folder."""
    inside = tmp_path / "inside"
    TopicBuilder(TOPIC).write(inside)
    TopicBuilder("outside").write(tmp_path)

    with pytest.raises(TopicMissing, match=f"Did you mean {TOPIC}"):
        RecordedSource(inside).state("shop.public.order")
    with pytest.raises(TopicMissing):
        RecordedSource(inside).state("../outside")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """The folder is named, and where to correct it."""
    with pytest.raises(SourceUnavailable, match=r"absent cannot be read .* source\.files"):
        RecordedSource(tmp_path / "absent").topics()


def test_a_topic_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    """Of a plain and a compressed file for one topic neither is taken."""
    TopicBuilder(TOPIC).write(tmp_path)
    TopicBuilder(TOPIC).write(tmp_path, compressed=True)

    with pytest.raises(SourceUnavailable, match="recorded twice"):
        RecordedSource(tmp_path).state(TOPIC)


@pytest.mark.parametrize(
    "spoil", [lambda data: data[: len(data) // 2], lambda _: b"no gzip", lambda data: data[:20] + b"\xff" + data[21:]]
)
def test_a_broken_compressed_file_is_an_error(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    """A file that is cut, damaged or not compressed at all is named in one sentence."""
    path = tmp_path / f"{TOPIC}.jsonl.gz"
    path.write_bytes(spoil(gzip.compress(line(0).encode() + b"\n")))

    with pytest.raises(SourceUnavailable, match=r"orders\.jsonl\.gz.* cannot be read"):
        RecordedSource(tmp_path).state(TOPIC)


def test_the_configuration_opens_a_folder(tmp_path: Path) -> None:
    """`source.files` is a folder of recorded topics."""
    assert isinstance(open_source(SourceConfig(files=tmp_path)), RecordedSource)
