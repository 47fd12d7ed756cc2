"""What a snapshot says of the batch that made it: the only memory of progress (design section 3)."""
