"""Masks as Spark columns: applied as a message is decoded, so that no table, history or report ever has the value.

Rules that judge a value before its mask see a twin of the column (`masks.PLAIN`), which goes through the fold beside it
and ends where the rules have spoken (`judged`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.decode.fit import plain_number
from cdc_materializer.masks import PLAIN, REDACTED, Mask, source_name
from cdc_materializer.names import quote

_MASKED = "__cdc_masked_"
_BLOCK_BYTES = 64
#: All but the last four characters; the whole of a text that has fewer than eight.
_ALL_BUT_LAST_4 = r"(?s)\A(?:.{4,}(.{4})|.{0,7})\z"


def masked(value: Column, ddl: str, mask: Mask, key: bytes | None) -> Column:
    """A value as the mirror stores it; NULL stays NULL.

    Args:
        value: the value in the type that its writer gave it, which alone decides its text: how a log is cut does not.
        ddl: that type.
        mask: how it is hidden.
        key: the secret of hashes.
    """
    if mask is Mask.REDACT:
        return F.when(value.isNotNull(), REDACTED)
    if mask is Mask.LAST4:
        # As one expression, so that Spark does not compute the value once a use.
        return F.regexp_replace(_text(value, ddl), _ALL_BUT_LAST_4, "****$1")
    if mask is Mask.HASH and key:
        return _hmac(value if ddl == "binary" else F.encode(_text(value, ddl), "UTF-8"), key)
    message = "a mask without a value, or a hash without a key, has no column"
    raise AssertionError(message)


def _text(value: Column, ddl: str) -> Column:
    """The text of a value: the same for equal values of integer and decimal types, whatever their size and scale."""
    if ddl == "binary":
        return F.hex(value)
    if ddl.startswith("decimal"):
        # 5.00 and 5 are one number, and so have one hash.
        return plain_number(value.cast("string"))
    if ddl.startswith("map<"):
        return F.to_json(F.array_sort(F.map_entries(value)))
    return F.to_json(value) if ddl.startswith(("array<", "struct<")) else value.cast("string")


def _hmac(octets: Column, key: bytes) -> Column:
    """HMAC-SHA-256 (RFC 2104) in lower-case hexadecimal."""
    inner, outer = pads(key)
    digest = F.unhex(F.sha2(F.concat(F.lit(inner), octets), 256))
    return F.sha2(F.concat(F.lit(outer), digest), 256)


def pads(key: bytes) -> tuple[bytes, bytes]:
    """What HMAC puts before the message, and before the digest of both."""
    import hashlib

    block = (hashlib.sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    return bytes(octet ^ 0x36 for octet in block), bytes(octet ^ 0x5C for octet in block)


def is_plain_open(open_columns: Column) -> Column:
    """Whether a value is lacking that a rule has to see unmasked, and that the mirror's row has masked only."""
    return F.exists(open_columns, lambda name: name.startswith(PLAIN))


def _of_columns(problems: Column) -> Column:
    """What is wrong with columns and twins, each told of the column. Nearly all rows have nothing."""
    prefix = rf"\A{PLAIN}"

    def of_column(one: Column) -> Column:
        return F.struct(F.regexp_replace(one["column"], prefix, "").alias("column"), one["code"].alias("code"))

    return F.when(F.size(problems) > 0, F.array_distinct(F.transform(problems, of_column))).otherwise(problems)


def judged(states: DataFrame, verdicts: Mapping[str, Column], lists: tuple[str, ...], problems: str) -> DataFrame:
    """Add columns that are computed over unmasked values, and leave these behind.

    Args:
        states: with twins of masked columns, or without.
        verdicts: the columns to add, by name; they name source columns.
        lists: columns that are lists of column names.
        problems: the column that lists what is wrong with columns, carried ones.
    """
    twins = {source_name(name): name for name in states.columns if name.startswith(PLAIN)}
    if not twins:
        return states.withColumns(dict(verdicts))
    own = [name for name in states.columns if name not in twins.values()]
    shown = [m.column(name).alias(_MASKED + name if name in twins else name) for name in own]
    plain = states.select(*shown, *[m.column(twin).alias(name) for name, twin in twins.items()])
    told = plain.withColumns(dict(verdicts))
    cleaned = {name: F.filter(name, lambda one: ~one.startswith(PLAIN)) for name in lists}
    cleaned |= {name: _of_columns(F.col(name)) for name in (m.PROBLEMS, problems)}
    columns = {name: F.col(quote(_MASKED + name)) for name in own if name in twins} | cleaned
    return told.select(
        *[columns.get(name, m.column(name)).alias(name) for name in own], *[F.col(name) for name in verdicts]
    )
