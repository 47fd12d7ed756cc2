"""Single values as documents have them: the JSON that Spark makes of each, with all digits of times and decimals."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.schema.types import decimal_of, entry_of, field_list, fields_ddl, item_of

#: Times with all their digits: Spark's own form ends at milliseconds.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: What the value is called in `json_text`.
VALUE = "v"
#: Types that Spark writes as keys of maps in a form of its engine's own, and otherwise as texts.
_KEPT_INSIDE = ("binary", "date", "timestamp", "interval")


def json_text(value: Column, ddl: str) -> Column:
    """A value as the text of a JSON object that has it as VALUE; decimals as texts, which keeps their digits."""
    named, told = _with_named_entries(value, ddl), told_type(ddl)
    return F.to_json(F.struct((named.cast(told) if told != ddl else named).alias(VALUE)), _JSON)


def told_type(ddl: str) -> str:
    """A type with texts in the places of decimals, times of day and keys, of those inside of others too."""
    entry, item, fields = entry_of(ddl), item_of(ddl), field_list(ddl)
    if entry is not None:
        return f"map<{'string' if _is_renamed(entry[0]) else told_type(entry[0])},{told_type(entry[1])}>"
    if item is not None:
        return f"array<{told_type(item)}>"
    if fields is not None:
        return fields_ddl((name, told_type(inside)) for name, inside in fields)
    return "string" if decimal_of(ddl) is not None or ddl.startswith("time(") else ddl


def _is_renamed(key: str) -> bool:
    """Whether a key of a map is to be the text that it has as a value."""
    return key.startswith(_KEPT_INSIDE) or item_of(key) is not None or field_list(key) is not None


def _with_named_entries(value: Column, ddl: str) -> Column:
    """A value with texts as keys of its maps, where Spark has no fitting text for them."""
    entry, item, fields = entry_of(ddl), item_of(ddl), field_list(ddl)
    if "map<" not in ddl:
        return value
    if entry is not None:
        key, inside = entry
        value = F.transform_values(value, lambda _, one: _with_named_entries(one, inside))
        return F.transform_keys(value, lambda one, _: _name(one, key)) if _is_renamed(key) else value
    if item is not None:
        return F.transform(value, lambda one: _with_named_entries(one, item))
    # Of two fields of one name neither can be asked for.
    if fields is not None and len(fields) == len(dict(fields)):
        parts = [_with_named_entries(value[name], inside).alias(name) for name, inside in fields]
        return F.when(value.isNotNull(), F.struct(*parts))
    return value


def _name(key: Column, ddl: str) -> Column:
    """A key as the text that it has as a value."""
    return F.regexp_extract(json_text(key, ddl), rf'(?s)^\{{"{VALUE}":"?(.*?)"?\}}$', 1)
