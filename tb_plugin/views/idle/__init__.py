"""The view ``idle``."""
