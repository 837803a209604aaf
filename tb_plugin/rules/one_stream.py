"""Serial modules whose kernels fill only part of a device."""

from __future__ import annotations

import re

import numpy as np

from tb_plugin.analysis.hardware_streams import hardware_streams
from tb_plugin.analysis.module_paths import module_paths
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene, percent

FILLED = 0.5
"""Maximum number of blocks per multiprocessor. Two kernels with so few blocks fit on a device at the same time."""
LONG_NS = 20_000
"""Minimum duration of kernels that could overlap, in nanoseconds. Synchronising two streams takes about as long."""
OVERLAP_SHARE = 0.02
"""Minimum share of the saving in the steps. Smaller shares are within step-to-step noise."""

METRICS = COMMON.in_steps(
    ns={
        "part_filled_ns": (
            "Partly filled",
            "Kernel time of neighboring modules that use at most half of the multiprocessors, per step.",
        ),
        "could_overlap_ns": ("Could overlap", "Shorter of the partly filled times of two neighboring modules."),
    }
).defining({("", "code"): {"neighbours": ("Modules", "Neighboring modules that could overlap for the most time.")}})


_INSTANCE = re.compile(r"_\d+$")


def _look(s: Scene) -> Detection | None:
    trace = s.trace
    rows = _alone(trace, _part_filled(s))
    if 2 * s.per_step(int(trace.dur_ns[rows].sum())) <= OVERLAP_SHARE * s.step_ns or not len(rows):
        return None
    paths = module_paths(trace)
    module = paths.of[trace.operator[rows]].astype(np.int64)
    # A stretch is a sequence of kernels of one module without other device work between them.
    place = np.searchsorted(_work(trace, rows), trace.start_ns[rows])
    fresh = (module[1:] != module[:-1]) | (place[1:] != place[:-1] + 1) | (module[1:] == MISSING)
    stretch = np.cumsum(np.append(True, fresh)[: len(rows)]) - 1
    parts = group(stretch)
    took, begin = parts.sum(trace.dur_ns[rows]), parts.first
    last = np.append(begin[1:], len(rows)) - 1
    names = np.append(paths.modules.to_numpy(zero_copy_only=False), "")[module[begin]]
    kind = _kinds(paths.texts.to_pylist())[module[begin]]
    follows = (place[begin[1:]] == place[last[:-1]] + 1) & (kind[1:] == kind[:-1]) & (kind[1:] != MISSING)
    follows &= module[begin[1:]] != module[begin[:-1]]
    pairs = _apart(np.flatnonzero(follows))
    could = np.minimum(took[pairs], took[pairs + 1])
    share = s.per_step(int(could.sum())) / s.step_ns if s.step_ns else 0.0
    if share <= OVERLAP_SHARE:
        return None
    shown = np.isin(stretch, np.concatenate((pairs, pairs + 1)))
    both = sorted(
        {(-int(c), f"{names[p]}, {names[p + 1]}") for c, p in zip(could.tolist(), pairs.tolist(), strict=True)}
    )
    notice = s.notice(
        RULE,
        severity="info",
        text="Kernels of modules such as {neighbours} use at most half of the device, for {part_filled_ns} per step. They "
        "run one after another on one stream. If these modules are independent, {could_overlap_ns} could overlap.",
        figures=METRICS.measured(
            neighbours=both[0][1],
            part_filled_ns=s.per_step(int(trace.dur_ns[rows[shown]].sum())),
            could_overlap_ns=s.per_step(int(could.sum())),
        ),
        why="A stream runs kernels one by one, and a kernel with few blocks leaves most of the device idle. Dependent "
        "modules cannot overlap, and the trace does not record dependencies.",
        confidence="low",
    )
    return Detection(notice, NO_SAVING, s.by_length(rows[shown]))


def _part_filled(s: Scene) -> Int64:
    """Returns the rows of long kernels in the steps that have too few blocks to fill a device, sorted by start."""
    args = s.trace.device_args
    few = args.row[(args.blocks_per_sm > 0) & (args.blocks_per_sm < FILLED)].astype(np.int64)
    trace = s.trace
    kernel = (trace.kind[few] == EventKind.KERNEL) & ~trace.is_collective[few] & s.rows[few]
    found: Int64 = np.sort(few[kernel & (trace.dur_ns[few] >= LONG_NS)])
    return found


def _work(trace: TraceTable, rows: Int64) -> Int64:
    of = trace.device[rows[0]] if len(rows) else MISSING
    found: Int64 = trace.start_ns[(trace.kind == EventKind.KERNEL) & (trace.device == of)]
    return found


def _alone(trace: TraceTable, rows: Int64) -> Int64:
    """Returns kernels on the busiest stream during which no other kernel runs; none if there are several devices."""
    if not len(rows) or len(np.unique(trace.device[rows])) > 1:
        return rows[:0]
    work = np.flatnonzero((trace.kind == EventKind.KERNEL) & (trace.device == trace.device[rows[0]]))
    reach = np.append(0, np.maximum.accumulate(trace.ends(work)))
    next_start = np.append(trace.start_ns[work], np.iinfo(np.int64).max)
    at = np.searchsorted(work, rows)
    free = (reach[at] <= trace.start_ns[rows]) & (next_start[at + 1] >= trace.ends(rows))
    streams, of = np.unique(hardware_streams(trace).of[rows], return_inverse=True)
    busiest = np.argmax(np.bincount(of.ravel(), trace.dur_ns[rows])) if len(streams) else 0
    chosen: Int64 = rows[free & (of.ravel() == busiest)]
    return chosen


def _kinds(texts: list[str]) -> Int64:
    """Returns an id for each module path, ignoring the instance number of its last module; the last id is for no path."""
    known: dict[str, int] = {}
    kinds = [known.setdefault(_INSTANCE.sub("", text), len(known)) for text in texts]
    return np.array([*kinds, MISSING], np.int64)


def _apart(pairs: Int64) -> Int64:
    """Selects pairs that do not overlap. Each i in ``pairs`` stands for the pair (i, i + 1)."""
    if not len(pairs):
        return pairs
    run = np.cumsum(np.append(True, np.diff(pairs) != 1)) - 1
    first = np.flatnonzero(np.append(True, np.diff(run) != 0))
    chosen: Int64 = pairs[(np.arange(len(pairs)) - first[run]) % 2 == 0]
    return chosen


RULE = Rule(
    __name__,
    title="Kernels that could run in parallel streams",
    look=_look,
    order=420,
    detects="Neighboring modules run one after another, although their kernels fill only part of the GPU.",
    threshold=f"In pairs of such modules, the shorter modules together take more than {percent(OVERLAP_SHARE)} of step time "
    "(`could_overlap_ns`).",
    saving="None: dependent modules cannot overlap, and the trace does not record dependencies.",
    needs="Modules, and blocks per multiprocessor.",
    notes="""
        Kernels count if they take at least 20 us, run alone, and have less than half a block per multiprocessor.
        The two modules have the same class and parent, and one directly follows the other. The finding is
        informational, with low confidence.
    """,
    limits=(Limit.GPU,),
)
