"""What kernels compute, told alike whatever devices ran them: by the operators around their launch before their own names.

One maker's convolution is one kernel, another's has kernels beside it that lay the data out anew: both are the time of the
convolution that the program called.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analysis.forest import with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.kernel_classes import class_of_operators, classify_kernels
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

BY_OPERATOR = (KernelClass.GEMM, KernelClass.CONVOLUTION, KernelClass.ATTENTION)
"""Classes that an operator gives to all kernels launched in it; of several around a launch the last of these counts."""
_BACKWARD = "(?i)backward|backprop|bwd|grad"
"""What names of backward operators and kernels hold (RE2); also those of the autograd engine's calls."""


PASSES = ("", "forward", "backward")
"""Words for the pass that a kernel belongs to, "" where nothing tells; it is asked of ``BY_OPERATOR`` alone."""


@dataclass(frozen=True, eq=False)
class Families:
    """The class of each of some kernels, and its pass: a position in ``PASSES``."""

    kernel_class: UInt8
    direction: UInt8


def families_of(trace: TraceTable, kernels: Int64) -> Families:
    """Returns the families of kernels that do not communicate (rows).

    An operator around the launch that attends, convolves or multiplies matrices says so first, then the class of the kernel's
    name. Backward is what is launched in an operator of the backward pass, or by none and has a name that says so.
    """
    kernel_class = classify_kernels(trace).of(trace.name[kernels])
    # A few kernels of a name that else communicates: what they do, nobody says.
    kernel_class = np.where(kernel_class == KernelClass.COMMUNICATION, KernelClass.OTHER, kernel_class).astype(np.uint8)
    operator = trace.operator[kernels]
    members, parent = with_ancestors(trace.operator, operator)
    place = np.where(operator == MISSING, MISSING, np.searchsorted(members, operator))
    classes = class_of_operators(trace)[trace.name[members]]

    def inside(chosen: Bool) -> Bool:
        """Whether each kernel was launched in one of the chosen operators."""
        around = inherit(np.where(chosen, 0, MISSING).astype(np.int32), parent)
        found: Bool = np.append(around, MISSING)[place] != MISSING  # the last one answers for -1
        return found

    for each in BY_OPERATOR:
        kernel_class[inside(classes == each)] = each
    says = name_matches(trace, _BACKWARD)
    # Where an operator is known it says so: a forward convolution may run kernels that were named for the gradient.
    backward = np.where(operator == MISSING, says[kernels], inside(says[members] | (trace.forward[members] != MISSING)))
    direction = np.where(backward, 2, (operator != MISSING).astype(np.int64))
    _ask_captures(trace, kernels, kernel_class, direction)
    return Families(kernel_class, np.where(np.isin(kernel_class, BY_OPERATOR), direction, 0).astype(np.uint8))


def _ask_captures(trace: TraceTable, kernels: Int64, kernel_class: UInt8, direction: Int64) -> None:
    """Writes down what the operators of the capture say of replayed kernels, as those around a launch do."""
    origins = origins_of(trace)
    scopes = origins.scopes
    inner = scopes.nearest(EventKind.OPERATOR)[origins.at(kernels)]
    replayed = np.flatnonzero(inner != MISSING)
    if not len(replayed):
        return
    is_operator = scopes.kind == EventKind.OPERATOR
    classes = class_of_operators(trace)[scopes.name]

    def inside(chosen: Bool) -> Bool:
        around = inherit(np.where(chosen, 0, MISSING).astype(np.int32), scopes.parent)
        found: Bool = around[inner[replayed]] != MISSING
        return found

    for each in BY_OPERATOR:
        kernel_class[replayed[inside(is_operator & (classes == each))]] = each
    names, which = np.unique(scopes.name, return_inverse=True)
    says = pc.match_substring_regex(trace.strings.take(names), _BACKWARD).to_numpy(zero_copy_only=False)[which.ravel()]
    direction[replayed] = np.where(inside(is_operator & says | scopes.is_backward), 2, 1)
