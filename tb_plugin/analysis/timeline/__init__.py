"""Tracks, levels and tiles of the timeline."""
