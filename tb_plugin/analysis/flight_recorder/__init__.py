"""Calls of flight recorders: tables, headline and metrics."""
