"""Finer step parts: kernel time by class, idle time by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Part
from tb_plugin.analysis.busy_intervals import device_busy
from tb_plugin.analysis.idle.account import idle_account
from tb_plugin.analysis.idle.causes import cause_metrics
from tb_plugin.analysis.kernel_classes import classify_kernels, word_of
from tb_plugin.analysis.selection import steps_of
from tb_plugin.analysis.step_shares import active_rows
from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.intervals import first_in, measure_within, union
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Column
from tb_plugin.views.diff.metrics import CLASS_SUFFIX, METRICS, SPLIT_CLASSES

NAME = "step_parts"
# Parts of a step with device work, except kernel classes.
ON_DEVICE = ("kernel_ns", "memcpy_ns", "memset_ns", "unrecorded_ns", "communication_ns")
# Parts of a step without device work; causes of idle time replace them.
_HOST = ("runtime_ns", "dataloader_ns", "cpu_ns", "other_ns")
_CAUSES = {metric.key: metric for metric, _ in cause_metrics().values()}
# A kernel class is a part of its own if it changes by this share of the baseline's step.
LEAST_SHARE = 0.01


def is_on_device(part: str) -> bool:
    return part in ON_DEVICE or part.endswith(CLASS_SUFFIX)


def step_parts(trace: TraceTable, chosen: Sequence[str] | None) -> Frame:
    """Returns kernel time by class and idle time by cause, one row per step. Without a single device there are no causes."""
    steps = steps_of(trace, None if chosen is None else tuple(chosen))
    times = _class_times(trace, steps.start_ns, steps.end_ns) | _idle_times(trace, steps.start_ns, steps.end_ns)
    data = pa.table(
        {"step": pa.array(steps.label, pa.string()), **{key: pa.array(each) for key, each in times.items()}}
    )
    metrics = [METRICS["step"], *(_CAUSES.get(key) or METRICS[key] for key in times)]
    return Frame(NAME, "Parts of steps", [Column(metric) for metric in metrics], data, ("step",), "step")


def _class_times(trace: TraceTable, start: Int64, end: Int64) -> dict[str, Int64]:
    rows = np.flatnonzero(active_rows(trace, "kernel"))
    classes = classify_kernels(trace).of(trace.name[rows])
    present = [each for each in SPLIT_CLASSES if (classes == each).any()]
    # While kernels of several classes run, the time counts for the first class.
    mine = [rows[classes == each] for each in present]
    found = first_in(*(union(trace.start_ns[each], trace.ends(each)) for each in mine)) if mine else ()
    times = zip(present, found, strict=True)
    return {word_of(each) + CLASS_SUFFIX: measure_within(ranges, start, end) for each, ranges in times}


def _idle_times(trace: TraceTable, start: Int64, end: Int64) -> dict[str, Int64]:
    devices = list(device_busy(trace))
    if len(devices) != 1 or devices[0] == MISSING:
        return {}
    causes = idle_account(trace, devices[0]).by_cause(start, end)
    return {metric.key: causes[cause] for cause, (metric, _) in cause_metrics().items()}


def finer_steps(base: Part, exp: Part) -> tuple[Part, Part]:
    """Returns both parts with finer tables of steps: equal columns on both sides, which still add up to each step.

    Kernel classes that change much are columns of their own. Idle causes replace the host's parts if both sides have
    them for all idle time.
    """
    pair = [(part.frames.get("steps"), part.frames.get(NAME)) for part in (base, exp)]
    sides = [(steps, finer) for steps, finer in pair if steps is not None and finer is not None]
    if len(sides) < len(pair) or not all(steps.data.num_rows == finer.data.num_rows for steps, finer in sides):
        return base, exp
    means = [{key: float(_numbers(finer, key).mean()) for key in finer.data.column_names[1:]} for _, finer in sides]
    total = float(_numbers(sides[0][0], "total_ns").mean()) if sides[0][0].data.num_rows else 0.0
    keys = [word_of(each) + CLASS_SUFFIX for each in SPLIT_CLASSES]
    one, other = means
    classes = [key for key in keys if abs(other.get(key, 0.0) - one.get(key, 0.0)) >= max(LEAST_SHARE * total, 1)]
    causes = [key for key in _CAUSES if any(each.get(key) for each in means)]
    if not all(_is_complete(steps, finer) for steps, finer in sides):
        causes = []
    finest = [_finer(steps, finer, classes, causes) for steps, finer in sides]
    first, second = (
        replace(part, frames={**part.frames, "steps": frame}) for part, frame in zip((base, exp), finest, strict=True)
    )
    return first, second


def _numbers(frame: Frame, key: str) -> Int64:
    if key not in frame.data.column_names:
        return np.zeros(frame.data.num_rows, np.int64)
    found: Int64 = frame.data[key].to_numpy().astype(np.int64)
    return found


def _is_complete(steps: Frame, finer: Frame) -> bool:
    worked = sum((_numbers(steps, key) for key in ON_DEVICE), np.zeros(steps.data.num_rows, np.int64))
    idle = sum((_numbers(finer, key) for key in _CAUSES), np.zeros(steps.data.num_rows, np.int64))
    return next(iter(_CAUSES)) in finer.data.column_names and np.array_equal(worked + idle, _numbers(steps, "total_ns"))


def _finer(steps: Frame, finer: Frame, classes: Sequence[str], causes: Sequence[str]) -> Frame:
    columns: list[Column] = []
    data: dict[str, pa.ChunkedArray | Int64] = {}
    for column in steps.columns:
        key = column.metric.key
        more: Mapping[str, Column] = {}
        if key == "kernel_ns" and classes:
            more = {each: Column(METRICS.metric(each)) for each in classes}
            column = Column(replace(column.metric, title="Other kernels"))
        elif key in _HOST and causes:
            if key == _HOST[0]:
                columns += [Column(_CAUSES[each]) for each in causes]
                data |= {each: _numbers(finer, each) for each in causes}
            continue
        columns += [*more.values(), column]
        data |= {each: _numbers(finer, each) for each in more}
        rest = sum((_numbers(finer, each) for each in more), np.zeros(steps.data.num_rows, np.int64))
        data[key] = _numbers(steps, key) - rest if more else steps.data[key]
    return replace(steps, columns=columns, data=pa.table(data))
