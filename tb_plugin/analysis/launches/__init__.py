"""Launches: phases, queue depth and repeated kernel sequences."""
