"""The columns of a mirror: their types, what identifies a row, and how both may change."""
