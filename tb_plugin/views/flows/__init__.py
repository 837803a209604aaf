"""The view ``flows``."""
