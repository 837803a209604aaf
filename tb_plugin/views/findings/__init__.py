"""The view ``findings``."""
