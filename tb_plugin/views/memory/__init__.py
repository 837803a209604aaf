"""The view ``memory``."""
