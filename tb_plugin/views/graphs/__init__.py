"""The view ``graphs``."""
