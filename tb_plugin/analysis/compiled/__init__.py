"""Compiled code: its calls, what compiling it took, what its guards and wrappers take, and where it breaks off."""
