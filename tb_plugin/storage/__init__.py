"""Access to file systems through fsspec."""
