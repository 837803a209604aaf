"""Views, one folder each.

Each folder declares its view as ``VIEW``. ``ANALYSES`` has all declarations in navigation order. The code of a view
is imported on first use.
"""

from __future__ import annotations

from importlib import import_module

from tb_plugin.analysis.view_entry import ViewEntry
from tb_plugin.lib.lazy import public_modules, public_packages


def _declared() -> list[ViewEntry]:
    names = (*public_packages(__path__[0]), *public_modules(__path__[0]))
    return [import_module(f"{__name__}.{name}").VIEW for name in names]


ANALYSES: tuple[ViewEntry, ...] = tuple(sorted(_declared(), key=lambda view: view.order))
