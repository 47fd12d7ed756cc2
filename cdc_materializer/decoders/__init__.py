"""The writers of a batch, and the one table that they describe together."""
