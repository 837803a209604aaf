"""Execution traces of PyTorch (``ExecutionTraceObserver``, Chakra schema): JSON."""

from tb_plugin.formats.execution_trace.reader import ExecutionTraceReader

__all__ = ["ExecutionTraceReader"]
