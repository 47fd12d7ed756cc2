"""What the straight line of a table does, step by step (design section 3): each reads or writes one of its tables."""
