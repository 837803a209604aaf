"""Matching of calls on different ranks that belong to one collective."""
