"""Flame graphs of traces, stack files and snapshots; callers and callees."""
