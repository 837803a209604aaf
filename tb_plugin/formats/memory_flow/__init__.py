"""Memory flows: drawings of MegEngine's profiler (``<pid>.memory_flow.svg``) whose rectangles tell a tensor each."""

from tb_plugin.formats.memory_flow.reader import MemoryFlowReader

__all__ = ["MemoryFlowReader"]
