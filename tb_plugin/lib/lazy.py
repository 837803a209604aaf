"""Classes that are imported by name at first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def name_of(kind: type[Any]) -> str:
    """Returns the name of a class as ``module:class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def load_class(name: str) -> type[Any]:
    """Imports and returns the class ``module:class``."""
    module, _, attribute = name.partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found
