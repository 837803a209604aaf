"""Extension modules listed in the environment."""

from __future__ import annotations

import os

from tb_plugin import settings

# Import names of modules with additional formats, models and views.
EXTENSIONS_VARIABLE = settings.EXTENSIONS.name


def extension_names() -> list[str]:
    """Returns the import names in TORCH_TRACE_EXTENSIONS."""
    return [name for item in os.environ.get(EXTENSIONS_VARIABLE, "").split(",") if (name := item.strip())]
