"""Views, one folder each.

Each folder declares its view as ``VIEW``. ``ANALYSES`` has all declarations in navigation order. The code of a view
is imported on first use.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tb_plugin.analysis.view_entry import ViewEntry


def _declared() -> list[ViewEntry]:
    names = [each.name for each in pkgutil.iter_modules(__path__) if not each.name.startswith("_")]
    return [import_module(f"{__name__}.{name}").VIEW for name in names]


ANALYSES: tuple[ViewEntry, ...] = tuple(sorted(_declared(), key=lambda view: view.order))
