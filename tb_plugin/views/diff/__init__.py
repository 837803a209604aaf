"""The view ``diff``."""
