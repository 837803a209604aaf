"""Execution traces of PyTorch (``ExecutionTraceObserver``, the schema of Chakra): JSON, packed or not."""

from tb_plugin.formats.execution_trace.reader import ExecutionTraceReader

__all__ = ["ExecutionTraceReader"]
