"""Declarations of models, without their code."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

from tb_plugin.lib.lazy import class_named, name_of
from tb_plugin.model_kinds.base import Feature, Model, Outline


class ModelEntry:
    """A row of ``MODELS``. ``raw`` and ``made`` name classes (``lib/lazy.py``).

    The entry is a ``Model``: at first use it imports its ``place``, a module of this folder and a name there.
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
        """The class of the model, once it is defined."""
        self._place = place

    @property
    def raw(self) -> type[Any]:
        """Returns the class that readers return."""
        return class_named(self.raw_name)

    @property
    def type(self) -> type[Any]:
        """Returns the class that views take."""
        return class_named(self.type_name)

    @cached_property
    def model(self) -> Model[Any, Any]:
        """Returns the model; its code is imported now."""
        module, _, name = self._place.partition(":")
        made: Model[Any, Any] = getattr(import_module(f"tb_plugin.model_kinds.{module}"), name)
        return made

    @property
    def version(self) -> int:
        """Returns the version of what ``write`` writes."""
        return self.model.version

    def assemble(self, raw: Any) -> Any:
        """Returns the model of what a reader returned."""
        return self.model.assemble(raw)

    def write(self, made: Any, path: str) -> None:
        """Writes the model into a file. Raises OSError."""
        self.model.write(made, path)

    def read(self, path: str) -> Any:
        """Returns the model in a file. Raises CacheFileLost."""
        return self.model.read(path)

    def outline(self, made: Any) -> Outline:
        """Returns what to tell of it."""
        return self.model.outline(made)

    def open_companion(self, made: Any, path: str) -> None:
        """Opens what is cached beside the file. Raises CacheRefused."""
        self.model.open_companion(made, path)


def made_of(model: Model[Any, Any]) -> str:
    """Returns the name of the input class of a model, without importing it."""
    return model.raw_name if isinstance(model, ModelEntry) else name_of(model.raw)


def type_of(model: Model[Any, Any]) -> str:
    """Returns the name of the class of a model, without importing it."""
    return model.type_name if isinstance(model, ModelEntry) else name_of(model.type)
