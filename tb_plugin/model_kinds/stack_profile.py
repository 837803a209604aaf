"""The model of a file of stacks: what was counted at each place, and neither events nor steps."""

from __future__ import annotations

from tb_plugin.model.stack_profile import arrow
from tb_plugin.model.stack_profile.table import StackProfile
from tb_plugin.model_kinds.base import Feature, Outline


class StackProfileModel:
    """A StackProfileModel knows how a file of stacks is made, kept and told."""

    id = "stack_profile"
    noun = "a file of stacks"
    version = arrow.VERSION
    default_view = "stack_profile"
    features: tuple[Feature, ...] = ()
    raw = StackProfile
    type = StackProfile

    def assemble(self, raw: StackProfile) -> StackProfile:
        """Returns what the reader returned: it merges the stacks while it reads, or large files would not fit."""
        return raw

    def write(self, made: StackProfile, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> StackProfile:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: StackProfile) -> Outline:
        """Returns its report: there are no steps."""
        return Outline(made.report)

    def open_beside(self, made: StackProfile, path: str) -> None:
        """Keeps nothing beside it."""
