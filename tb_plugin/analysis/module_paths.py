"""Paths of nn.Modules that enclose host events."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.analysis.forest import Forest
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.lib.arrays import Int32
from tb_plugin.lib.groupby import group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

BETWEEN = " > "
# Longer paths keep only their end, because calls may nest thousands deep.
_MAX_PATH_CHARS = 1000


class ModulePaths(msgspec.Struct, frozen=True, eq=False):
    """Module paths, their innermost modules, and the path index of each trace row and of -1 (-1 = none)."""

    of: Int32
    texts: pa.Array
    modules: pa.Array


@cached_by_argument
def module_paths(trace: TraceTable) -> ModulePaths:
    """Returns the module paths of all operators and module calls. The path of a module call includes the module."""
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    position = places_of(rows, len(trace))
    inner = np.append(inherit(position[:-1], trace.python_parent), np.int32(MISSING))
    above = inner[trace.python_parent[rows]]
    nodes = group(Forest(above).paths(trace.name[rows]))
    first = nodes.first
    parents = above[first]
    modules = [module_label(text) for text in trace.strings.take(trace.name[rows[first]]).to_pylist()]
    texts: list[str] = []
    # A path extends the text of its parent path.
    for module, parent in zip(modules, parents.tolist(), strict=True):
        before = "" if parent == MISSING else texts[nodes.of[parent]] + BETWEEN
        texts.append(before[-_MAX_PATH_CHARS:] + module)
    of = np.append(nodes.of, MISSING).astype(np.int32)[inner]
    return ModulePaths(of, pa.array(texts, pa.large_string()), pa.array(modules, pa.large_string()))
