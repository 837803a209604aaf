"""The view ``stated``."""
