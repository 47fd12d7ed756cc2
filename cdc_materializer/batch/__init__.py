"""One batch decided: its messages decoded, folded, held against the past, and judged. Nothing is written."""
