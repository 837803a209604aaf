"""Perfetto's protobuf traces (``.pftrace``) of PyTorch and other tools."""

from tb_plugin.formats.perfetto.reader import PerfettoReader

__all__ = ["PerfettoReader"]
