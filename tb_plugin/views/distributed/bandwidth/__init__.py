"""Bandwidth of collectives."""
