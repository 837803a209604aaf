"""MegEngine's memory flow drawings (``<pid>.memory_flow.svg``): one rectangle per tensor."""

from tb_plugin.formats.memory_flow.reader import MemoryFlowReader

__all__ = ["MemoryFlowReader"]
