"""`cdcm query` and `read`: SQL over the mirrors, with what is not published yet if asked for."""
