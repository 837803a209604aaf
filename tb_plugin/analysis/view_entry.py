"""Declaration of a view, without importing its code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

from tb_plugin.analysis.base import (
    NO_BORROWED_NUMBERS,
    Analysis,
    Joining,
    Missing,
    Params,
    Part,
    Scope,
    Traits,
    answer_view,
)
from tb_plugin.lib.lazy import load_class, name_of
from tb_plugin.payloads import Table, View

# Class names of the models (``lib/lazy.py``).
TRACE = "tb_plugin.model.trace.table:TraceTable"
SNAPSHOT = "tb_plugin.model.snapshot.table:Snapshot"
CATEGORY_MEMORY = "tb_plugin.model.category_memory:CategoryMemory"
FLIGHT = "tb_plugin.model.flight_recorder:Flight"
STACK_PROFILE = "tb_plugin.model.stack_profile:StackProfile"
EXECUTION_TRACE = "tb_plugin.model.execution_trace:ExecutionTrace"
CLUSTER = "tb_plugin.model.cluster:Cluster"


class ViewText(NamedTuple):
    """Markdown texts about a view for docs/reference/http.md, for those parts that cannot be generated from code."""

    parameters: str = ""
    payloads: str = ""
    tables: str = ""


NO_TEXT = ViewText()


def _applies(model: Any) -> Missing | None:
    return None


def missing_steps(trace: Any) -> Missing | None:
    """Returns why a view of the work in the steps of a trace does not apply; None if it does."""
    from tb_plugin.model.trace.schema import EventKind, of_kind

    if not of_kind(trace.kind, EventKind.OPERATOR, EventKind.KERNEL).any():
        return Missing("The trace contains no operators and no kernels.", trace.recorder.todo("view.operators"))
    if not len(trace.steps.label):
        return Missing("The trace has no steps.", trace.recorder.todo("steps_missing"))
    return None


class ViewEntry:
    """Declaration of a view: ``VIEW = ViewEntry(__name__, ...)`` in ``views/<id>/__init__.py``.

    The entry implements ``Analysis``. On first use, it imports the class in ``views/<id>/view.py``. ``order`` is
    the position of the view in the navigation. ``model`` is the class name of the view's model. By default,
    ``missing`` returns None, and the view applies to all profiles. ``http`` contains the documentation of the view.
    """

    def __init__(
        self,
        module: str,
        id: str,
        title: str,
        *,
        order: int,
        model: str,
        traits: Traits,
        scope: Scope = "profile",
        borrows: Mapping[str, Sequence[str]] = NO_BORROWED_NUMBERS,
        missing: Callable[[Any], Missing | None] = _applies,
        http: ViewText = NO_TEXT,
    ) -> None:
        self.id = id
        self.title = title
        self.order = order
        self.model_name = model
        self.traits = traits
        self.scope: Scope = scope
        self.borrows = borrows
        self.missing = missing
        self.http = http
        # The class of the view, once defined.
        self.implementation: type[Any] | None = None
        self._module = module

    @property
    def model(self) -> type[Any]:
        return load_class(self.model_name)

    @cached_property
    def view(self) -> Analysis[Any]:
        """Imports the view's code on first use, and returns the view."""
        if self.implementation is None:
            import_module(f"{self._module}.view")
        assert self.implementation is not None
        made: Analysis[Any] = self.implementation()
        return made

    def part_key(self, params: Params) -> tuple[object, ...]:
        return self.view.part_key(params)

    def part(self, model: Any, params: Params, /) -> Part:
        return self.view.part(model, params)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return self.view.answer(parts, params)


class DeclaredView:
    """Base class of views, with the declared properties: ``class Kernels(DeclaredView, entry=VIEW)``."""

    entry: ViewEntry
    id: str
    title: str
    traits: Traits
    scope: Scope
    borrows: Mapping[str, Sequence[str]]
    selects: Literal["", "steps", "events"] = ""
    """Whether parts depend on the selected steps, or also on the phase ("events"), unless ``part_key`` is defined."""
    own: tuple[str, ...] = ()
    """Other parameters that the parts depend on, unless ``part_key`` is defined."""

    def __init_subclass__(cls, entry: ViewEntry, **others: Any) -> None:
        super().__init_subclass__(**others)
        entry.implementation = cls
        cls.entry = entry
        cls.id, cls.title, cls.traits = entry.id, entry.title, entry.traits
        cls.scope, cls.borrows = entry.scope, entry.borrows

    @property
    def model(self) -> type[Any]:
        return self.entry.model

    def missing(self, model: Any, /) -> Missing | None:
        return self.entry.missing(model)

    def part_key(self, params: Params) -> tuple[object, ...]:
        chosen = {"": (), "steps": (params.steps,), "events": params.chosen}[self.selects]
        return (*chosen, *(params.values(key) for key in self.own))

    def answer(self: Analysis[Any], parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the answer for one profile. Views of several profiles override this method."""
        return answer_view(self, parts[0], params)


def model_name(analysis: Analysis[Any]) -> str:
    """Returns the class name of a view's model. The class is not imported."""
    return analysis.model_name if isinstance(analysis, ViewEntry) else name_of(analysis.model)


def joining(analysis: Analysis[Any]) -> Joining | None:
    """Returns the view if it merges the parts of all workers, None otherwise."""
    view = analysis.view if isinstance(analysis, ViewEntry) else analysis
    return view if isinstance(view, Joining) else None
