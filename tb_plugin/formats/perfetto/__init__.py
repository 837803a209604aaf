"""Perfetto's protobuf traces (``.pftrace``): those that PyTorch writes, and those of any other tool."""

from tb_plugin.formats.perfetto.reader import PerfettoReader

__all__ = ["PerfettoReader"]
