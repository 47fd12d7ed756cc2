"""`cdcm init`: a pipeline and contracts drafted from what topics or raw tables show; without Spark."""
