"""The view ``events``."""
