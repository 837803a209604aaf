"""Names that PyTorch gives to parts of a training step."""

from __future__ import annotations

import re

import numpy as np
import pyarrow.compute as pc

from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.table import TraceTable

# Waiting for the next batch.
DATALOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#", re.DOTALL)
# Annotations of an optimizer's step and of clearing gradients.
OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
# The autograd engine runs one backward function (PyTorch before 1.9 writes only the function name).
BACKWARD = re.compile(r"autograd::engine::evaluate_function: |torch::autograd::|\w+Backward\d*$")
_NODE_PREFIXES = ("autograd::engine::evaluate_function: ", "torch::autograd::")
# The backward function that adds a gradient to that of a parameter.
ADDS_GRADIENT = "AccumulateGrad"
# Prefixes of module names in different profilers.
MODULE_PREFIXES = ("nn.Module: ", "[pl][module]")
# Pattern of such a prefix, valid in RE2.
MODULE = "^(" + "|".join(map(re.escape, MODULE_PREFIXES)) + ")"

REGION = "Torch-Compiled Region: "
"""Prefix of the name of a compiled call. The function and compilation numbers follow."""
# The call of a compiled graph, with its cache key.
GRAPH = re.compile(r"^## Call CompiledFxGraph (\S+) ##$")
# A wrapper that stands for a compiled module without naming it.
WRAPPER = re.compile(r"^OptimizedModule(?:_\d+)?$")

DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL = "DataParallel.forward", "DistributedDataParallel.forward"
"""Annotations around the forward pass of a wrapped model."""


def name_matches(trace: TraceTable, pattern: str) -> Bool:
    """Returns, for each event, whether its name contains a match of an RE2 pattern. An empty pattern matches nothing."""
    hits = np.zeros(len(trace.strings) + 1, np.bool_)
    if pattern:
        names = _names(trace)
        hit = pc.match_substring_regex(trace.strings.take(names), pattern)
        hits[names] = pc.fill_null(hit, False).to_numpy(zero_copy_only=False)
    found: Bool = hits[trace.name]
    return found


@cached_by_argument
def _names(trace: TraceTable) -> Int64:
    """Returns the string ids of event names. Event names are only a small part of all strings, which include stacks."""
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[trace.name] = True
    return np.flatnonzero(used[:-1])


def search_pattern(pattern: re.Pattern[str]) -> str:
    """Converts a regex for ``re.match`` to an equivalent RE2 pattern that is searched anywhere in the text."""
    return f"^(?s:{pattern.pattern})"


def module_label(name: str) -> str:
    """Removes the prefix from a module's name."""
    return re.sub(MODULE, "", name)


def backward_label(name: str) -> str:
    """Removes the autograd engine's prefix from the name of a backward function."""
    for prefix in _NODE_PREFIXES:
        name = name.removeprefix(prefix)
    return name
