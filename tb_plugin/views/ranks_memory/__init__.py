"""The view ``ranks_memory``."""
