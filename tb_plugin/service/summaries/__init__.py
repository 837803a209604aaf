"""Computation and file format of rank summaries."""
