"""The view ``cluster``."""
