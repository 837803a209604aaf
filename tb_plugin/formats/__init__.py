"""Supported trace formats.

Each format is a folder that adds itself to ``FORMATS``. ``READERS`` contains these declarations, sorted by
``order``. A file that could have several formats is read by the first reader that accepts it. Decoders are imported
only when a file is read.
"""

from __future__ import annotations

from importlib import import_module

from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.lib.lazy import public_packages


def _declared() -> list[FormatEntry]:
    return [entry for name in public_packages(__path__[0]) for entry in import_module(f"{__name__}.{name}").FORMATS]


READERS: tuple[FormatEntry, ...] = tuple(sorted(_declared(), key=lambda entry: entry.order))
