"""`cdcm why`: the life of one row, message by message."""
