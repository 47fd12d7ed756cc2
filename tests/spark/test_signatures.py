"""What tells events and keys apart: the hash of a change, and the text of a key."""

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.image import image_type
from cdc_materializer.changes.signatures import image_hash
from cdc_materializer.schema.schema import Column, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TARGET = TableSchema(
    (
        Column("a", "int"),
        Column("b", "int"),
        Column("text", "string"),
        Column("at", "timestamp_ntz"),
        Column("ratio", "double"),
        Column("tags", "array<string>"),
        Column("more", "map<string,int>"),
    ),
    ("a",),
)
_NONE: list[Any] = [None] * len(TARGET.columns)


def _image(*given: Any, absent: list[str] | None = None, unavailable: list[str] | None = None, **named: Any) -> Any:  # noqa: ANN401 - rows
    row = [*given, *_NONE[len(given) :]]
    for name, value in named.items():
        row[[column.name for column in TARGET.columns].index(name)] = value
    return (True, tuple(row), absent or [], unavailable or [], [])


#: Images each of which differs from all others, some in what a hash of values alone does not tell.
IMAGES = [
    None,
    _image(),
    _image(1, None),
    _image(None, 1),
    _image(1, 1),
    _image(text=""),
    _image(text="a"),
    _image(ratio=0.0),
    _image(ratio=-0.0),
    _image(tags=[]),
    _image(tags=["a", "b"]),
    _image(tags=["ab"]),
    _image(tags=[None]),
    _image(more={}),
    _image(more={"a": 1}),
    _image(absent=["b"]),
    _image(unavailable=["b"]),
    _image(absent=["b"], unavailable=["text"]),
    _image(absent=["b", "text"]),
]


def test_images_that_differ_have_other_hashes(spark: "SparkSession") -> None:
    """By NULLs, the sign of a zero, the length of a list and what is left out too."""
    frame = spark.createDataFrame(
        [(at, image) for at, image in enumerate(IMAGES)], f"at int, image {image_type(TARGET)}"
    )

    hashes = [row[0] for row in frame.select(image_hash(F.col("image"), TARGET)).collect()]

    assert len(set(hashes)) == len(IMAGES)


def test_a_key_is_told_as_the_writer_of_json_tells_it(spark: "SparkSession") -> None:
    """Of types that JSON does not escape the text is put together: it has to be the one that other keys get."""
    given = {
        "i": ("int", "-1", "0"),
        "big": ("bigint", "9223372036854775807", "0"),
        "is_it": ("boolean", "true", "false"),
        "small": ("smallint", "-3", "0"),
        "day": ("date", "0001-01-01", "9999-12-31"),
        "at": ("timestamp", "2024-02-29 23:59:59.123456Z", "1969-12-31 23:59:59.999Z"),
        "local": ("timestamp_ntz", "1582-10-10", "2024-01-01 00:00:00"),
        "octets": ("binary", "\u00ff", ""),
        "amount": ("decimal(20,4)", "-0.5", "12345678901234.0001"),
    }
    types = {name: told[0] for name, told in given.items()}
    schema = TableSchema(tuple(Column(name, ddl) for name, ddl in types.items()), tuple(types))
    rows = [[F.lit(told[at]).cast(told[0]).alias(name) for name, told in given.items()] for at in (1, 2)]
    rows.append([F.lit(None).cast(ddl).alias(name) for name, ddl in types.items()])
    frames = [spark.range(1).select(*row) for row in rows]
    frame = frames[0].unionAll(frames[1]).unionAll(frames[2])
    key = F.struct(*types)
    texts = {name: F.col(name) if name in {"i", "big", "is_it"} else F.col(name).cast("string") for name in types}
    texts["octets"] = F.hex("octets")
    written = F.to_json(F.struct(*[text.alias(name) for name, text in texts.items()]), {"ignoreNullFields": "false"})

    found = frame.select(m.key_json(key, schema), written).collect()

    assert [row[0] for row in found] == [row[1] for row in found]
    assert found[0][0].startswith('{"i":-1,"big":9223372036854775807,"is_it":true,"small":"-3","day":"0001-01-01",')


@pytest.mark.parametrize(("name", "ddl"), [("id", "string"), ('na"me', "int"), ("größe", "bigint")])
def test_a_key_that_json_escapes_is_escaped(spark: "SparkSession", name: str, ddl: str) -> None:
    """A quote in a name or a text ends neither."""
    schema = TableSchema((Column(name, ddl),), (name,))
    value = 'a"b\\' if ddl == "string" else 7
    frame = spark.createDataFrame([(value,)], "value string" if ddl == "string" else f"value {ddl}")

    text = frame.select(m.key_json(F.struct(F.col("value").alias(name)), schema)).collect()[0][0]

    assert spark.range(1).select(F.try_parse_json(F.lit(text)).isNotNull()).collect()[0][0]
    assert text.count(":") == 1
