"""Rank summaries: found, loaded, computed, written."""
