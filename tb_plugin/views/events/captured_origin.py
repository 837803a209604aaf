"""Captured operator, shapes, modules and stack of replayed work."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.graphs.attribution import WAYS
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.metrics import SHARED, define
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figure, Figures

ORIGIN = define(
    "",
    "text",
    {
        "known_by": ("Known by", "Source that matches the replayed work with its capture."),
        "input_types": ("Input types", "Element types of the operator's inputs (record_shapes=True)."),
    },
)


class Origin:
    """Captured scopes that enclose the launch of a replayed row."""

    def __init__(self, trace: TraceTable, row: int) -> None:
        self._trace = trace
        self._scopes = origins_of(trace).scopes
        around, at = [], int(origins_of(trace).at(np.array([row]))[0])
        while at != MISSING:
            around.append(at)
            at = int(self._scopes.parent[at])
        self._around = around
        place = int(np.searchsorted(origins_of(trace).work, row))
        self._way = Way(int(origins_of(trace).way[place])) if around else Way.GRAPH

    def __bool__(self) -> bool:
        return bool(self._around)

    def figures(self) -> Figures:
        """Returns the innermost operator, its inputs, and how the operator was matched."""
        figures: list[Figure] = []
        operators = self._of(EventKind.OPERATOR)
        if operators:
            figures.append(SHARED.figure("operator", self._name(operators[0])))
            texts = {"shapes": SHARED["input_shape"], "types": ORIGIN["input_types"]}
            ids = {key: int(getattr(self._scopes, key)[operators[0]]) for key in texts}
            figures += [Figure(texts[key], self._trace.strings[i]) for key, i in ids.items() if i != MISSING]
        title, what = WAYS[self._way]
        figures.append(Figure(ORIGIN["known_by"], title.lower(), what))
        return Figures("origin", "Origin", "captured operator", figures)

    def modules(self) -> str:
        """Returns the enclosing modules, outermost first, separated by ``;``."""
        found = self._of(EventKind.MODULE)
        forward = [int(self._scopes.forward[at]) for at in self._of(EventKind.OPERATOR)[:1]]
        if not found and forward and forward[0] != MISSING:
            at = forward[0]
            while at != MISSING:
                found += [at] if self._scopes.kind[at] == EventKind.MODULE else []
                at = int(self._scopes.parent[at])
        return ";".join(module_label(self._name(at)) for at in found[::-1])

    def stack(self) -> str:
        """Returns the call stack, innermost frame first: as recorded, else the enclosing Python calls."""
        for at in self._of(EventKind.OPERATOR):
            if self._scopes.stack[at] != MISSING:
                return self._trace.strings[int(self._scopes.stack[at])]
        return ";".join(self._name(at) for at in self._of(EventKind.PYTHON, EventKind.MODULE))

    def _of(self, *kinds: EventKind) -> list[int]:
        return [at for at in self._around if self._scopes.kind[at] in kinds]

    def _name(self, at: int) -> str:
        return self._trace.strings[int(self._scopes.name[at])]
