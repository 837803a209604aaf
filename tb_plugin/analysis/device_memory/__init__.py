"""Blocks, peaks and reserved memory of devices, from allocator events."""
