"""The view ``memory_states``."""
