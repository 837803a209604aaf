"""Allocator snapshots: final memory state and event history."""
