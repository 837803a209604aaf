"""Supported trace formats.

Each format is a folder that declares itself in ``FORMATS``. ``READERS`` lists the declarations by ``order``; a file
of uncertain format goes to the first reader that accepts it. Decoders are imported when a file is read.
"""

from __future__ import annotations

from importlib import import_module

from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.lib.lazy import public_packages


def _declared() -> list[FormatEntry]:
    return [entry for name in public_packages(__path__[0]) for entry in import_module(f"{__name__}.{name}").FORMATS]


READERS: tuple[FormatEntry, ...] = tuple(sorted(_declared(), key=lambda entry: entry.order))
