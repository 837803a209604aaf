"""The model of a memory flow: tensors over addresses and time, and neither events nor steps."""

from __future__ import annotations

from tb_plugin.model.memory_flow import arrow
from tb_plugin.model.memory_flow.table import MemoryFlow, RawMemoryFlow, assembled
from tb_plugin.model_kinds.base import Feature, Outline


class MemoryFlowModel:
    """A MemoryFlowModel knows how a memory flow is made, kept and told."""

    id = "memory_flow"
    noun = "a memory flow"
    version = arrow.VERSION
    default_view = "memory_flow"
    features: tuple[Feature, ...] = ()
    raw = RawMemoryFlow
    type = MemoryFlow

    def assemble(self, raw: RawMemoryFlow) -> MemoryFlow:
        """Returns the tensors by time."""
        return assembled(raw)

    def write(self, made: MemoryFlow, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> MemoryFlow:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: MemoryFlow) -> Outline:
        """Returns its report: there are no steps."""
        return Outline(made.report)

    def open_beside(self, made: MemoryFlow, path: str) -> None:
        """Keeps nothing beside it."""
