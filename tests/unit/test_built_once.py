"""Columns are built once for each JVM, and for each of what they are asked with."""

from typing import TYPE_CHECKING

from pyspark import SparkContext

from cdc_materializer.built_once import built_once

if TYPE_CHECKING:
    import pytest


class _Jvm:
    """Stands for PySpark's connection to a JVM, of which only the identity counts."""


def test_what_is_built_is_that_of_its_arguments_and_of_its_jvm(monkeypatch: "pytest.MonkeyPatch") -> None:
    """A column of a JVM that has ended is none in the next one, and must not be found again there."""
    asked: list[tuple[str, int]] = []

    @built_once
    def build(name: str, size: int) -> object:
        asked.append((name, size))
        return object()

    found = []
    for jvm in (_Jvm(), _Jvm()):
        monkeypatch.setattr(SparkContext, "_gateway", jvm)
        found += [build("key", 4), build("value", 4), build("key", 4)]

    assert asked == [("key", 4), ("value", 4)] * 2
    assert found[0] is found[2] is not found[1]
    assert found[3] is found[5] is not found[0]
