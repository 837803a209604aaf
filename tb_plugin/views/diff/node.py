"""Identity of call tree nodes across two trees."""

from __future__ import annotations

import re
from typing import NamedTuple

# The profiler numbers instances of a module class, so an extra layer shifts all later numbers.
_INSTANCE_SUFFIX = re.compile(r"_\d+$")


class Node(NamedTuple):
    """A node of a call tree. Nodes of two trees are the same if kind and name are equal."""

    kind: str
    name: str

    @property
    def base(self) -> tuple[str, str]:
        """Returns the kind, and the name without its instance number."""
        return self.kind, _INSTANCE_SUFFIX.sub("", self.name)
