"""Single values as documents have them: the JSON that Spark makes of each, with all digits of times and decimals."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.schema_types import decimal_of, entry_of, field_list, fields_ddl, item_of

#: Times with all their digits: Spark's own form ends at milliseconds.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: What the value is called in `json_text`.
VALUE = "v"


def json_text(value: Column, ddl: str) -> Column:
    """A value as the text of a JSON object that has it as VALUE; decimals as texts, which keeps their digits."""
    told = value.cast(told_type(ddl)) if "decimal(" in ddl else value
    return F.to_json(F.struct(told.alias(VALUE)), _JSON)


def told_type(ddl: str) -> str:
    """A type with texts in the places of decimals, of those inside of others too."""
    entry, item, fields = entry_of(ddl), item_of(ddl), field_list(ddl)
    if entry is not None:
        return f"map<{told_type(entry[0])},{told_type(entry[1])}>"
    if item is not None:
        return f"array<{told_type(item)}>"
    if fields is not None:
        return fields_ddl((name, told_type(inside)) for name, inside in fields)
    return "string" if decimal_of(ddl) is not None else ddl
