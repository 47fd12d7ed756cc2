"""What Spark's JSON reader is given: a message's text with its end marked, as a column of its own.

Spark has no compiled form of `from_json`, so it interprets what its text is made of, too, and finds each Java method
anew for each row: a quarter of what it took to decode JSON without a schema. Of a column it interprets nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.built_once import built_once

#: The columns that `with_texts` adds, by side.
TEXTS = {"value": "text_of_value", "key": "text_of_key"}
#: Spark's JSON reader stops behind the first object and leaves the rest unseen. So each has this field put before its
#: last brace; if it is not read, that brace was not the end of the first object. No sender knows its name.
END = f"__cdc_end_{secrets.token_hex(8)}"
_ENDING = f',"{END}":true}}'.encode()
#: What is read in the place of bytes that are no UTF-8: no JSON either.
NO_TEXT = "?"
#: What may stand behind a JSON text (RFC 8259, section 2).
_BLANKS = " \t\n\r"


def with_texts(messages: DataFrame, selectors: Mapping[str, Sequence[str]]) -> DataFrame:
    """Add TEXTS to messages, on the sides that have any.

    Args:
        messages: with binary keys and values, and the selectors of their writers.
        selectors: those of writers that read JSON objects, by side.
    """
    chosen = {side: F.col(f"{side}_writer").isin(*found) for side, found in selectors.items() if found}
    return messages.withColumns({TEXTS[side]: F.when(test, ended(side)) for side, test in chosen.items()})


@built_once
def ended(name: str) -> Column:
    """The text of a binary column, a JSON object with one more field, its last; NO_TEXT for bytes that are no text."""
    return ended_text(F.col(name).cast("string"))


def ended_text(text: Column) -> Column:
    """The same of a text."""
    # Spark's JSON reader puts other characters in the place of bytes that are no text.
    return F.when(F.is_valid_utf8(text), _with_end(text)).otherwise(F.lit(NO_TEXT))


def _with_end(text: Column) -> Column:
    object_ = F.when(text.endswith("}"), text).otherwise(F.rtrim(text, F.lit(_BLANKS)))
    # Of bytes, because to cut off a text's last character Spark counts all that are before it, twice.
    octets = object_.cast("binary")
    cut = F.concat(F.substring(octets, F.lit(1), F.length(octets) - 1), F.lit(_ENDING)).cast("string")
    return F.when(object_.endswith("}"), cut).otherwise(text)
