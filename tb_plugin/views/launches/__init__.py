"""The view ``launches``."""
