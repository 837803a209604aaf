"""Declarations of models, which import no code."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

from tb_plugin.lib.lazy import load_class, name_of
from tb_plugin.model_kinds.base import Feature, Model, Outline


class ModelEntry:
    """A row of ``MODELS``. ``raw`` and ``made`` name classes (``lib/lazy.py``).

    The entry implements ``Model``. At first use it imports the name in ``place`` from this package.
    """

    def __init__(
        self,
        place: str,
        id: str,
        noun: str,
        default_view: str,
        raw: str,
        made: str,
        features: tuple[Feature, ...] = (),
    ) -> None:
        self.id = id
        self.noun = noun
        self.default_view = default_view
        self.features: tuple[Feature, ...] = features
        self.raw_name, self.type_name = raw, made
        self.implementation: type[Any] | None = None
        self._place = place

    @property
    def raw(self) -> type[Any]:
        """Returns the type that readers return."""
        return load_class(self.raw_name)

    @property
    def type(self) -> type[Any]:
        """Returns the type that views accept."""
        return load_class(self.type_name)

    @cached_property
    def model(self) -> Model[Any, Any]:
        """Imports and returns the model."""
        module, _, name = self._place.partition(":")
        made: Model[Any, Any] = getattr(import_module(f"tb_plugin.model_kinds.{module}"), name)
        return made

    @property
    def version(self) -> int:
        """Returns the version of the file format."""
        return self.model.version

    def assemble(self, raw: Any) -> Any:
        """Builds the model from the result of a reader."""
        return self.model.assemble(raw)

    def write(self, made: Any, path: str) -> None:
        """Writes the model to a file. Raises OSError."""
        self.model.write(made, path)

    def read(self, path: str) -> Any:
        """Returns the model in a file. Raises CacheFileLost."""
        return self.model.read(path)

    def outline(self, made: Any) -> Outline:
        """Returns the summary of a profile."""
        return self.model.outline(made)

    def open_companion(self, made: Any, path: str) -> None:
        """Opens or creates further cached data next to the file. Raises CacheRefused."""
        self.model.open_companion(made, path)


def input_class_name(model: Model[Any, Any]) -> str:
    """Returns the name of the class that readers return, without importing it."""
    return model.raw_name if isinstance(model, ModelEntry) else name_of(model.raw)


def type_of(model: Model[Any, Any]) -> str:
    """Returns the name of the class that views accept, without importing it."""
    return model.type_name if isinstance(model, ModelEntry) else name_of(model.type)
