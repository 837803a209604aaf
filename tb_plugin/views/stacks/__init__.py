"""The view ``stacks``."""
