"""Which extensions the environment names: modules with readers, models and analyses of other people."""

from __future__ import annotations

import os

from tb_plugin import settings

EXTENSIONS_VARIABLE = settings.EXTENSIONS.name
"""Environment variable: import names of modules with further readers, models and analyses."""


def extension_names() -> list[str]:
    """Returns the import names that the environment gives."""
    return [name for item in os.environ.get(EXTENSIONS_VARIABLE, "").split(",") if (name := item.strip())]
