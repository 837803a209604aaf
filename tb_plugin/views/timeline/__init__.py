"""The view ``timeline``."""
