"""Declarations of models. They import no code of the models."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tb_plugin.lib.lazy import load_class, load_object, name_of
from tb_plugin.model_kinds.base import Feature, Model, Outline


class ModelEntry:
    """A row of ``MODELS``: a ``Model`` whose storage is imported from ``place`` at first use. ``raw``, ``made``: classes."""

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
        return load_class(self.raw_name)

    @property
    def type(self) -> type[Any]:
        return load_class(self.type_name)

    @cached_property
    def _storage(self) -> Any:
        return load_object(self._place)

    @property
    def version(self) -> int:
        return int(self._storage.version)

    def assemble(self, raw: Any) -> Any:
        return self._storage.assemble(raw)

    def write(self, made: Any, path: str) -> None:
        self._storage.write(made, path)

    def read(self, path: str) -> Any:
        return self._storage.read(path)

    def outline(self, made: Any) -> Outline:
        found: Outline = self._storage.outline(made)
        return found

    def open_companion(self, made: Any, path: str) -> None:
        self._storage.open_companion(made, path)


def input_class_name(model: Model[Any, Any]) -> str:
    """Returns the name of the class that readers return. Does not import the class."""
    return model.raw_name if isinstance(model, ModelEntry) else name_of(model.raw)


def type_of(model: Model[Any, Any]) -> str:
    """Returns the name of the class that views accept. Does not import the class."""
    return model.type_name if isinstance(model, ModelEntry) else name_of(model.type)
