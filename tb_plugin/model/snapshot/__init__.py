"""Allocator snapshots: history of events, and memory state at the end."""
