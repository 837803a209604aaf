"""Devices, blocks and stacks of an allocator snapshot."""
