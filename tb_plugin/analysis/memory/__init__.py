"""Allocator events of a trace: operators, origins and categories."""
