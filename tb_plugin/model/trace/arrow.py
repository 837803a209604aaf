"""A TraceTable as one Arrow IPC file that any process memory-maps.

Columns differ in length, so the file holds one record whose every column is a list: reading maps, it copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.trace.extra_columns import (
    AllocatorBlocks,
    AllocatorTotals,
    OpenColumn,
    StatedColumn,
    StatedMemory,
    StatedTable,
)
from tb_plugin.model.trace.hardware import DeviceFacts, DeviceInfo
from tb_plugin.model.trace.kernel_rules import ClassNames
from tb_plugin.model.trace.recorder import (
    Advice,
    CompiledNames,
    HostNames,
    KernelFacts,
    OperatorNames,
    ParallelNames,
    Recorder,
    StageFrames,
    StepPattern,
    ThreadRole,
)
from tb_plugin.model.trace.report import Issue, ReadReport
from tb_plugin.model.trace.served_work import Served
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import (
    Arrows,
    CallNames,
    ClippedRows,
    CollectiveArgs,
    CounterEvents,
    CounterSeries,
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

SCHEMA_VERSION = 18
"""Part of every cache key: raise it when the meaning or the set of columns changes."""

SECTIONS: dict[str, type[Any]] = {
    "operators": OperatorArgs,
    "python": PythonArgs,
    "device_args": DeviceArgs,
    "collectives": CollectiveArgs,
    "clipped": ClippedRows,
    "calls": CallNames,
    "classes": ClassNames,
    "memory": MemoryEvents,
    "stated_memory": StatedMemory,
    "counters": CounterEvents,
    "counter_series": CounterSeries,
    "arrows": Arrows,
    "blocks": AllocatorBlocks,
    "totals": AllocatorTotals,
    "components": AllocatorTotals,
}
_RARE = ("arrows", "classes", "counter_series", "blocks", "totals", "stated_memory", "components")
"""Sections that take no room in the file of a trace without them."""
_AGAIN = "It is made anew from the trace: ask again."
_STEP_COLUMNS = ("start_ns", "end_ns", "host_start_ns", "host_end_ns")
_STEP_WORDS = ("label", "recorded", "dropped", "found", "framework", "unanswered")


def write(trace: TraceTable, path: str) -> None:
    """Writes the model to ``path``; the caller makes the file visible to others (rename)."""
    arrays = {f.name: value for f in fields(trace) if isinstance(value := getattr(trace, f.name), np.ndarray)}
    for section in SECTIONS:
        part = getattr(trace, section)
        if section in _RARE and not any(len(getattr(part, f.name)) for f in fields(part)):
            continue
        arrays |= {f"{section}.{f.name}": getattr(part, f.name) for f in fields(part)}
    arrays |= {f"steps.{name}": getattr(trace.steps, name) for name in _STEP_COLUMNS}
    if len(trace.steps.served):
        arrays |= {f"served.{f.name}": getattr(trace.steps.served, f.name) for f in fields(Served)}
    columns: dict[str, pa.Array] = {name: one_list(pa.array(values)) for name, values in arrays.items()}
    columns["strings"] = one_list(trace.strings.array)
    columns |= _open_arrays(trace.others)
    stated = {
        f"stated.{t}.{c}": col.values for t, table in enumerate(trace.stated) for c, col in enumerate(table.columns)
    }
    columns |= {name: one_list(values) for name, values in stated.items()}
    header = {
        "version": SCHEMA_VERSION,
        "tracks": [asdict(track) for track in trace.tracks],
        "devices": [asdict(device) for device in trace.devices],
        "steps": {name: getattr(trace.steps, name) for name in _STEP_WORDS},
        "metadata": dict(trace.metadata),
        "report": asdict(trace.report),
        "coverage": asdict(trace.coverage),
        "origin_ns": trace.origin_ns,
        "base_time_ns": trace.base_time_ns,
        "external_disagreements": trace.external_disagreements,
        "recorder": asdict(trace.recorder),
        "others": [[o.key, o.title, o.unit, o.is_text, o.value.dtype.name, len(o.row)] for o in trace.others],
        "stated": [[t.name, t.title, [[c.key, c.title, c.unit] for c in t.columns]] for t in trace.stated],
    }
    write_columns(columns, header, path)


def read(path: str) -> TraceTable:
    """Maps the model in ``path``. Raises KeptLost when the file is gone, damaged or of another version.

    Only the structure is looked at; who takes a file that another process wrote compares its checksum first.
    """
    with kept("The column file is", path, _AGAIN):
        return _read(path)


def _read(path: str) -> TraceTable:
    table, header = read_columns(path)
    if header["version"] != SCHEMA_VERSION:
        raise CacheFileLost("The column file is of another version.", path, _AGAIN)

    def column(name: str) -> Any:
        values = table[name].chunk(0).values
        return _bools(values) if pa.types.is_boolean(values.type) else values.to_numpy(zero_copy_only=True)

    plain = {f.name: column(f.name) for f in fields(TraceTable) if f.name in table.column_names and f.name != "strings"}
    present = {name.partition(".")[0] for name in table.column_names if "." in name}
    sections = {
        name: kind(**{f.name: column(f"{name}.{f.name}") for f in fields(kind)}) if name in present else kind()
        for name, kind in SECTIONS.items()
        if name in present or name in _RARE
    }
    steps = Steps(
        **{name: column(f"steps.{name}") for name in _STEP_COLUMNS},
        **{name: _tuple(value) for name, value in header["steps"].items()},
        served=Served(**{f.name: column(f"served.{f.name}") for f in fields(Served)} if "served" in present else {}),
    )
    return TraceTable(
        **plain,
        **sections,
        steps=steps,
        strings=StringTable(table["strings"].chunk(0).values),
        tracks=tuple(Track(**track) for track in header["tracks"]),
        devices=tuple(_device(device) for device in header["devices"]),
        metadata=header["metadata"],
        report=report_of(header["report"]),
        coverage=_coverage(header["coverage"]),
        origin_ns=header["origin_ns"],
        base_time_ns=header["base_time_ns"],
        external_disagreements=header["external_disagreements"],
        recorder=recorder_of(header["recorder"]),
        others=_open_columns(header["others"], column),
        stated=tuple(
            StatedTable(
                name,
                title,
                tuple(
                    StatedColumn(key, what, unit, table[f"stated.{t}.{c}"].chunk(0).values)
                    for c, (key, what, unit) in enumerate(found)
                ),
            )
            for t, (name, title, found) in enumerate(header["stated"])
        ),
    )


def _open_arrays(others: Sequence[OpenColumn]) -> dict[str, pa.Array]:
    """All open columns as few arrays, end to end: one of rows and one of values for each type."""
    arrays: dict[str, pa.Array] = {}
    for dtype in sorted({column.value.dtype.name for column in others}):
        chosen = [column for column in others if column.value.dtype.name == dtype]
        arrays[f"others.{dtype}.row"] = one_list(pa.array(np.concatenate([column.row for column in chosen])))
        arrays[f"others.{dtype}.value"] = one_list(pa.array(np.concatenate([column.value for column in chosen])))
    return arrays


def _open_columns(header: list[list[Any]], column: Callable[[str], Any]) -> tuple[OpenColumn, ...]:
    """The open columns as slices of the arrays that ``_open_arrays`` made."""
    used: dict[str, int] = {}
    found = []
    for key, title, unit, is_text, dtype, length in header:
        begin = used.get(dtype, 0)
        used[dtype] = begin + length
        row, value = (column(f"others.{dtype}.{part}")[begin : begin + length] for part in ("row", "value"))
        found.append(OpenColumn(key, row, value, is_text, title, unit))
    return tuple(found)


def _bools(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Arrow packs booleans into bits, so these few columns are unpacked."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def recorder_of(header: dict[str, Any]) -> Recorder:
    """Returns a recorder from the header of a column file."""
    advice = {
        key: Advice(each["todo"], tuple((title, url) for title, url in each["references"]))
        for key, each in header["advice"].items()
    }
    threads = tuple(ThreadRole(**role) for role in header["threads"])
    stages = StageFrames(**header["stages"])
    host = HostNames(**header["host"])
    operators = OperatorNames(**header["operators"])
    return Recorder(
        header["id"],
        header["name"],
        advice,
        threads,
        tuple(header["packages"]),
        stages,
        host,
        operators,
        KernelFacts(**{key: _tuple(value) for key, value in header["kernels"].items()}),
        header["ranges_are_calls"],
        CompiledNames(**{key: _tuple(value) for key, value in header["compiled"].items()}),
        header["lacks"],
        tuple(StepPattern(**{key: _tuple(value) for key, value in pattern.items()}) for pattern in header["steps"]),
        ParallelNames(**{key: _tuple(value) for key, value in header["parallel"].items()}),
        header["iterating"],
        _tuple(header["marks"]),
        header["numbers_operators"],
    )


def _tuple(value: Any) -> Any:
    """A value of JSON with tuples in place of lists."""
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value


def _device(header: dict[str, Any]) -> DeviceInfo:
    peaks, facts = _tuple(header["peaks"]), header["facts"]
    facts = DeviceFacts(**{key: _tuple(value) for key, value in facts.items()}) if facts is not None else None
    return DeviceInfo(**{**header, "precisions": tuple(header["precisions"]), "peaks": peaks, "facts": facts})


def _coverage(header: dict[str, Any]) -> Coverage:
    whole = header.pop("whole")
    if whole is not None:
        whole = Whole(**{**whole, "steps": tuple(whole["steps"])})
    return Coverage(**header, whole=whole)


def report_of(header: dict[str, Any]) -> ReadReport:
    """Returns a report from the header of a column file."""
    issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in header.pop("issues"))
    return ReadReport(**header, issues=issues)
