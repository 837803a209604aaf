"""The model of memory by category: changes in time, and neither events nor steps."""

from __future__ import annotations

from tb_plugin.model.category_memory import arrow
from tb_plugin.model.category_memory.table import CategoryMemory, RawCategoryMemory, assembled
from tb_plugin.model_kinds.base import Feature, Outline


class CategoryMemoryModel:
    """A CategoryMemoryModel knows how memory by category is made, kept and told."""

    id = "category_memory"
    noun = "memory by category"
    version = arrow.VERSION
    default_view = "categories"
    features: tuple[Feature, ...] = ()
    raw = RawCategoryMemory
    type = CategoryMemory

    def assemble(self, raw: RawCategoryMemory) -> CategoryMemory:
        """Returns the changes by time."""
        return assembled(raw)

    def write(self, made: CategoryMemory, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> CategoryMemory:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: CategoryMemory) -> Outline:
        """Returns its report: there are no steps."""
        return Outline(made.report)

    def open_beside(self, made: CategoryMemory, path: str) -> None:
        """Keeps nothing beside it."""
