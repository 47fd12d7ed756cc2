"""Changelog formats to changes: one file a format, each ending in the columns that `changes.model` describes."""
