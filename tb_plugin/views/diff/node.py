"""Identity of a call tree node across two trees."""

from __future__ import annotations

import re
from typing import NamedTuple

# The profiler numbers instances of a module class, so an extra layer shifts all later numbers.
_INSTANCE_SUFFIX = re.compile(r"_\d+$")


class Node(NamedTuple):
    """The properties that make two nodes the same."""

    kind: str
    name: str

    @property
    def base(self) -> tuple[str, str]:
        """Returns the node without its instance number."""
        return self.kind, _INSTANCE_SUFFIX.sub("", self.name)
