"""Formats. One file a format; READERS is the literal list of them."""
