"""Changes of a batch to one final row a key (changelog-semantics §2.3)."""
