"""The view ``stack_profile``."""
