"""Spark: sessions that are built, watched and ended, and how they plan."""
