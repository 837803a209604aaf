"""The view ``allocations``."""
