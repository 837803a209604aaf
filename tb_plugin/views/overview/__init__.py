"""The view ``overview``."""
