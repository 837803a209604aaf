"""The view ``snapshot_diff``."""
