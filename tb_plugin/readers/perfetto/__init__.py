"""Perfetto's protobuf traces (``.pftrace``): those that PyTorch writes, and those of any other tool."""

from tb_plugin.readers.perfetto.reader import PerfettoReader

__all__ = ["PerfettoReader"]
