"""Which of a key's messages is the later one, and which were there before (changelog-semantics §0 to §2)."""
