"""`cdcm verify`: a mirror held against the fold of its log, or against the database itself; and put right."""
