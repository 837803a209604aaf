"""The view ``gaps``."""
