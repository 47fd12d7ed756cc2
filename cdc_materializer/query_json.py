"""Single values as documents have them: the JSON that Spark makes of each, with all digits of times and decimals."""

from pyspark.sql import Column
from pyspark.sql import functions as F

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
    told = value.cast("string") if ddl.startswith("decimal") else value
    return F.to_json(F.struct(told.alias(VALUE)), _JSON)
