"""What Spark leaves out of what it keeps and shows: of its event log, its pages and the texts of its plans. Pure."""

import re

from cdc_materializer.config import Config

#: What Spark leaves out of plans that it shows, in logs and its own pages: there a hash's key is a literal of 64 bytes.
REDACTED_TEXT = "spark.sql.redaction.string.regex"
_MASK_KEYS = "(?i)(0x|X')[0-9a-f]{128}"
# Kafka's clients take the private key of TLS as a text, in `ssl.keystore.key` (Java's) or `ssl.key.pem`.
_NAMES_LEFT_OUT = (
    "(?i)secret|passw|token|access[.]?key|credential|jaas|basic[.]?auth|keystore[.]key|ssl[.]key[.]pem|private[._-]?key"
)
#: The events that have the text of what went wrong, and so the value at which a cast failed. Spark takes whole kinds
#: of event or none: these are all that have such a text, and each has it.
FAILURES = (
    "SparkListenerTaskEnd",
    "SparkListenerStageCompleted",
    "SparkListenerJobEnd",
    "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd",
)


def left_out(config: Config) -> dict[str, str]:
    """Return the Spark properties that say what it leaves out; those of ``config`` go before them, or are added."""
    kept = [*config.spark.items(), *config.catalog.properties.items()]
    named = [_NAMES_LEFT_OUT, *(re.escape(name) for name, value in kept if not isinstance(value, str))]
    return {"spark.redaction.regex": "|".join(named), "spark.eventLog.excludedPatterns": ",".join(FAILURES)}


def with_mask_keys(known: str) -> str:
    """Return a pattern of `REDACTED_TEXT` that matches the keys of masks besides what is ``known``."""
    if _MASK_KEYS in known:
        return known
    return f"{known}|{_MASK_KEYS}" if known else _MASK_KEYS
