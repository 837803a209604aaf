"""Stragglers: detection, cost and cause."""
