"""Rank summaries: found, loaded, computed, written."""

# The view whose parts are summaries.
VIEW = "distributed"
