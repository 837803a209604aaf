"""Rank summaries: discovery, loading, computation and file format."""
