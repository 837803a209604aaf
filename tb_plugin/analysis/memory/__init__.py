"""Allocator events of a trace: owners, origins and categories."""
