"""Extension modules: the bundled one, and those listed in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from tb_plugin import settings
from tb_plugin.errors import UserError

# Import names of modules with additional formats, models, views and profilers.
EXTENSIONS_VARIABLE = settings.EXTENSIONS.name
BUNDLED = ("torch_trace_megengine",)


def configured_names() -> list[str]:
    """Returns the import names in TORCH_TRACE_EXTENSIONS."""
    return [name for item in os.environ.get(EXTENSIONS_VARIABLE, "").split(",") if (name := item.strip())]


def extension_names() -> list[str]:
    return [*BUNDLED, *configured_names()]


def extension_modules(names: Sequence[str]) -> list[ModuleType]:
    """Imports extension modules. Raises UserError if one cannot be imported."""
    return [_imported(name) for name in names]


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"The extension {name} cannot be imported: {error}.", EXTENSIONS_VARIABLE, "Correct the extension."
        ) from error
