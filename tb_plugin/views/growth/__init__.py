"""The view ``growth``."""
