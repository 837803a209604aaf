"""Computation and file format of rank summaries."""

# The view whose parts are summaries.
VIEW = "distributed"
