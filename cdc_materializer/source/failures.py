"""What Spark raises while it reads a source, said in our own words.

Spark wraps what happened in a worker into its own error and passes on no more than text, so the names of the Java
classes in it are all there is to go by. The text itself is never passed on.
"""

import re

from cdc_materializer.errors import ConfigError, SourceUnavailable

#: What our own refusals inside a Spark job begin with, so that they are found again in Spark's text.
READ_REFUSED = "cdcm source: "

_REFUSED = re.compile(re.escape(READ_REFUSED) + r"([^\n]*?changed while it was read\.)")
_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.common\.(?:config\.|errors\.)?(\w+Exception)")
_FILE_GONE = re.compile(r"FAILED_READ_FILE|PATH_NOT_FOUND|java\.io\.FileNotFoundException:[^\n]*\.jsonl")
_MESSAGES_GONE = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|failOnDataLoss")

_CREDENTIALS = ("Check the sasl and ssl properties under source.kafka.", "refused the credentials")
_KAFKA_MEANINGS = {
    "SaslAuthenticationException": _CREDENTIALS,
    "SslAuthenticationException": _CREDENTIALS,
    "TopicAuthorizationException": ("Allow the user to read the topic.", "does not let this user read it"),
    "GroupAuthorizationException": ("Allow the user to use consumer groups.", "does not let this user read it"),
    "TimeoutException": ("Check that Spark reaches every broker, then run again.", "did not answer in time"),
    "ConfigException": ("Check that the brokers' names are right and known, then run again.", "cannot be found"),
}
#: What Java's client raises before it asks anything; not for its properties where something else did not answer.
_NOT_MADE = re.compile(
    r"Failed to (construct kafka|create new Kafka)|org\.apache\.kafka\.common\.config\.ConfigException"
)
_NO_ANSWER = re.compile(r"No resolvable bootstrap|java\.net\.\w+Exception|java\.io\.IOException|LoginException")


def read_failure(error: BaseException, topic: str) -> SourceUnavailable | ConfigError | None:
    """Explain what Spark raised while it used a DataFrame of `Source.read`; None where the source is not to blame."""
    text = str(error)
    refused = _REFUSED.search(text)
    if refused:
        return SourceUnavailable(refused[1], "Run again.")
    if _MESSAGES_GONE.search(text):
        what = f"Messages of the topic {topic} left the broker while they were read. Nothing was written."
        return SourceUnavailable(what, "Run again; the next run says what is missing.")
    if _NOT_MADE.search(text) and not _NO_ANSWER.search(text):
        what = f"Spark cannot read the topic {topic}: Kafka's Java client does not begin with these properties."
        return ConfigError(what, "Check the sasl and ssl properties under source.kafka.")
    names = _KAFKA_ERROR.findall(text)
    known = next((name for name in names if name in _KAFKA_MEANINGS), None)
    if known is not None:
        do, meaning = _KAFKA_MEANINGS[known]
        return SourceUnavailable(f"Spark cannot read the topic {topic}: the broker {meaning}.", do)
    what, do = f"The recorded topic {topic} went away while it was read.", "Restore it, then run again."
    if names:
        what, do = (
            f"Spark cannot read the topic {topic} ({names[0]}).",
            "Look for that in the broker's log, then run again.",
        )
    return SourceUnavailable(what, do) if names or _FILE_GONE.search(text) else None
