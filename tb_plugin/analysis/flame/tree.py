"""Trees of flame graphs for responses, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.flame.nodes import FlameGraph
from tb_plugin.analysis.metrics import Metrics
from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.payloads import Scalar, Tree

Value = TypeVar("Value")
_KINDS = {EventKind.RUNTIME: "device runtime", EventKind.MODULE: "nn.Module", EventKind.ANNOTATION: "named range"}


class Terms(msgspec.Struct, frozen=True):
    """The numbers to show, with their metric keys. ``weight`` ("host" or "device") is the number to sort by."""

    metrics: Metrics
    weight: str = "host"
    has_device: bool = False
    has_kinds: bool = True
    """Whether the kinds of frames are known, such as Python calls and operators."""
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Metric keys that replace those of a trace. If a key is empty, its number is hidden."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Returns the columns that are sent but not shown."""
        return () if self.has_kinds else ("node_kind",)

    def key(self, number: str) -> str:
        return self.keys.get(number, number)

    def metric_values(self, numbers: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the numbers to show, by metric key."""
        shown = (number for number in numbers if (self.has_device or "device" not in number) and self.key(number))
        return {self.key(number): numbers[number] for number in shown}


def packages_of(names: list[str], kinds: list[int]) -> list[tuple[str, bool]]:
    """Returns, for each frame, the package, and whether the package is framework code."""
    known: dict[str, tuple[str, bool]] = {}
    found = []
    for name, kind in zip(names, kinds, strict=True):
        if kind == EventKind.PYTHON:
            found.append(known.get(name) or known.setdefault(name, package_of(name)))
        elif kind == EventKind.OPERATOR:
            found.append((name.partition("::")[0] if "::" in name else "operator", True))
        else:
            found.append((_KINDS.get(EventKind(kind), ""), kind == EventKind.RUNTIME))
    return found


def tree_of_graph(
    graph: FlameGraph, terms: Terms, name: str = "stacks", title: str = "Stacks", hidden: tuple[str, ...] = ()
) -> Tree:
    data = {
        "calls": graph.calls,
        "host_ns": graph.host_total_ns,
        "host_own_ns": graph.host_ns,
        "device_ns": graph.device_total_ns,
        "device_own_ns": graph.device_ns,
    }
    value = f"{terms.weight}_ns"
    return tree_of(terms, name, title, graph.name, graph.kind, graph.parent, data, value, graph.matches, hidden=hidden)


def tree_of(
    terms: Terms,
    name: str,
    title: str,
    names: list[str],
    kind: Int64,
    parent: npt.NDArray[np.integer],
    data: dict[str, Int64],
    value: str,
    found: int,
    *,
    hidden: tuple[str, ...] = (),
    packages: Sequence[tuple[str, bool]] | None = None,
) -> Tree:
    """Returns a tree for the response. ``value`` is the width of a node; ``hidden`` columns are sent but not displayed."""
    numbers = {key: values.tolist() for key, values in terms.metric_values(data).items()}
    kinds = kind.tolist()
    packages = packages_of(names, kinds) if packages is None else packages
    rows: list[dict[str, Scalar]] = [
        {
            "name": text,
            "node_kind": EventKind(kinds[i]).name.lower(),
            "package": packages[i][0],
            "framework": packages[i][1],
            **{key: values[i] for key, values in numbers.items()},
        }
        for i, text in enumerate(names)
    ]
    hidden = ("package", "framework", *terms.hidden, *map(terms.key, hidden))
    columns = terms.metrics.columns("name", "node_kind", "package", "framework", *numbers, hidden=hidden)
    return Tree(name, title, columns, parent.tolist(), rows, "name", [terms.key(value)], found)
