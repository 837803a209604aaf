"""Rows with all arguments, from Chrome events of any tool."""
