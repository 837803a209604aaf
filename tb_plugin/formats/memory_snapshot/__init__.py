"""Snapshots of an allocator as PyTorch pickles them (``torch.cuda.memory._dump_snapshot``). Nothing of a file is executed."""

from tb_plugin.formats.memory_snapshot.reader import MemorySnapshotReader

__all__ = ["MemorySnapshotReader"]
