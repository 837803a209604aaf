"""Names that PyTorch gives to the parts of a training step, and how they read without their prefix."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.trace.table import TraceTable

DATALOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#", re.DOTALL)
"""Waiting for the next batch."""
OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
"""Annotations around an optimizer's step and around clearing its gradients."""
BACKWARD = re.compile(r"autograd::engine::evaluate_function: |torch::autograd::|\w+Backward\d*$")
"""The autograd engine runs one backward function (PyTorch before 1.9 writes the bare name of the function)."""
_NODE_PREFIXES = ("autograd::engine::evaluate_function: ", "torch::autograd::")
ADDS_GRADIENT = "AccumulateGrad"
"""The backward function that adds what the one before it made to the gradient of a parameter."""
MODULE_PREFIXES = ("nn.Module: ", "[pl][module]")
"""What profilers write before the name of a module."""
MODULE = "^(" + "|".join(map(re.escape, MODULE_PREFIXES)) + ")"
"""Expression of such a prefix, as RE2 has it too."""

REGION = "Torch-Compiled Region: "
"""Prefix of the call of compiled code; what follows is the number of the function and that of its compilation."""
GRAPH = re.compile(r"^## Call CompiledFxGraph (\S+) ##$")
"""The call of a compiled graph, by the key under which it is cached."""
WRAPPER = re.compile(r"^OptimizedModule(?:_\d+)?$")
"""A module that stands for the one that was compiled, without a word of which."""

DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL = "DataParallel.forward", "DistributedDataParallel.forward"
"""Ranges around the forward pass of wrapped models."""


def name_matches(trace: TraceTable, pattern: str) -> npt.NDArray[np.bool_]:
    """Returns which rows have a name in which an expression of RE2 is found; "" is found in none."""
    hits = np.zeros(len(trace.strings) + 1, np.bool_)
    if pattern:
        names = _names(trace)
        hit = pc.match_substring_regex(trace.strings.take(names), pattern)
        hits[names] = pc.fill_null(hit, False).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.bool_] = hits[trace.name]
    return found


@remembered
def _names(trace: TraceTable) -> npt.NDArray[np.int64]:
    """The strings that are names: fewer and shorter than all, which may be stacks."""
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[trace.name] = True
    return np.flatnonzero(used[:-1])


def matched(pattern: re.Pattern[str]) -> str:
    """Returns an expression of RE2 that finds what this one matches from the begin of a text."""
    return f"^(?s:{pattern.pattern})"


def module_label(name: str) -> str:
    """Returns a module's name without the prefix that marks it as one."""
    return re.sub(MODULE, "", name)


def backward_label(name: str) -> str:
    """Returns a backward function's name without what the engine writes before it."""
    for prefix in _NODE_PREFIXES:
        name = name.removeprefix(prefix)
    return name
