"""Files of ``torch.profiler.profile.export_memory_timeline``: JSON and raw JSON."""

from tb_plugin.formats.memory_timeline.reader import MemoryTimelineReader

__all__ = ["MemoryTimelineReader"]
