"""The view ``ranks_collectives``."""
