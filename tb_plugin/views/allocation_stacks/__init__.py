"""The view ``allocation_stacks``."""
