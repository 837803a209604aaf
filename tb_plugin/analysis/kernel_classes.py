"""Kernel classes by kernel name, with the reason and the kernel time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import msgspec
import numpy as np

from tb_plugin.analysis.forest import with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.replays import has_replays
from tb_plugin.lib.arrays import Int32, Int64, UInt8
from tb_plugin.lib.groupby import Whole, group, places_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING, EventKind, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Link, Metric, Slice

TITLES: Mapping[KernelClass, str] = MappingProxyType(
    {
        KernelClass.GEMM: "GEMM",
        KernelClass.CONVOLUTION: "Convolution",
        KernelClass.ATTENTION: "Attention",
        KernelClass.NORMALISATION: "Normalization",
        KernelClass.ELEMENTWISE: "Elementwise",
        KernelClass.REDUCTION: "Reduction",
        KernelClass.EMBEDDING: "Embedding",
        KernelClass.MOE: "MoE",
        KernelClass.OPTIMIZER: "Optimizer",
        KernelClass.COPY: "Copy",
        KernelClass.COMMUNICATION: "Communication",
        KernelClass.OTHER: "Other",
    }
)
WHAT: Mapping[KernelClass, str] = MappingProxyType(
    {
        KernelClass.GEMM: "Matrix multiplications.",
        KernelClass.CONVOLUTION: "Convolutions, forward and backward.",
        KernelClass.ATTENTION: "Fused attention, including its caches.",
        KernelClass.NORMALISATION: "Norms and softmax.",
        KernelClass.ELEMENTWISE: "Elementwise operations, fused or not.",
        KernelClass.REDUCTION: "Sums, maxima, losses, pooling, sorting and scans.",
        KernelClass.EMBEDDING: "Embedding lookups and their gradients.",
        KernelClass.MOE: "Expert routing and expert matrix products.",
        KernelClass.OPTIMIZER: "Fused optimizer steps.",
        KernelClass.COPY: "Kernels that copy, fill or cast tensors, or change their layout.",
        KernelClass.COMMUNICATION: "Data exchange with other devices.",
        KernelClass.OTHER: "Unknown kernels.",
    }
)
CONVOLUTION_LAYOUTS = r"(?i)nchw_?(?:to|2)_?nhwc|nhwc_?(?:to|2)_?nchw|transpose_(?:cnhw|nchw)|batched_transpose_"
"""Regex for kernels of convolution libraries (cuDNN, MIOpen) that change the layout of tensors; a line of the table."""
_UNKNOWN = 255


class Because(IntEnum):
    """Source of the class of a kernel name."""

    NOTHING = 0
    COMMUNICATES = 1
    RULE = 2
    OPERATOR = 3


_REASONS: Mapping[int, str] = MappingProxyType(
    {
        Because.NOTHING: "no rule matches the kernel name or an operator around the launch",
        Because.COMMUNICATES: "communication kernel, according to its name, its arguments or the operator that launched it",
        Because.RULE: "kernel name matches {}",
        Because.OPERATOR: "launched by {}",
    }
)


class KernelClasses(msgspec.Struct, frozen=True, eq=False):
    """Class of each kernel name (string ids, ascending), and the reason for this class."""

    name: Int32
    kernel_class: UInt8
    because: UInt8
    by: Int32
    """String id of the rule, or of the operator, that determined the class (-1 = neither)."""

    def of(self, names: Whole) -> UInt8:
        found: UInt8 = self.kernel_class[np.searchsorted(self.name, names)]
        return found

    def reasons(self, trace: TraceTable, names: Whole) -> list[str]:
        """Returns, for each kernel name, a text that explains why it has its class."""
        places = np.searchsorted(self.name, names)
        by = zip(self.because[places].tolist(), self.by[places].tolist(), strict=True)
        return [_REASONS[because].format(trace.strings[string]) for because, string in by]


def word_of(kernel_class: int) -> str:
    """Returns the key of a kernel class in rules, tables and responses."""
    return KernelClass(kernel_class).name.lower()


def title_of(kernel_class: int) -> str:
    """Returns the name of a kernel class on the page."""
    return TITLES[KernelClass(kernel_class)]


@cached_by_argument
def classify_kernels(trace: TraceTable) -> KernelClasses:
    """Returns the class of each kernel name.

    The class is determined by the first of the following that applies: user rule, communication, built-in rule,
    launching operator, other. A name is communication only if all kernels with this name communicate. If launches
    of kernels with the same name lead to different classes, the class with the most kernel time is used.
    """
    rows = np.flatnonzero(trace.kind == EventKind.KERNEL)
    names = np.unique(trace.name[rows])
    place = np.searchsorted(names, trace.name[rows])
    communicates = np.bincount(place[~trace.is_collective[rows]], minlength=len(names)) == 0
    classes, of_kernels = trace.classes, np.flatnonzero(~trace.classes.of_operator)
    rule = places_of(classes.name[of_kernels], len(trace.strings) + 1)[names]
    ruled = rule != MISSING
    rule = of_kernels[rule[ruled]]
    own = np.zeros(len(names), np.bool_)
    own[ruled] = classes.is_own[rule]
    found = KernelClasses(
        names.astype(np.int32),
        np.full(len(names), KernelClass.OTHER, np.uint8),
        np.full(len(names), Because.NOTHING, np.uint8),
        np.full(len(names), MISSING, np.int32),
    )
    _ask_operators(trace, rows[~ruled[place]], found)
    found.kernel_class[ruled], found.by[ruled] = classes.kernel_class[rule], classes.rule[rule]
    found.because[ruled] = Because.RULE
    communicates &= ~own
    found.kernel_class[communicates], found.by[communicates] = KernelClass.COMMUNICATION, MISSING
    found.because[communicates] = Because.COMMUNICATES
    return found


def _ask_operators(trace: TraceTable, rows: Int64, found: KernelClasses) -> None:
    """Sets the class of kernel names in ``found`` by the operator that launches most of their time, and stores it."""
    known = _nearest_known(trace, rows)
    rows, known = rows[known != MISSING], known[known != MISSING]
    if not len(rows):
        return
    kernel_class = class_of_operators(trace)[known]
    weight = trace.dur_ns[rows] + 1  # kernels of 0 ns count too
    of_class = group(trace.name[rows], kernel_class)
    of_operator = group(of_class.of, known)
    first = of_operator.first
    class_time = of_class.sum(weight)[of_class.of[first]]
    # Sorted ascending, so that the class with the most time is written last for each name.
    first = first[np.lexsort((known[first], of_operator.sum(weight), kernel_class[first], class_time))]
    places = np.searchsorted(found.name, trace.name[rows[first]])
    found.kernel_class[places], found.by[places] = kernel_class[first], known[first]
    found.because[places] = Because.OPERATOR


def class_of_operators(trace: TraceTable) -> UInt8:
    """Returns the class of the kernels that operators launch, by string id of the name; 255 = no rule."""
    table = np.full(len(trace.strings) + 1, _UNKNOWN, np.uint8)
    chosen = trace.classes.of_operator
    table[trace.classes.name[chosen]] = trace.classes.kernel_class[chosen]
    return table


def _nearest_known(trace: TraceTable, rows: Int64) -> Int32:
    """Returns the name of the nearest enclosing operator with a rule for each launch (-1 = none)."""
    found = np.full(len(rows), MISSING, np.int32)
    launched = np.flatnonzero(trace.operator[rows] != MISSING)
    operators = trace.operator[rows[launched]]
    members, parent = with_ancestors(trace.operator, operators)
    found[launched] = _known_names(trace, trace.name[members], parent)[np.searchsorted(members, operators)]
    if has_replays(trace):
        origins = origins_of(trace)
        scopes = origins.scopes
        names = np.where(scopes.kind == EventKind.OPERATOR, scopes.name, MISSING)
        known_name = np.append(_known_names(trace, names, scopes.parent), np.int32(MISSING))[origins.at(rows)]
        found = np.where(known_name == MISSING, found, known_name)
    return found


def _known_names(trace: TraceTable, names: Int32, parent: Int32) -> Int32:
    """Returns each operator's name if a rule matches it, else that of the nearest enclosing one (-1 = none)."""
    known = class_of_operators(trace)[names] != _UNKNOWN
    return inherit(np.where(known, names, MISSING).astype(np.int32), parent)


def class_time(trace: TraceTable, kernels: Int64) -> dict[KernelClass, int]:
    """Returns the summed kernel time by class."""
    classes = classify_kernels(trace).of(trace.name[kernels])
    totals = np.zeros(len(KernelClass), np.int64)
    np.add.at(totals, classes, trace.dur_ns[kernels])
    return {each: int(totals[each]) for each in TITLES}


def class_slices(times: Mapping[KernelClass, int], metric: Metric, view: str) -> list[Slice]:
    """Returns chart slices that link to the kernels in ``view``: largest first, ``other`` last."""
    order = sorted(times, key=lambda each: (each == KernelClass.OTHER, -times[each]))
    return [
        Slice(
            Metric(word_of(each), TITLES[each], metric.unit, f"{WHAT[each]} {metric.definition}", metric.window),
            word_of(each),
            times[each],
            Link(view, {"where": f"class:{word_of(each)}"}, TITLES[each]),
        )
        for each in order
        if times[each]
    ]
