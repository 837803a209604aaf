"""Units in profiles, and their conversion."""

from __future__ import annotations

import re

from tb_plugin.payloads import Unit

# Unit text -> our unit and factor. KB, MB and GB are ambiguous (1,000 or 1,024 bytes), so they are missing.
UNITS: dict[str, tuple[Unit, float]] = {
    **dict.fromkeys(("B", "byte", "bytes", "Byte", "Bytes"), ("bytes", 1.0)),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    **dict.fromkeys(("B/s", "bytes/s", "Bytes/s"), ("bytes_per_second", 1.0)),
    "kB/s": ("bytes_per_second", 1e3),
    "MB/s": ("bytes_per_second", 1e6),
    "GB/s": ("bytes_per_second", 1e9),
    "TB/s": ("bytes_per_second", 1e12),
    **dict.fromkeys(("%", "percent"), ("ratio", 0.01)),
    "ns": ("ns", 1.0),
    **dict.fromkeys(("us", "µs", "μs"), ("ns", 1e3)),
    "ms": ("ns", 1e6),
    **dict.fromkeys(("s", "sec"), ("ns", 1e9)),
    "mW": ("watts", 1e-3),
    "W": ("watts", 1.0),
    "kW": ("watts", 1e3),
    **dict.fromkeys(("C", "°C"), ("celsius", 1.0)),
    "Hz": ("hertz", 1.0),
    "kHz": ("hertz", 1e3),
    "MHz": ("hertz", 1e6),
    "GHz": ("hertz", 1e9),
}
_AT_END = re.compile(r"\(([^()]{1,10})\)\s*\Z")


def unit_and_factor(text: str) -> tuple[Unit, float] | None:
    """Returns the unit, and the factor that converts recorded values to this unit; None if the text is not a known unit."""
    return UNITS.get(text.strip())


def unit_in_name(name: str) -> tuple[Unit, float] | None:
    """Parses the unit at the end of a name, as in ``Power (W)``, like ``unit_and_factor``."""
    found = _AT_END.search(name)
    return unit_and_factor(found[1]) if found else None
