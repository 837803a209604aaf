"""All ranks in one picture: maps, matrices, stages, the worst."""
