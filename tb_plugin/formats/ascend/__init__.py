"""Profiles of Ascend NPUs: folders of many files, as torch_npu and MindSpore write them (docs/npu.md)."""

from tb_plugin.formats.ascend.cluster import AscendClusterReader
from tb_plugin.formats.ascend.reader import AscendReader

__all__ = ["AscendClusterReader", "AscendReader"]
