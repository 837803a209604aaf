"""Demangled C++ names."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

# Prefix of mangled C++ names.
MANGLED = "_Z"
_MAX_MANGLED_CHARS = 8192
# Short mangled names may expand to very long ones.
_MAX_READABLE_CHARS = 32_768
# After this time, the remaining names of a table stay mangled.
_TABLE_TIMEOUT_S = 2.0


def readable_names(names: Sequence[str | None]) -> list[str | None]:
    """Demangles C++ names. A name that is not mangled or cannot be demangled gives None."""
    found: dict[str, str | None] = {}
    until = monotonic() + _TABLE_TIMEOUT_S
    for name in names:
        is_mangled = name and name.startswith(MANGLED) and len(name) <= _MAX_MANGLED_CHARS
        if name and is_mangled and name not in found and monotonic() < until:
            found[name] = _readable(name)
    return [found.get(name) if name else None for name in names]


def _readable(name: str) -> str | None:
    from demangle import demangle  # few traces contain such names

    text = demangle(name, language="itanium")
    return text if text != name and len(text) <= _MAX_READABLE_CHARS else None
