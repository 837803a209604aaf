"""The view ``collectives``."""
