"""Formats, models and views of this package and of extensions.

All of these are declarations. Their code is imported at first use. An extension module (``extensions.py``) may define
``READERS``, ``MODELS``, ``ANALYSES`` and ``RECORDERS``. They are used in the same way as the built-in ones.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from math import inf
from typing import Any, Protocol, TypeVar

import msgspec

from tb_plugin.analysis.base import Analysis
from tb_plugin.analysis.metrics import SHARED, Metrics
from tb_plugin.analysis.view_entry import model_name
from tb_plugin.errors import NotFoundError, UserError
from tb_plugin.extensions import EXTENSIONS_VARIABLE, extension_modules, extension_names
from tb_plugin.formats import READERS
from tb_plugin.formats.base import Reader
from tb_plugin.formats.format_entry import raw_name
from tb_plugin.lib.lazy import name_of
from tb_plugin.model_kinds import MODELS
from tb_plugin.model_kinds.base import Model
from tb_plugin.model_kinds.model_entry import input_class_name, type_of
from tb_plugin.payloads import Metric
from tb_plugin.views import ANALYSES


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=_Identified)


class Registry(msgspec.Struct, frozen=True):
    readers: tuple[Reader[Any], ...]
    models: tuple[Model[Any, Any], ...]
    analyses: tuple[Analysis[Any], ...]


def readers() -> tuple[Reader[Any], ...]:
    """Returns the readers of all formats, by ``order``. Raises UserError if an extension is unusable."""
    return _registry(tuple(extension_names())).readers


def models() -> tuple[Model[Any, Any], ...]:
    """Returns all models, built-in ones first. Raises UserError if an extension is unusable."""
    return _registry(tuple(extension_names())).models


def analyses() -> tuple[Analysis[Any], ...]:
    """Returns all views in navigation order. Raises UserError if an extension is unusable."""
    return _registry(tuple(extension_names())).analyses


def reader_by_id(reader_id: str) -> Reader[Any]:
    """Returns the reader with an id. Raises NotFoundError."""
    return _named(readers(), reader_id, "reader")


def model_by_id(model_id: str) -> Model[Any, Any]:
    """Returns the model with an id. Raises NotFoundError."""
    return _named(models(), model_id, "model")


def model_of(reader: Reader[Any]) -> Model[Any, Any]:
    """Returns the model that is built from the result of a reader. Raises NotFoundError."""
    raw = raw_name(reader)
    for model in models():
        if input_class_name(model) == raw:
            return model
    raise NotFoundError(f"No model is built from {raw.partition(':')[2]}.", reader.id, "Add one to MODELS.")


def formats_of(analysis: Analysis[Any]) -> frozenset[str]:
    made = {input_class_name(model): type_of(model) for model in reversed(models())}  # the first caller creates it
    about = model_name(analysis)
    return frozenset(reader.id for reader in readers() if made.get(raw_name(reader)) == about)


def metrics_by_module() -> dict[str, Mapping[str, Metric]]:
    """Returns the metrics that each module defines, and the shared ones. Imports all views and rules."""
    own: dict[str, Mapping[str, Metric]] = {"shared": SHARED}
    known = {id(metric) for metric in SHARED.values()}
    seen: set[int] = set()
    packages = (import_module(f"tb_plugin.{name}") for name in ("analysis", "rules", "views"))
    for package in (*packages, *extension_modules(extension_names())):
        found = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}.")
        for name in (package.__name__, *(each.name for each in found)):
            metrics = vars(import_module(name)).get("METRICS")
            if isinstance(metrics, Metrics) and id(metrics) not in seen:
                seen.add(id(metrics))
                own[name] = {key: metric for key, metric in metrics.items() if id(metric) not in known}
                known |= {id(metric) for metric in metrics.values()}
    return own


def noun_of(kind: type[Any]) -> str:
    """Returns the noun for profiles of a type in messages to users, such as "a trace"."""
    return _noun_of(name_of(kind))


def _noun_of(name: str) -> str:
    return next(each.noun for each in models() if type_of(each) == name)


def views_of(model: Model[Any, Any]) -> list[Analysis[Any]]:
    about = type_of(model)
    return [analysis for analysis in analyses() if model_name(analysis) == about]


def analysis_by_id(view_id: str, model: Model[Any, Any] | None = None) -> Analysis[Any]:
    """Returns the view with an id. Raises NotFoundError, also if the view does not accept ``model``."""
    views = analyses() if model is None else views_of(model)
    shown = ", ".join(analysis.id for analysis in views)
    for analysis in analyses():
        if analysis.id == view_id:
            if model is not None and analysis not in views:
                noun = _noun_of(model_name(analysis))
                what = f"The view {analysis.title} needs {noun}, but this profile is {model.noun}."
                raise NotFoundError(what, view_id, f"Available views: {shown}.")
            return analysis
    raise NotFoundError(f"There is no view {view_id}.", view_id, f"Available views: {shown}.")


@lru_cache(maxsize=4)
def _registry(names: tuple[str, ...]) -> Registry:
    modules = extension_modules(names)

    def all_of(ours: Sequence[Any], which: str) -> tuple[Any, ...]:
        items = [*ours, *(item for module in modules for item in getattr(module, which, ()))]
        return _distinct(sorted(items, key=lambda item: getattr(item, "order", inf)), which)

    return Registry(all_of(READERS, "READERS"), all_of(MODELS, "MODELS"), all_of(ANALYSES, "ANALYSES"))


def _distinct(items: Sequence[Any], which: str) -> tuple[Any, ...]:
    ids = [item.id for item in items]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise UserError(f"{which} has {', '.join(twice)} twice.", EXTENSIONS_VARIABLE, "Remove one of the extensions.")
    return tuple(items)


def _named(items: Sequence[Item], wanted: str, what: str) -> Item:
    for item in items:
        if item.id == wanted:
            return item
    raise NotFoundError(f"There is no {what} {wanted}.", wanted, f"Available: {', '.join(item.id for item in items)}.")
