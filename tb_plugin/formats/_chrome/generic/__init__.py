"""Rows from Chrome events of any tool, with all their arguments."""
