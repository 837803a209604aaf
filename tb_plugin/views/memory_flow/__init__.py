"""The view ``memory_flow``."""
