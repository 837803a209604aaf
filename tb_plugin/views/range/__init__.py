"""The view ``range``."""
