"""The view ``serving``."""
