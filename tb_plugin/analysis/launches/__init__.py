"""Launches of device work, and work that was launched outside the recording."""
