"""The path of nn.Modules that is open around what happens on the host, outermost first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Int32 = npt.NDArray[np.int32]

BETWEEN = " > "
_LONGEST = 1000
"""Characters of a path that are kept: its end. Calls may nest thousands deep."""


@dataclass(frozen=True, eq=False)
class ModulePaths:
    """Paths have ``texts`` by number, and their innermost modules ``modules``.

    ``of`` is the number for each operator and module call, and one more for -1: -1 = none is open there.
    """

    of: Int32
    texts: pa.Array
    modules: pa.Array


@remembered
def module_paths(trace: TraceTable) -> ModulePaths:
    """Returns the path of modules around every operator, and that of every module call with itself."""
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    position = places_of(rows, len(trace))
    inner = np.append(inherit(position[:-1], trace.python_parent), np.int32(MISSING))
    above = inner[trace.python_parent[rows]]
    nodes = group(Forest(above).paths(trace.name[rows]))
    first = nodes.first
    parents = above[first]
    modules = [module_label(text) for text in trace.strings.take(trace.name[rows[first]]).to_pylist()]
    texts: list[str] = []
    # A path is first called after the one that it lengthens.
    for module, parent in zip(modules, parents.tolist(), strict=True):
        before = "" if parent == MISSING else texts[nodes.of[parent]] + BETWEEN
        texts.append(before[-_LONGEST:] + module)
    of = np.append(nodes.of, MISSING).astype(np.int32)[inner]
    return ModulePaths(of, pa.array(texts, pa.large_string()), pa.array(modules, pa.large_string()))
