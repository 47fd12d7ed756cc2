"""Properties of Spark that every session of ours has, and those of some of them."""

TIME_ZONE = "spark.sql.session.timeZone"
#: What results depend on; the same in a session of ours and beside a caller's.
SEMANTICS = {
    "spark.sql.ansi.enabled": "true",
    TIME_ZONE: "UTC",
    # A source's name or comment with `${…}` in it is no place for a setting or for an environment variable.
    "spark.sql.variable.substitute": "false",
    # Names in backticks are names, texts in quotes have their escapes, and Spark's `timestamp` is a moment.
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
}
#: What the large plans of a batch run faster with; three of 50,000 changes took 56 CPU-s, with both 44.
BATCHES = {
    # Spark makes one Java class of a whole stage. What decodes has methods of 16 KB of bytecode then, and Java compiles
    # none of more than 8 (a decoder of 12 columns took 5.5 CPU-s for 100,000 changes, in smaller classes 2.9); and a
    # batch's offsets are in the class, so that the next one compiles it anew.
    "spark.sql.codegen.wholeStage": "false",
    # States are cached for seconds, and read three times.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # To find a use for one, Spark writes keys out as what they come from: `why` had six minutes, then no memory (30 s).
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
#: Files that a user's query names by their paths have rows from before a mask, and nothing tells whose they are.
ASKED = {"spark.sql.runSQLOnFiles": "false"}
#: What Spark makes and keeps for the pages of its UI even where it shows none: the plans of a thousand queries, as
#: texts, with all that they compute. To write those is a tenth of what the driver does for a small batch.
UNSEEN = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "1",
}
