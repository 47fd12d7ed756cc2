"""The catalog, and the tables in it, without Spark."""
