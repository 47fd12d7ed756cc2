"""`cdcm as-of`: the rows of a table as its source had them at a moment."""
