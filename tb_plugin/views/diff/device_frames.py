"""Device work of one profile, in vendor-neutral tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame, Params
from tb_plugin.analysis.collective_names import NOT_COLLECTIVE, collective_name
from tb_plugin.analysis.communication import is_communication
from tb_plugin.analysis.forest import Forest, Spans, outermost_of, with_ancestors
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import replayed_operators
from tb_plugin.analysis.kernel_classes import word_of
from tb_plugin.analysis.memory.trace_devices import devices_of
from tb_plugin.analysis.memory.window import peak_of, reserved_peak_of, window_of
from tb_plugin.analysis.selection import Selection
from tb_plugin.lib.groupby import group, places_of, sum_by
from tb_plugin.model.trace.hardware import DeviceInfo
from tb_plugin.model.trace.job_tables import OPERATIONS, reported_table
from tb_plugin.model.trace.schema import DEVICE_WORK, MISSING, NO_OPERATOR, EventKind, MatrixUse, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.diff.kernel_families import PASSES, families_of
from tb_plugin.views.diff.metrics import METRICS
from tb_plugin.views.diff.operator_paths import path_frames

MAKERS, FAMILIES, COLLECTIVES, PEAKS = "makers", "families", "collective_calls", "memory_peaks"


def device_frames(trace: TraceTable, selection: Selection, params: Params) -> dict[str, Frame]:
    """Returns vendor-neutral tables of devices, kernel families, collectives, memory and operator paths.

    Without device work, the result is empty.
    """
    if not of_kind(trace.kind, *DEVICE_WORK).any():
        return {}
    frames = (
        _makers(trace),
        _families(trace, selection),
        _collectives(trace, selection),
        _peaks(trace, params),
        *_operator_kernels(trace, selection),
    )
    return {frame.name: frame for frame in frames} | path_frames(trace, selection)


def _frame(name: str, title: str, data: Mapping[str, pa.Array], keys: tuple[str, ...]) -> Frame:
    return Frame(name, title, METRICS.columns(*data), pa.table(dict(data)), keys, keys[0])


def _makers(trace: TraceTable) -> Frame:
    ran = np.unique(trace.device[of_kind(trace.kind, *DEVICE_WORK)])
    devices = [DeviceInfo("") if number == MISSING else trace.devices[number] for number in ran.tolist()]
    found = sorted({(device.vendor, device.word) for device in devices})
    texts = zip(*found, strict=True)
    data = {key: pa.array(each, pa.string()) for key, each in zip(("maker", "device_word"), texts, strict=True)}
    return _frame(MAKERS, "Makers", data, ("maker", "device_word"))


def _families(trace: TraceTable, selection: Selection) -> Frame:
    kernels = selection.of(trace, EventKind.KERNEL)
    kernels = kernels[~trace.is_collective[kernels]]
    found = families_of(trace, kernels)
    groups = group(found.kernel_class.astype(np.int64), found.direction.astype(np.int64))
    matrix = trace.uses_matrix_unit[kernels] == MatrixUse.YES
    duration = trace.dur_ns[kernels]
    data = {
        "family": pa.array([word_of(each) for each in found.kernel_class[groups.first].tolist()], pa.string()),
        "pass_direction": pa.array([PASSES[each] for each in found.direction[groups.first].tolist()], pa.string()),
        "calls": pa.array(groups.count()),
        "total_ns": pa.array(groups.sum(duration)),
        "matrix_ns": pa.array(groups.sum(np.where(matrix, duration, 0))),
    }
    return _frame(FAMILIES, "Kernels by family", data, ("family", "pass_direction"))


def _operator_kernels(trace: TraceTable, selection: Selection) -> Iterator[Frame]:
    """Yields two tables with numbers of kernels, copies and memsets: by operator name, and by operator name and
    shapes.

    Work in nested calls of the same operator counts once.
    """
    work = selection.of(trace, *DEVICE_WORK)
    around, _ = with_ancestors(trace.operator, trace.operator[work])
    calls = around[selection.rows[around]]
    place = places_of(calls, len(trace))
    launched, above = place[trace.operator[work]], place[trace.operator[calls]]
    replayed, scopes = replayed_operators(trace, work, calls, above, launched), origins_of(trace).scopes
    owner, parent, also = replayed.owner, replayed.also(above, replayed.parent), replayed.also
    own = sum_by(owner, np.ones(len(work), np.int64), len(parent))
    total = Forest(parent).sums(own)
    shape = np.full(len(trace), MISSING, np.int32)
    shape[trace.operators.row] = trace.operators.shapes
    name = also(trace.name[calls], scopes.name[replayed.scope])
    shape = also(shape[calls], scopes.shapes[replayed.scope])
    nowhere = np.full(len(replayed), MISSING, np.int32)
    spans = Spans(also(trace.track[calls], nowhere), also(trace.start_ns[calls]), also(trace.ends(calls)))
    for key, by in (("operator_kernels", (name,)), ("operator_kernels_by_shape", (name, shape))):
        groups = group(*by)
        sums = groups.sum(np.where(outermost_of(groups.of, spans, parent), total, 0))
        texts = {"name": trace.strings.take(name[groups.first]), "input_shape": trace.strings.take(shape[groups.first])}
        keys = tuple(texts)[: len(by)]
        rest = int((owner == MISSING).sum())
        data = {
            each: pa.concat_arrays(
                [texts[each], pa.array([NO_OPERATOR if each == "name" else None], pa.large_string())]
            )
            for each in keys
        }
        data["launched_work"] = pa.array([*sums.tolist(), rest])
        data["launched_itself"] = pa.array([*groups.sum(own).tolist(), rest])
        yield _frame(key, "Kernels of operators", data, keys)


def _collectives(trace: TraceTable, selection: Selection) -> Frame:
    rows = np.flatnonzero(selection.rows & is_communication(trace))
    name = trace.name.copy()
    stated = trace.collectives.name != MISSING
    name[trace.collectives.row[stated]] = trace.collectives.name[stated]
    by_name = group(name[rows])
    texts = [collective_name(text) for text in trace.strings.take(name[rows[by_name.first]]).to_pylist()]
    number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    which = np.array([number[text] for text in texts], np.int64)[by_name.of] if len(rows) else by_name.of
    moves = np.array([text not in NOT_COLLECTIVE for text in number], np.bool_)
    rows, which = rows[moves[which]], which[moves[which]]
    groups = group(which)
    duration = trace.dur_ns[rows]
    spelled = list(number)
    data = {
        "collective": pa.array([spelled[each] for each in which[groups.first].tolist()], pa.string()),
        "calls": pa.array(groups.count()),
        "total_ns": pa.array(groups.sum(duration)),
        "max_ns": pa.array(groups.max(duration)),
    }
    return _frame(COLLECTIVES, "Collectives", data | _stated(trace, selection, data["collective"]), ("collective",))


def _stated(trace: TraceTable, selection: Selection, collectives: pa.Array) -> dict[str, pa.Array]:
    """Returns the reported wait and transit time of each collective in the selected steps (null if not reported)."""
    columns = ("wait_ns", "transit_ns")
    nothing = {f"stated_{key}": pa.nulls(len(collectives), pa.int64()) for key in columns}
    table = reported_table(trace.reported_tables, OPERATIONS)
    if table is None:
        return nothing
    if selection.steps is not None and trace.steps.recorded:
        unplaced = pc.is_null(table["step"])
        table = table.filter(pc.or_(unplaced, pc.is_in(table["step"], pa.array(selection.steps, pa.string()))))
    names = [collective_name(text or "") for text in table["operation"].to_pylist()]
    summed = pa.table({"collective": pa.array(names, pa.string()), **{key: table[key] for key in columns}})
    summed = summed.group_by("collective").aggregate([(key, "sum") for key in columns])
    at = pc.index_in(collectives, summed["collective"].combine_chunks())
    return {f"stated_{key}": summed[f"{key}_sum"].combine_chunks().take(at) for key in columns}


def _peaks(trace: TraceTable, params: Params) -> Frame:
    """Returns the highest peaks of allocated and of reserved memory over all devices.

    Without recorded memory totals, the table is empty.
    """
    window = window_of(trace, Params(steps=params.steps))
    devices = [device for device in devices_of(trace) if not device.is_host]
    reserved = [peak.value for device in devices if (peak := reserved_peak_of(device, window)) is not None]
    allocated = [peak_of(device, window).value for device in devices if device.has_totals]
    found = {"Most allocated": allocated, "Most reserved": reserved}
    known = {what: max(values) for what, values in found.items() if values}
    data = {"compared_memory": pa.array(list(known), pa.string()), "bytes": pa.array(list(known.values()), pa.int64())}
    return _frame(PEAKS, "Memory", data, ("compared_memory",))
