"""The view ``find``."""
