"""The view ``distributed``."""
