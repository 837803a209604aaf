"""The view ``backward``."""
