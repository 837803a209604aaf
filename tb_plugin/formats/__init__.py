"""Formats: one folder each, which declares itself (``FORMATS``). No list names them.

``READERS`` holds the declarations in the order in which they are asked about an uncertain file (``order``). The code that
decodes is imported when a file of the format is read.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tb_plugin.formats.format_entry import FormatEntry


def _declared() -> list[FormatEntry]:
    folders = [each.name for each in pkgutil.iter_modules(__path__) if each.ispkg and not each.name.startswith("_")]
    return [entry for name in folders for entry in import_module(f"{__name__}.{name}").FORMATS]


READERS: tuple[FormatEntry, ...] = tuple(sorted(_declared(), key=lambda entry: entry.order))
