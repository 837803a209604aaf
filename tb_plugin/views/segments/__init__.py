"""The view ``segments``."""
