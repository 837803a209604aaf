"""Rank summaries: discovery, loading, computation and file format."""

# The view whose parts are summaries.
VIEW = "distributed"
