"""The view ``modules``."""
