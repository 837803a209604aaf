"""Rows by the rules of Chrome's format alone, for dialects that keep all arguments and say afterwards what they mean."""
