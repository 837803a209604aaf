"""Paths of nn.Modules that enclose host events."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

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
    """Module paths, their innermost modules, and the path index of each row or call, and of -1 (-1 = none)."""

    of: Int32
    texts: pa.Array
    modules: pa.Array


@cached_by_argument
def module_paths(trace: TraceTable) -> ModulePaths:
    """Returns the module paths of all operators and module calls. The path of a module call includes the module."""
    rows = np.flatnonzero(trace.kind == EventKind.MODULE)
    position = places_of(rows, len(trace))
    inner = np.append(inherit(position[:-1], trace.python_parent), np.int32(MISSING))
    found = paths_of_calls(trace, trace.name[rows], inner[trace.python_parent[rows]])
    return replace(found, of=found.of[inner])


def paths_of_calls(trace: TraceTable, name: Int32, parent: Int32) -> ModulePaths:
    """Returns the paths of module calls with these names (string ids) and enclosing calls."""
    nodes = group(Forest(parent).paths(name))
    first = nodes.first
    parents = parent[first]
    modules = [module_label(text) for text in trace.strings.take(name[first]).to_pylist()]
    texts: list[str] = []
    # A path extends the text of its parent path.
    for module, above in zip(modules, parents.tolist(), strict=True):
        before = "" if above == MISSING else texts[nodes.of[above]] + BETWEEN
        texts.append(before[-_MAX_PATH_CHARS:] + module)
    of = np.append(nodes.of, MISSING).astype(np.int32)
    return ModulePaths(of, pa.array(texts, pa.large_string()), pa.array(modules, pa.large_string()))
