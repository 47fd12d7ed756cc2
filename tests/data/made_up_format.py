"""A format that nobody has, for the tests that add it as a file: `{"verb": "put", "at": 7, "cells": {…}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.writers import Writer

_VERBS = {"put": "u", "drop": "d", "clear": "t", "ping": "m"}


class MadeUp(Format):
    """Rows in cells, keyed by their own columns."""

    depth = 2
    rows_name_themselves = True

    def row(self, wire: WireType) -> WireType | None:
        """The cells."""
        return wire.get("cells")

    def value_type(self, row: WireType) -> WireType:
        """Cells beside a verb and a place."""
        text = WireType("string", optional=True)
        return WireType("record", fields=(("verb", text), ("at", text), ("cells", row)))

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By its verb."""
        return "`verb` beside `cells`" if wire is None and {"verb", "cells"} <= (value or {}).keys() else None

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """All of it."""
        del writer, options
        return f"verb string, at string, cells struct<{row_ddl}>"

    def names(self, value: Column) -> Column | None:
        """The cells that are there."""
        from pyspark.sql import functions as F

        return F.json_object_keys(F.get_json_object(value, "$.cells"))

    def said(self, part: Part) -> Said:
        """What the verb does to the cells."""
        from pyspark.sql import functions as F

        verb, cells = part.body["verb"], part.body["cells"]
        op = verb
        for word, ours in _VERBS.items():
            op = F.when(verb == word, ours).otherwise(op)
        place = F.lpad(part.body["at"], 10, "0")
        return Said(op, F.when(verb == "put", cells), cells, {"position": place})


FORMAT = MadeUp()
