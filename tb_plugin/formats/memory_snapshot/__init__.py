"""Allocator snapshots (``torch.cuda.memory._dump_snapshot``), read without executing anything."""

from tb_plugin.formats.memory_snapshot.reader import MemorySnapshotReader

__all__ = ["MemorySnapshotReader"]
