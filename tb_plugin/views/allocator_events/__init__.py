"""The view ``allocator_events``."""
