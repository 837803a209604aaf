"""Charts of all ranks: maps, matrices, stages, the worst."""
