"""Where bytes are: the only package that knows file systems (through fsspec)."""
