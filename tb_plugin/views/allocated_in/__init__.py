"""The view ``allocated_in``."""
