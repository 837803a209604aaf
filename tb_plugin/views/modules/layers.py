"""Equal modules under one parent as one node."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Float64, Int64
from tb_plugin.lib.groupby import sum_by
from tb_plugin.model.trace.schema import MISSING

MIN_LAYERS = 3
# `Linear_3` of PyTorch, `blocks.0.fc (Linear)` of tb_plugin.annotate, `torch.nn.Linear: blocks.0.fc` of Lightning.
_CLASS = re.compile(
    r"(?:\S+ \((?!recomputed\))(?P<last>[^()]+)\)|(?:[\w.]+\.)?(?P<first>\w+): \S+|(?P<numbered>.+?)_\d+)"
    r"(?P<again> \(recomputed\))?"
)


def class_of(label: str) -> str | None:
    """Returns the class of a module from its label, None if the label does not name one."""
    found = _CLASS.fullmatch(label)
    return found and f"{found['last'] or found['first'] or found['numbered']}{found['again'] or ''}"


class Layers(msgspec.Struct, frozen=True, eq=False):
    """Nodes that stand for at least ``MIN_LAYERS`` siblings of one class. They follow the nodes of the tree."""

    names: list[str]
    count: Int64
    of: Int64
    """Index of the layer node of each node of the tree (-1 = none)."""
    parent: Int64
    """Parents of all nodes: of the tree, then of the layers."""

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: Int64) -> Int64:
        """Returns the values of the nodes of the tree, followed by the sums of the layers."""
        inside = self.of != MISSING
        return np.concatenate((values, sum_by(self.of[inside], values[inside], len(self))))

    def real_sums(self, values: Float64) -> Float64:
        """Returns ``sums`` of real numbers."""
        inside = self.of != MISSING
        return np.concatenate((values, np.bincount(self.of[inside], values[inside], len(self))))

    def spread(self, values: Int64) -> tuple[Float64, Float64]:
        """Returns the mean over the layers of each layer node, and longest minus shortest divided by this mean."""
        inside = np.flatnonzero(self.of != MISSING)
        most, least = np.zeros(len(self), np.int64), np.full(len(self), np.iinfo(np.int64).max)
        np.maximum.at(most, self.of[inside], values[inside])
        np.minimum.at(least, self.of[inside], values[inside])
        mean = sum_by(self.of[inside], values[inside], len(self)) / np.maximum(self.count, 1)
        return mean, (most - least) / np.maximum(mean, 1)


def layers_of(labels: list[str], parent: Int64) -> Layers:
    """Groups siblings with labels of one class. ``labels`` has the first nodes; the others stay as they are."""
    members: dict[tuple[int, str], list[int]] = {}
    for node, (label, above) in enumerate(zip(labels, parent.tolist(), strict=False)):
        if name := class_of(label):
            members.setdefault((above, name), []).append(node)
    groups = [(above, name, nodes) for (above, name), nodes in members.items() if len(nodes) >= MIN_LAYERS]
    of = np.full(len(parent), MISSING, np.int64)
    above = parent.copy()
    for place, (_, _, nodes) in enumerate(groups):
        of[nodes], above[nodes] = place, len(parent) + place
    return Layers(
        names=[f"{name} × {len(nodes)}" for _, name, nodes in groups],
        count=np.array([len(nodes) for _, _, nodes in groups], np.int64),
        of=of,
        parent=np.concatenate((above, np.array([each for each, _, _ in groups], np.int64))),
    )
