"""The view ``compiled``."""
