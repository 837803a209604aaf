"""Kineto's Chrome JSON: ``<worker>.<time>.pt.trace.json[.gz]`` as torch.profiler writes it."""

from tb_plugin.formats.kineto.reader import KinetoReader

__all__ = ["KinetoReader"]
