"""Compiled code: calls, compilation, guards and graph breaks."""
