"""What Spark raises while it reads a source, said in our own words, by the classes of Java's causes.

What a worker has thrown is a cause of what Spark raises only where the driver could make the exception again. Else, as
where its class is not there or a worker has ended, Spark passes it on as text alone, and the names of classes in that
are all there is to go by. The text itself is never passed on.
"""

import re

from cdc_materializer.causes import java_names
from cdc_materializer.errors import ConfigError, SourceUnavailable

#: What our own refusals inside a Spark job begin with, so that they are found again in Spark's text.
READ_REFUSED = "cdcm source: "

_REFUSED = re.compile(re.escape(READ_REFUSED) + r"([^\n]*?changed while it was read\.)")
#: A class in a text, with its package: `TimeoutException` is one of Java's own, too.
_NAMED = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z][\w$]*Exception\b")
_KAFKA_ERROR = re.compile(r"org\.apache\.kafka\.common\.(?:config\.|errors\.)?(\w+Exception)")
# What no class says, for several things that go wrong have one: Spark's conditions, and words of Java's messages.
_FILE_GONE = re.compile(r"FAILED_READ_FILE|PATH_NOT_FOUND|java\.io\.FileNotFoundException:[^\n]*\.jsonl")
_MESSAGES_GONE = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|failOnDataLoss")
_OUT_OF_RANGE = re.compile(r"org\.apache\.kafka\.(\w+\.)+OffsetOutOfRangeException")

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
_NOT_MADE = re.compile(r"Failed to (construct kafka|create new Kafka)")
_WRONG_SETTING = re.compile(r"org\.apache\.kafka\.common\.config\.ConfigException")
_NOT_RESOLVED = re.compile(r"No resolvable bootstrap")
_NO_ANSWER = re.compile(r"java\.net\.\w+Exception|java\.io\.IOException|(\w+\.)*LoginException")


def read_failure(error: BaseException, topic: str) -> SourceUnavailable | ConfigError | None:
    """Explain what Spark raised while it used a DataFrame of `Source.read`; None where the source is not to blame."""
    text = str(error)
    classes = [*java_names(error), *_NAMED.findall(text)]

    def has(kind: re.Pattern[str]) -> bool:
        return any(kind.fullmatch(name) for name in classes)

    refused = _REFUSED.search(text)
    if refused:
        return SourceUnavailable(refused[1], "Run again.")
    if has(_OUT_OF_RANGE) or _MESSAGES_GONE.search(text):
        what = f"Messages of the topic {topic} left the broker while they were read. Nothing was written."
        return SourceUnavailable(what, "Run again; the next run says what is missing.")
    is_not_made = has(_WRONG_SETTING) or _NOT_MADE.search(text)
    if is_not_made and not (has(_NO_ANSWER) or _NOT_RESOLVED.search(text)):
        what = f"Spark cannot read the topic {topic}: Kafka's Java client does not begin with these properties."
        return ConfigError(what, "Check the sasl and ssl properties under source.kafka.")
    names = [found[1] for found in map(_KAFKA_ERROR.fullmatch, classes) if found is not None]
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
