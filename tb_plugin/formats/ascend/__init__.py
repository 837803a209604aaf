"""Ascend NPU profiles: folders written by torch_npu and MindSpore (docs/npu.md)."""

from tb_plugin.formats.ascend.cluster import AscendClusterReader
from tb_plugin.formats.ascend.reader import AscendReader

__all__ = ["AscendClusterReader", "AscendReader"]
