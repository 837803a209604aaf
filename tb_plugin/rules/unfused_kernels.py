"""Series of small kernels that could be fused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.driver_calls import set_up
from tb_plugin.analysis.kernel_classes import CONVOLUTION_LAYOUTS
from tb_plugin.analysis.metrics import LINE
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.range_patterns import name_matches
from tb_plugin.analysis.simulate import Change
from tb_plugin.analysis.work.operator_work import bytes_of
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import group, sequence_hashes, sum_by
from tb_plugin.lib.intervals import subtract
from tb_plugin.model.trace.schema import MISSING, CallRole, EventKind, KernelClass
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Sort
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, optional, percent
from tb_plugin.rules._shapes import largest_inputs
from tb_plugin.rules._streams import member_runs, optimizer_steps, streams
from tb_plugin.rules.device_copies import copies_within
from tb_plugin.rules.unfused_attention import unfused_attention

MIN_OPERATORS = 3
"""Minimum number of operators per series of kernels. Two operators often work on different tensors."""
MAX_KERNELS = 64
"""Maximum number of kernels that torch.compile fuses (torch._inductor.config.max_fusion_size)."""
FUSABLE: Mapping[KernelClass, str] = MappingProxyType(
    {
        KernelClass.NORMALISATION: "norm",
        KernelClass.ELEMENTWISE: "elementwise",
        KernelClass.REDUCTION: "reduction",
        KernelClass.COPY: "copy",
    }
)
"""Kernel classes that a compiler can fuse, each with a word for it in sentences."""
UNFUSIBLE = rf"(?i)sort|scan|top_?k|cum(?:sum|prod)|unique|nonzero|SubTensorOp|splitK|{CONVOLUTION_LAYOUTS}"
"""Regex for kernels that cannot be fused: sorts, counts, and helpers of matmuls and convolutions."""
LISTED = 200
TABLE = "fusible_kernels"
_ARROW = " → "
METRICS = COMMON.in_steps(
    ns={
        "runs_ns": ("Fusible kernels", "Time of kernels in fusible sequences, per step."),
        "fused_ns": ("If fused", "Time of each sequence's longest kernel, summed per step."),
        "run_ns": ("Kernel time", "Kernel time of these sequences over all steps."),
        "run_fused_ns": ("If fused", "Time of each sequence's longest kernel, summed over all steps."),
        "run_saved_ns": ("Difference", "Kernel time minus time if fused."),
    },
    ratio={
        "runs_ratio": ("Fusible kernels", "Fusible kernel time divided by kernel time."),
        "runs_bandwidth_ratio": ("Share of bandwidth", "Bandwidth divided by the peak."),
    },
    bytes={"passed_bytes": ("Intermediate tensors", "Bytes passed to the next kernel.")},
    number={
        "fusible_runs": ("Sequences", "Fusible kernel sequences per step."),
        "run_kernels": ("Kernels in sequences", "Kernels in fusible sequences per step."),
    },
    count={
        "run_count": ("Occurrences", "Occurrences of this sequence over all steps."),
        "run_length": ("Length", "Kernels per sequence."),
    },
    text={"run_classes": ("Classes", "Kernel classes with at least a tenth of the time.")},
    code={
        "fusible_run": ("Kernels", "Consecutive kernels on the stream."),
        "run_line": ("Python line", LINE.format("fusible kernel")),
    },
)


class Runs(msgspec.Struct, frozen=True, eq=False):
    """Kernels that could be fused, grouped into series of consecutive kernels. Sorted by stream and time."""

    row: Int64
    operator: Int64
    """Row of the operator that launched each kernel, -1 = unknown."""
    of: Int64
    """Index of the series that contains each kernel."""

    @property
    def first(self) -> Bool:
        """Returns whether each kernel is the first in its series."""
        return np.append(True, self.of[1:] != self.of[:-1])[: len(self.of)]


def fusible_runs(s: Scene) -> Runs:
    """Returns series of consecutive kernels that could be fused. Each series has kernels of at least
    ``MIN_OPERATORS`` operators.

    A series ends at any other work on the stream, except memsets and copies within the device. A series also ends
    at a new step, and at a launch from another thread, because the backward pass is compiled separately.
    """
    trace, all_of = s.trace, streams(s.trace)
    fusable = np.isin(all_of.kernel_class, list(FUSABLE)) & s.rows[all_of.row]
    excluded = np.zeros(len(trace), np.bool_)
    excluded[optimizer_steps(trace).work] = True
    excluded[unfused_attention(s).rows] = True
    # Operators that also launch a matmul: their small kernels are part of it.
    with_others = np.zeros(len(trace) + 1, np.bool_)
    with_others[all_of.operator[np.isin(all_of.kernel_class, list(FUSABLE), invert=True)]] = True
    with_others[MISSING] = False
    excluded[all_of.row[with_others[all_of.operator]]] = True
    fusable &= ~(excluded | _is_generated(trace) | name_matches(trace, UNFUSIBLE))[all_of.row]
    place = np.flatnonzero(~(copies_within(trace) | (trace.kind == EventKind.MEMSET))[all_of.row])
    row, stream = all_of.row[place], np.cumsum(all_of.first)[place]
    launch = trace.launch[row].astype(np.int64)
    begun = trace.start_ns[np.where(launch == MISSING, row, launch)]
    step = np.where(launch == MISSING, trace.steps.at(begun), trace.steps.at(begun, on_host=True))
    thread = np.append(trace.track, MISSING)[launch]
    ends = np.zeros(len(row), np.bool_)
    for each in (stream, step, thread):
        ends[1:] |= each[1:] != each[:-1]
    begin, end = member_runs(fusable[place], ends)
    length = end - begin
    index = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    place = place[np.repeat(begin, length) + index]
    of = np.cumsum(index % MAX_KERNELS == 0) - 1
    operator = all_of.operator[place]
    is_next = np.append(True, operator[1:] != operator[:-1])[: len(of)] | (operator == MISSING)
    is_next |= np.append(True, of[1:] != of[:-1])[: len(of)]
    long = (np.bincount(of, is_next) >= MIN_OPERATORS)[of]
    of = np.cumsum(np.append(True, np.diff(of[long]) > 0)[: long.sum()]) - 1
    return Runs(all_of.row[place[long]], operator[long], of)


def _is_generated(trace: TraceTable) -> Bool:
    operator = np.append(trace.name, MISSING)[trace.operator]
    found: Bool = name_matches(trace, trace.recorder.compiled.kernel) | (trace.name == operator)
    return found


def _look(s: Scene) -> Detection | None:
    trace, found = s.trace, fusible_runs(s)
    row, of, time = found.row, found.of, trace.dur_ns[found.row]
    total = int(trace.dur_ns[s.kernels].sum())
    if not time.any() or time.sum() < MIN_SHARE * total:
        return None
    longest = np.maximum.reduceat(time, np.flatnonzero(found.first))
    traffic = _traffic(s, found)
    passed, bandwidth = s.per_step(int(traffic.passed.sum())), _bandwidth_ratio(trace, found, traffic)
    line = s.line(row)
    notice = s.notice(
        RULE,
        text=f"{s.per_step_words} {{run_kernels}} kernels ({{run_classes}}) run between matmuls and attention. They "
        f"take {{runs_ns}}, {{runs_ratio}} of the kernel time, in {{fusible_runs}} "
        f"{plural(s.per_step(len(longest)), 'sequence')}"
        + (", mostly at {run_line}." if line else ".")
        + (
            " They reach {runs_bandwidth_ratio} of the memory bandwidth, and pass {passed_bytes} to each other."
            if passed and bandwidth
            else ""
        )
        + " If each sequence took as long as its longest kernel, the total would be {fused_ns}.",
        figures=METRICS.measured(
            run_kernels=s.per_step(len(row)),
            fusible_runs=s.per_step(len(longest)),
            runs_ns=s.per_step(int(time.sum())),
            runs_ratio=int(time.sum()) / total,
            run_classes=_class_words(trace, found),
            fused_ns=s.per_step(int(longest.sum())),
            **optional(line, run_line=line),
            **optional(passed and bandwidth, passed_bytes=passed, runs_bandwidth_ratio=bandwidth),
        ),
        measure="runs_ratio",
        threshold=MIN_SHARE,
        why="Each kernel needs a launch and reads the output of the previous kernel. A fused kernel takes about as long as "
        "the longest kernel of the sequence. Lower bound: only launches are saved, and memory traffic between elementwise "
        "kernels of equal shapes.",
    )
    most = _all_but_longest(of, time)
    launches = np.unique(trace.launch[row[~_last(of)]]).astype(np.int64)
    launches = launches[trace.calls_that(CallRole.LAUNCH)[launches] & (launches != MISSING)]
    around = np.unique(found.operator[~found.first])
    # Driver initialisation and code loading occur once in any run.
    calls = np.unique(trace.launch[row][trace.launch[row] != MISSING]).astype(np.int64)
    once = s.covered_with_profiler(calls[set_up(trace, calls)])
    return Detection(
        notice,
        Bounds(
            Change(subtract(s.covered(launches), once), row, np.minimum(_between(s, found, traffic), most)),
            Change(subtract(s.covered(around[around != MISSING]), once), row, most),
        ),
        s.by_length(row),
        table=_table(trace, found),
    )


def _class_words(trace: TraceTable, found: Runs) -> str:
    """Returns the kernel classes with at least a tenth of the time, such as ``elementwise, copy and norm``."""
    time = sum_by(_classes(trace, found).astype(np.int64), trace.dur_ns[found.row], len(KernelClass))
    largest = [each for each in np.argsort(-time, kind="stable").tolist() if 10 * time[each] >= time.sum()]
    *others, last = [FUSABLE[KernelClass(each)] for each in largest]
    return f"{', '.join(others)} and {last}" if others else last


def _last(of: Int64) -> Bool:
    found: Bool = np.append(of[1:] != of[:-1], True)[: len(of)]
    return found


def _all_but_longest(of: Int64, time: Int64) -> Int64:
    less = time.copy()
    less[np.lexsort((time, of))[_last(of)]] = 0
    return less


class Traffic(msgspec.Struct, frozen=True, eq=False):
    """Memory traffic of fusible kernels, one value per kernel. 0 = unknown."""

    moved: Float64
    """Bytes that the kernel moves."""
    passed: Float64
    """Bytes of a tensor that the previous kernel writes and this kernel reads; 0 = none."""
    numbers: Int64
    inputs: Int64
    size_bytes: Float64
    """Bytes of the largest input; NaN = unknown."""


# Kernels whose output is as large as their largest input.
_KEEPS_SIZE = (KernelClass.ELEMENTWISE, KernelClass.NORMALISATION, KernelClass.COPY)


def _traffic(s: Scene, found: Runs) -> Traffic:
    """Returns the traffic of kernels. A kernel reads what the previous one writes if their tensors have equal sizes."""
    trace, size = s.trace, largest_inputs(s.trace, found.operator)
    operators = group(found.operator)
    time = trace.dur_ns[found.row].astype(np.float64)
    share = time / np.maximum(operators.sum_real(time)[operators.of], 1)
    moved = bytes_of(trace, found.operator[operators.first])[operators.of] * share
    keeps = np.isin(_classes(trace, found), _KEEPS_SIZE)
    reads = np.zeros(len(found.row), np.bool_)
    reads[1:] = (found.of[1:] == found.of[:-1]) & (found.operator[1:] != found.operator[:-1]) & keeps[:-1]
    reads[1:] &= (size.numbers[1:] == size.numbers[:-1]) & (size.numbers[1:] > 0)
    size_bytes = np.where(size.bytes > 0, size.bytes, np.nan)
    return Traffic(moved, np.where(reads, size.bytes, 0).astype(np.float64), size.numbers, size.inputs, size_bytes)


def _bandwidth_ratio(trace: TraceTable, found: Runs, traffic: Traffic) -> float | None:
    """Returns the bandwidth of the kernels with known bytes divided by the peak; None if unknown."""
    known = (traffic.moved > 0) & ~np.isnan(_bandwidth(trace, found))
    possible = (trace.dur_ns[found.row] * _bandwidth(trace, found))[known].sum()
    ratio = float(traffic.moved[known].sum() / possible) if possible else math.nan
    return ratio if ratio <= 1 else None


def _bandwidth(trace: TraceTable, found: Runs) -> Float64:
    """Returns the peak bandwidth of the device of each kernel, in bytes per nanosecond; NaN = unknown."""
    return np.array([*(each.bandwidth or math.nan for each in trace.devices), math.nan])[trace.device[found.row]]


def _between(s: Scene, found: Runs, traffic: Traffic) -> Int64:
    """Returns the time that sequences of at least three kernels spend on passing tensors of equal size.

    This is the part of their time in which they read or write such a tensor, but at most the time at the peak
    bandwidth. The inputs and the output of elementwise kernels take equal times. Other kernels only read the tensor.
    """
    time = s.trace.dur_ns[found.row].astype(np.float64)
    elementwise = _classes(s.trace, found) == KernelClass.ELEMENTWISE
    same = np.zeros(len(found.row), np.bool_)
    same[:-1] = (found.of[1:] == found.of[:-1]) & (traffic.numbers[1:] == traffic.numbers[:-1])
    same[:-1] &= traffic.numbers[1:] > 0
    next_one = same.copy()
    next_one[:-1] &= elementwise[1:] & elementwise[:-1]
    next_one = _of_three(next_one)
    tensors = next_one.astype(np.int64) + np.append(False, next_one[:-1])[: len(next_one)]
    reads = _of_three(np.append(traffic.passed[1:] > 0, False)[: len(same)])
    reads = np.append(False, reads[:-1])[: len(reads)] & (tensors == 0) & (traffic.moved > 0)
    # No fused kernel needs the time that a tensor takes at the peak bandwidth.
    at_peak = traffic.size_bytes / _bandwidth(s.trace, found)
    part = np.where(reads, traffic.passed / np.maximum(traffic.moved, 1), 1 / (traffic.inputs + 1))
    each = np.fmin(at_peak, time * part)
    less: Int64 = (each * np.where(reads, 1, tensors)).astype(np.int64)
    return less


def _of_three(next_one: Bool) -> Bool:
    """Returns ``next_one`` with only those pairs that are next to another pair: two kernels often work on other tensors."""
    before = np.append(False, next_one[:-1])[: len(next_one)]
    after = np.append(next_one[1:], False)[: len(next_one)]
    found: Bool = next_one & (before | after)
    return found


def _classes(trace: TraceTable, found: Runs) -> npt.NDArray[np.uint8]:
    all_of = streams(trace)
    of_row = np.zeros(len(trace), np.uint8)
    of_row[all_of.row] = all_of.kernel_class
    return of_row[found.row]


def _table(trace: TraceTable, found: Runs) -> Frame:
    begin = np.flatnonzero(found.first)
    bounds = np.append(begin, len(found.row))
    time = trace.dur_ns[found.row]
    whole, longest = np.add.reduceat(time, begin), np.maximum.reduceat(time, begin)
    groups = group(sequence_hashes(trace.name[found.row], bounds).view(np.int64))
    saved = groups.sum(whole - longest)
    order = np.lexsort((groups.first, -saved))[:LISTED]
    first = groups.first[order]
    data = {
        "fusible_run": pa.array(
            [_names(trace, found.row[bounds[i] : bounds[i + 1]]) for i in first], pa.large_string()
        ),
        "run_count": pa.array(groups.count()[order]),
        "run_length": pa.array(np.diff(bounds)[first]),
        "run_ns": pa.array(groups.sum(whole)[order]),
        "run_fused_ns": pa.array(groups.sum(longest)[order]),
        "run_saved_ns": pa.array(saved[order]),
    }
    columns = METRICS.columns(*data, share=("run_ns", "run_saved_ns"))
    key = ("fusible_run",)
    return Frame(
        TABLE, "Fusible kernel sequences", columns, pa.table(data), key, "fusible_run", Sort("run_saved_ns", True)
    )


def _names(trace: TraceTable, rows: Int64) -> str:
    names = trace.strings.take(trace.name[rows]).to_pylist()
    from tb_plugin.analysis.demangle import readable_names

    return _ARROW.join(str(better or name) for name, better in zip(names, readable_names(names), strict=True))


RULE = Rule(
    __name__,
    title="Fusible kernels",
    look=_look,
    order=320,
    detects="A compiler could fuse consecutive kernels.",
    threshold=f"Such sequences take at least {percent(MIN_SHARE)} of the kernel time.",
    saving="Upper bound: the time of all kernels of a sequence except the longest, and of all operators except the first. "
    "Lower bound: the launches of all kernels except the last. If shapes are recorded, the lower bound includes memory "
    "traffic between three or more kernels of equal size.",
    notes="""
        A sequence consists of elementwise kernels, norms, reductions and copies on one stream, in any order. Its
        kernels come from at least 3 operators. A sequence has at most 64 kernels, the fusion limit of `torch.compile`
        (`max_fusion_size`). Any other kernel ends a sequence. A copy to or from the CPU, a new step, and a launch from
        another thread also end a sequence. Memsets and copies within the GPU neither end a sequence nor count as its
        kernels.

        Some small kernels also end a sequence: kernels of optimizers, unfused attention and compilers, and sorts and
        scans. Helper kernels that an operator launches together with a matmul also end a sequence.

        For memory traffic between elementwise kernels, a kernel's time is divided by its number of inputs plus one output.
        Other kernels only read the tensor of the previous kernel. A tensor counts at most its time at the peak
        bandwidth, if this is known. The longest kernel is excluded. The trace does not record data dependencies
        between kernels: a kernel reads the tensor of the previous one if their largest tensors have equal sizes. The
        bytes are those of the tab Roofline. The table of the finding groups equal
        sequences, and shows the count, time and fused time of each group.
    """,
    limits=(Limit.GPU,),
)
