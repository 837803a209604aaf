"""A node of a call tree as two trees are compared."""

from __future__ import annotations

import re
from typing import NamedTuple

_INSTANCE = re.compile(r"_\d+$")
"""The profiler numbers the instances of a module's class: one more layer shifts the numbers of all that follow."""


class Node(NamedTuple):
    """What makes two nodes the same."""

    kind: str
    name: str

    @property
    def base(self) -> tuple[str, str]:
        """Returns the node without the number of its instance."""
        return self.kind, _INSTANCE.sub("", self.name)
