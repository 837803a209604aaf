"""Pickles of plain data, read without executing anything (decision 16)."""
