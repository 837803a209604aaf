"""The table of the kernels that a compiler generated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.compiled.regions import regions_of
from tb_plugin.analysis.groupby import Groups, group
from tb_plugin.analysis.kernel_facts import first_reported_text
from tb_plugin.analysis.selection import Selection
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.compiled.generated_kernels import generated_kernels, read_name
from tb_plugin.views.compiled.payloads import framed, innermost_modules, numbers_of

Int64 = npt.NDArray[np.int64]


def kernels_frame(trace: TraceTable, selection: Selection) -> Frame:
    """Returns a row a generated kernel that ran in the chosen steps, those that took most time first."""
    every, regions = generated_kernels(trace), regions_of(trace)
    at = np.flatnonzero(selection.rows[every.row])
    row = every.row[at]
    groups = group(trace.name[row].astype(np.int64))
    texts = trace.strings.take(trace.name[row[groups.first]]).to_pylist()
    named = [read_name(trace.recorder.compiled, text) for text in texts]
    on_host = trace.kind[row] != EventKind.KERNEL
    calls, runs = groups.sum(on_host.astype(np.int64)), groups.sum((~on_host).astype(np.int64))
    device = groups.sum(np.where(on_host, 0, trace.dur_ns[row]))
    region = every.region[at]
    names = np.where(region == MISSING, MISSING, np.append(trace.name[regions.row], MISSING)[region])
    data: dict[str, object] = {
        "generated_kernel": pa.array(texts, pa.string()),
        "kernel_kind": pa.array([each and each.kind for each in named], pa.string()),
        "fused_operators": pa.array([", ".join(each.operators) if each else None for each in named], pa.string()),
        "kernel_launches": np.where(runs > 0, runs, calls),
        "kernel_device_ns": device,
        "kernel_host_ns": groups.sum(np.where(on_host, trace.dur_ns[row], 0)),
        "region_numbers": numbers_of(trace, names, groups),
        "kernel_modules": innermost_modules(trace, selection, every.origin[at], groups.of, len(groups)),
        "kernel_file": _files(trace, row, groups),
    }
    if not runs.any():
        del data["kernel_device_ns"]
    if data["kernel_file"].null_count == len(groups):  # type: ignore[attr-defined]
        del data["kernel_file"]
    first = "kernel_device_ns" if "kernel_device_ns" in data else "kernel_host_ns"
    return framed("generated_kernels", "Generated kernels", data, ("generated_kernel",), first)


def _files(trace: TraceTable, row: Int64, groups: Groups) -> pa.Array:
    """The first file that is recorded beside rows of each group, null where there is none."""
    key = trace.recorder.compiled.file
    texts = first_reported_text(trace, (key,) if key else (), row)
    found = np.full(len(groups), MISSING, np.int64)
    known = np.flatnonzero(texts != MISSING)[::-1]
    found[groups.of[known]] = texts[known]
    return trace.strings.take(found)
