"""The view ``parallelism``."""
