"""The model of an execution trace: operators with their tensors, and neither times nor steps."""

from __future__ import annotations

from tb_plugin.model.execution_trace import arrow
from tb_plugin.model.execution_trace.table import ExecutionTrace
from tb_plugin.model_kinds.base import Feature, Outline


class ExecutionTraceModel:
    """An ExecutionTraceModel knows how an execution trace is made, kept and told."""

    id = "execution_trace"
    noun = "an execution trace"
    version = arrow.VERSION
    default_view = "execution_nodes"
    features: tuple[Feature, ...] = ()
    raw = ExecutionTrace
    type = ExecutionTrace

    def assemble(self, raw: ExecutionTrace) -> ExecutionTrace:
        """Returns what the reader returned."""
        return raw

    def write(self, made: ExecutionTrace, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> ExecutionTrace:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: ExecutionTrace) -> Outline:
        """Returns its report: the clock that it states is nobody else's."""
        return Outline(made.report)

    def open_beside(self, made: ExecutionTrace, path: str) -> None:
        """Keeps nothing beside it."""
