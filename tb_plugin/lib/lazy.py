"""Classes by name, imported at first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def name_of(kind: type[Any]) -> str:
    """Returns the name of a class, ``module:class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def class_named(name: str) -> type[Any]:
    """Returns the class of a name ``module:class``; its module is imported."""
    module, _, attribute = name.partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found
