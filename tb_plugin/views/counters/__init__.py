"""The view ``counters``."""
