"""Names as they stood in the source: compilers write types into the names of functions, which nobody can read then."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

MANGLED = "_Z"
"""How a name begins that a C++ compiler has mangled."""
_LONGEST = 8192
"""Characters of a mangled name."""
_LONGEST_READ = 32_768
"""Characters of what it reads as: templates multiply."""
_SECONDS = 2.0
"""Time for all names of a table; those that are left stay as they are."""


def readable_names(names: Sequence[str | None]) -> list[str | None]:
    """Returns the readable form of each name that is mangled; None for the others, and where it cannot be read."""
    found: dict[str, str | None] = {}
    until = monotonic() + _SECONDS
    for name in names:
        if name and name not in found and name.startswith(MANGLED) and len(name) <= _LONGEST and monotonic() < until:
            found[name] = _readable(name)
    return [found.get(name) if name else None for name in names]


def _readable(name: str) -> str | None:
    from demangle import demangle  # few traces hold such names

    text = demangle(name, language="itanium")
    return text if text != name and len(text) <= _LONGEST_READ else None
