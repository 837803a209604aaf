"""Rows by Chrome's format alone, for dialects that load all arguments."""
