"""The view ``active_memory``."""
