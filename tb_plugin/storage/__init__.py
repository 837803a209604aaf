"""Access to file systems through fsspec.

Only this package accesses file systems.
"""
