"""The view ``phases``."""
