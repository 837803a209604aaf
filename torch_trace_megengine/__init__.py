"""MegEngine: timelines, memory flows and advice, as an extension of Torch Trace."""

from torch_trace_megengine import memory_flow, timeline

READERS = (*timeline.FORMATS, *memory_flow.FORMATS)
MODELS = (memory_flow.MODEL,)
ANALYSES = (memory_flow.VIEW,)
RECORDERS = ("torch_trace_megengine.profiler:MEGENGINE",)
