"""A TraceTable as one Arrow IPC file that any process memory-maps.

Columns differ in length, so the file holds one record whose every column is a list: reading maps, it copies nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import KeptLost
from tb_plugin.trace.hardware import DeviceInfo
from tb_plugin.trace.recorder import Advice, Recorder
from tb_plugin.trace.report import Issue, ReadReport
from tb_plugin.trace.strings import StringTable
from tb_plugin.trace.table import (
    CallNames,
    ClippedRows,
    CollectiveArgs,
    CounterEvents,
    Coverage,
    DeviceArgs,
    MemoryEvents,
    OperatorArgs,
    PythonArgs,
    Steps,
    TraceTable,
    Track,
    Whole,
)

SCHEMA_VERSION = 7
"""Part of every cache key: raise it when the meaning or the set of columns changes."""

SECTIONS: dict[str, type[Any]] = {
    "operators": OperatorArgs,
    "python": PythonArgs,
    "device_args": DeviceArgs,
    "collectives": CollectiveArgs,
    "clipped": ClippedRows,
    "calls": CallNames,
    "memory": MemoryEvents,
    "counters": CounterEvents,
}
_AGAIN = "It is made anew from the trace: ask again."
_STEP_COLUMNS = ("start_ns", "end_ns", "host_start_ns", "host_end_ns")


def write(trace: TraceTable, path: str) -> None:
    """Write the model to ``path``; the caller makes the file visible to others (rename)."""
    arrays = {f.name: value for f in fields(trace) if isinstance(value := getattr(trace, f.name), np.ndarray)}
    for section in SECTIONS:
        part = getattr(trace, section)
        arrays |= {f"{section}.{f.name}": getattr(part, f.name) for f in fields(part)}
    arrays |= {f"steps.{name}": getattr(trace.steps, name) for name in _STEP_COLUMNS}
    columns: dict[str, pa.Array] = {name: one_list(pa.array(values)) for name, values in arrays.items()}
    columns["strings"] = one_list(trace.strings.array)
    header = {
        "version": SCHEMA_VERSION,
        "tracks": [asdict(track) for track in trace.tracks],
        "devices": [asdict(device) for device in trace.devices],
        "steps": {"label": trace.steps.label, "recorded": trace.steps.recorded, "dropped": trace.steps.dropped},
        "metadata": dict(trace.metadata),
        "report": asdict(trace.report),
        "coverage": asdict(trace.coverage),
        "origin_ns": trace.origin_ns,
        "base_time_ns": trace.base_time_ns,
        "external_disagreements": trace.external_disagreements,
        "recorder": asdict(trace.recorder),
    }
    table = pa.table(columns).replace_schema_metadata({"torch_trace": json.dumps(header)})
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def one_list(values: pa.Array) -> pa.Array:
    """A column as a single value, so that columns of any lengths fit one record."""
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def read(path: str) -> TraceTable:
    """Map the model in ``path``. Raises KeptLost when the file is gone, damaged or of another version.

    Only the structure is looked at; who takes a file that another process wrote compares its checksum first.
    """
    try:
        return _read(path)
    except FileNotFoundError as error:
        raise KeptLost("The column file is gone.", path, _AGAIN) from error
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise KeptLost("The column file is damaged.", path, _AGAIN) from error


def _read(path: str) -> TraceTable:
    with pa.memory_map(path) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    header = json.loads(table.schema.metadata[b"torch_trace"])
    if header["version"] != SCHEMA_VERSION:
        raise KeptLost("The column file is of another version.", path, _AGAIN)

    def column(name: str) -> Any:
        values = table[name].chunk(0).values
        return _bools(values) if pa.types.is_boolean(values.type) else values.to_numpy(zero_copy_only=True)

    plain = {f.name: column(f.name) for f in fields(TraceTable) if f.name in table.column_names and f.name != "strings"}
    sections = {
        name: kind(**{f.name: column(f"{name}.{f.name}") for f in fields(kind)}) for name, kind in SECTIONS.items()
    }
    steps = Steps(
        label=tuple(header["steps"]["label"]),
        **{name: column(f"steps.{name}") for name in _STEP_COLUMNS},
        recorded=header["steps"]["recorded"],
        dropped=tuple(header["steps"]["dropped"]),
    )
    return TraceTable(
        **plain,
        **sections,
        steps=steps,
        strings=StringTable(table["strings"].chunk(0).values),
        tracks=tuple(Track(**track) for track in header["tracks"]),
        devices=tuple(_device(device) for device in header["devices"]),
        metadata=header["metadata"],
        report=_report(header["report"]),
        coverage=_coverage(header["coverage"]),
        origin_ns=header["origin_ns"],
        base_time_ns=header["base_time_ns"],
        external_disagreements=header["external_disagreements"],
        recorder=_recorder(header["recorder"]),
    )


def _bools(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Arrow packs booleans into bits, so these few columns are unpacked."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _recorder(header: dict[str, Any]) -> Recorder:
    advice = {
        key: Advice(each["todo"], tuple((title, url) for title, url in each["references"]))
        for key, each in header["advice"].items()
    }
    return Recorder(header["id"], header["name"], advice)


def _device(header: dict[str, Any]) -> DeviceInfo:
    return DeviceInfo(**{**header, "precisions": tuple(header["precisions"])})


def _coverage(header: dict[str, Any]) -> Coverage:
    whole = header.pop("whole")
    if whole is not None:
        whole = Whole(**{**whole, "steps": tuple(whole["steps"])})
    return Coverage(**header, whole=whole)


def _report(header: dict[str, Any]) -> ReadReport:
    issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in header.pop("issues"))
    return ReadReport(**header, issues=issues)
