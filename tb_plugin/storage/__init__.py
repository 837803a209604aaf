"""Storage: the only package that uses file systems (through fsspec)."""
