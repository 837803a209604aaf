"""Access to file systems, through fsspec.

No other package uses file systems.
"""
