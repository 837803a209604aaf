"""Kernel families that are comparable across devices.

An operator around the launch takes precedence over the kernel name. For example, a convolution may run one kernel
on one device, and several kernels on another device. All kernels of a convolution belong to the family convolution.
"""

from __future__ import annotations

import msgspec
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
"""If an operator has one of these classes, all kernels that it launches have that class too.

If such operators are nested, the class that is last in this tuple is used.
"""
# Names of backward operators, kernels and autograd calls (RE2).
_BACKWARD_NAMES = "(?i)backward|backprop|bwd|grad"


PASSES = ("", "forward", "backward")
"""Passes of a kernel. "" = unknown; always used for classes that are not in ``BY_OPERATOR``."""


class Families(msgspec.Struct, frozen=True, eq=False):
    """Class and pass of each kernel. The pass is an index into ``PASSES``."""

    kernel_class: UInt8
    direction: UInt8


def families_of(trace: TraceTable, kernels: Int64) -> Families:
    """Returns the families of ``kernels``, which must not contain communication kernels.

    The class comes from an enclosing attention, convolution or GEMM operator, otherwise from the kernel name. The
    pass is backward if an enclosing operator is backward. Without operators, the kernel name decides.
    """
    kernel_class = classify_kernels(trace).of(trace.name[kernels])
    # The kernel has the name of a communication kernel but does not communicate, so its class is unknown.
    kernel_class = np.where(kernel_class == KernelClass.COMMUNICATION, KernelClass.OTHER, kernel_class).astype(np.uint8)
    operator = trace.operator[kernels]
    members, parent = with_ancestors(trace.operator, operator)
    place = np.where(operator == MISSING, MISSING, np.searchsorted(members, operator))
    classes = class_of_operators(trace)[trace.name[members]]

    def inside(chosen: Bool) -> Bool:
        around = inherit(np.where(chosen, 0, MISSING).astype(np.int32), parent)
        found: Bool = np.append(around, MISSING)[place] != MISSING  # the last entry is for -1
        return found

    for each in BY_OPERATOR:
        kernel_class[inside(classes == each)] = each
    says = name_matches(trace, _BACKWARD_NAMES)
    # A known operator takes precedence: a forward convolution may run kernels named for gradients.
    backward = np.where(operator == MISSING, says[kernels], inside(says[members] | (trace.forward[members] != MISSING)))
    direction = np.where(backward, 2, (operator != MISSING).astype(np.int64))
    _use_capture_operators(trace, kernels, kernel_class, direction)
    return Families(kernel_class, np.where(np.isin(kernel_class, BY_OPERATOR), direction, 0).astype(np.uint8))


def _use_capture_operators(trace: TraceTable, kernels: Int64, kernel_class: UInt8, direction: Int64) -> None:
    """Sets class and pass of replayed kernels, in place, to class and pass of the operators in the graph capture."""
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
    says = pc.match_substring_regex(trace.strings.take(names), _BACKWARD_NAMES).to_numpy(zero_copy_only=False)[
        which.ravel()
    ]
    direction[replayed] = np.where(inside(is_operator & says | scopes.is_backward), 2, 1)
