"""Driver calls caused by input shapes that change between steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.driver_calls import usual_calls
from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.origins import step_at
from tb_plugin.analysis.memory.tables import MemoryScene, frame_by_operator
from tb_plugin.analysis.memory.trace_devices import Device
from tb_plugin.analysis.phrases import references_of
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.lib.groupby import group, sum_by
from tb_plugin.lib.intervals import Ranges
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.payloads import Link, Notice, Scalar
from tb_plugin.rules._base import Check, percent

# Share of the time of driver calls. From half on, changing shapes are their main cause.
MIN_CALLS_SHARE = 0.5
# A caching allocator needs one or two calls for a new shape.
MIN_CALLS = 3


@cached_by_argument
def shaped_operator(trace: TraceTable) -> Int32:
    """Returns, for each row, the nearest operator with the shape of a tensor (-1 = none): itself or an enclosing one."""
    ids = np.unique(trace.operators.shapes[trace.operators.shapes != MISSING])
    has_number = np.zeros(len(trace.strings) + 1, np.bool_)
    has_number[ids] = pc.match_substring_regex(trace.strings.take(ids), r"\d").to_numpy(zero_copy_only=False)
    own = np.full(len(trace), MISSING, np.int32)
    rows = trace.operators.row[has_number[trace.operators.shapes]]
    own[rows] = rows
    return inherit(own, trace.operator)


class Varying(msgspec.Struct, frozen=True, eq=False):
    """Allocations of a device over the compared steps: one row per operator and input shape."""

    name: Int32
    """String id of the operator."""
    varies: Bool
    """Whether the operator runs in every step, but not in every step with this shape."""
    allocations: Int64
    bytes: Int64
    calls: Int64
    """Number of driver calls that allocate memory inside operators of this name and shape."""
    calls_ns: Int64
    every_call_ns: int
    """Time in nanoseconds of all driver calls that allocate memory in these steps."""
    steps: int


def varying_shapes(scene: MemoryScene, device: Device, times: Ranges, is_only_device: bool) -> Varying | None:
    """Returns the input shapes in the complete steps in ``times``; None without shapes or with too few steps.

    With at least three steps, the first step is skipped, because it also allocates memory for the whole run. A
    driver call does not record its device, so driver calls are used only if the trace has a single device
    (``is_only_device``).
    """
    trace = scene.trace
    if not trace.steps.recorded or not (trace.operators.shapes != MISSING).any():
        return None
    shaped = np.append(shaped_operator(trace), np.int32(MISSING))
    step = scene.origins.step.of[device.record]
    seen = np.unique(step[(step != MISSING) & scene.window.holds(device.time_ns)])
    compared = seen[1:] if len(seen) > 2 else seen
    if len(compared) < 2:
        return None
    owner = np.append(scene.owners.operators, MISSING)[scene.owners.operator[device.record]]
    row = shaped[owner]
    counted = (device.bytes > 0) & (row != MISSING) & np.isin(step, compared) & scene.window.holds(device.time_ns)
    row, step, size = row[counted], step[counted], device.bytes[counted]
    calls = usual_calls(trace, times) if is_only_device else np.empty(0, np.int64)
    calls = calls[np.isin(step_at(trace, trace.start_ns[calls]), compared)]
    within = shaped[trace.operator[calls]]
    shape = np.full(len(trace) + 1, MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    # Pairs of operator and shape that allocated; a driver call without an allocation belongs to none.
    both = np.concatenate((row, within[within != MISSING]))
    pairs = group(trace.name[both], shape[both])
    of, called = pairs.of[: len(row)], pairs.of[len(row) :]
    often = _steps_of(of, step, len(pairs))
    name = trace.name[both][pairs.first]
    names = group(name)
    always = _steps_of(names.of[of], step, len(names)) == len(compared)
    return Varying(
        name=name,
        varies=(often > 0) & (often < len(compared)) & always[names.of],
        allocations=np.bincount(of, minlength=len(pairs)).astype(np.int64),
        bytes=sum_by(of, size, len(pairs)),
        calls=np.bincount(called, minlength=len(pairs)).astype(np.int64),
        calls_ns=sum_by(called, trace.dur_ns[calls[within != MISSING]], len(pairs)),
        every_call_ns=int(trace.dur_ns[calls].sum()),
        steps=len(compared),
    )


def _steps_of(of: Int64, step: Int32, count: int) -> Int64:
    if not len(of):
        return np.zeros(count, np.int64)
    once = group(of, step).first
    return np.bincount(of[once], minlength=count).astype(np.int64)


_SUMS = ("shapes", "varying_shapes", "varying_allocations", "varying_bytes", "varying_calls", "varying_calls_ns")


def shape_frame(trace: TraceTable, devices: Sequence[Device], every: Sequence[Varying | None]) -> Frame:
    found = [_rows(trace, device, varying) for device, varying in zip(devices, every, strict=True) if varying]
    order = ("varying_calls_ns", "varying_bytes")
    return frame_by_operator("memory_shapes", "Changing shapes", devices, found, _SUMS, order)


def _rows(trace: TraceTable, device: Device, of: Varying) -> pa.Table:
    some = np.isin(of.name, of.name[of.varies])
    name, varies = of.name[some], of.varies[some].astype(np.int64)
    names = group(name)
    sums = (np.ones(len(name), np.int64), varies, *(values[some] * varies for values in
            (of.allocations, of.bytes, of.calls, of.calls_ns)))  # fmt: skip
    data = {
        "name": trace.strings.take(name[names.first]),
        "device": pa.repeat(device.name, len(names)),
        **{key: pa.array(names.sum(values)) for key, values in zip(_SUMS, sums, strict=True)},
    }
    return pa.table(data)


CHECK = Check(
    "memory_shapes",
    detects="Input shapes that change from step to step cause driver calls for memory.",
    threshold=f"At least {MIN_CALLS} driver calls with at least {percent(MIN_CALLS_SHARE)} of their time "
    "(`varying_calls_ratio`).",
    severity="Low.",
    notes="The check needs recorded shapes.",
)


def shapes_notice(scene: MemoryScene, device: Device, of: Varying | None) -> Notice | None:
    if of is None or device.is_host:
        return None
    calls, spent = int(of.calls[of.varies].sum()), int(of.calls_ns[of.varies].sum())
    if calls < MIN_CALLS or spent < MIN_CALLS_SHARE * of.every_call_ns:
        return None
    names = group(of.name)
    worst = int(np.argmax(names.sum(of.calls_ns * of.varies)))
    name = scene.trace.strings[int(of.name[names.first[worst]])]
    values: dict[str, Scalar] = {
        "varying_calls_ratio": spent / of.every_call_ns,
        "device": device.name,
        "varying_calls": calls,
        "varying_calls_ns": spent,
        "name": name,
        "shapes": int((names.of == worst).sum()),
        "growth_steps": of.steps,
    }
    return Notice(
        rule=CHECK.id,
        severity="low",
        text=(
            "{varying_calls} driver calls for memory ({varying_calls_ns}, {varying_calls_ratio} of the time "
            "of all such calls) come from operators with changing input shapes. Most of these calls come "
            "from {name}, with {shapes} shapes in {growth_steps} steps."
        ),
        todo=scene.trace.recorder.todo(CHECK.advice_key()),
        figures=METRICS.figures(values),
        measure="varying_calls_ratio",
        threshold=MIN_CALLS_SHARE,
        evidence=Link("operators", {"group": "operators_by_shape", "where": f"name:{name}"}, "Show its shapes"),
        references=references_of(scene.trace.recorder, "driver_memory_calls"),
    )
