"""The view ``categories``."""
