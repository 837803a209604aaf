"""Files of ``torch.profiler.profile.export_memory_timeline``: JSON and raw JSON. Its HTML is a picture, told as such."""

from tb_plugin.formats.memory_timeline.reader import MemoryTimelineReader

__all__ = ["MemoryTimelineReader"]
