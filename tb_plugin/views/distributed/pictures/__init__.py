"""Charts of all ranks."""
