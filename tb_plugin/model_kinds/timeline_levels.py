"""Levels of detail of the timeline, stored next to the column file.

The file is created once and memory-mapped by all workers. It is an Arrow stream that contains one record of list
columns (as in ``model/codec.py``), followed by a checksum.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.analysis.timeline.pyramid import Items, Level, Pyramid, pyramid_of
from tb_plugin.errors import CacheFileLost
from tb_plugin.lib.model_cache import MEMO, drop_cached
from tb_plugin.model.column_file import cache_file_errors, header_of, one_list, with_header
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import TimelineTrack
from tb_plugin.storage.cache import put_atomically
from tb_plugin.storage.checksum import append_checksum, has_valid_checksum

VERSION = 1
_ITEMS = Items.__struct_fields__
_AGAIN = "It will be computed again: repeat the request."


def levels_path(path: str) -> str:
    return str(Path(path).with_suffix(".levels"))


def levels_of(trace: TraceTable, path: str) -> Pyramid:
    """Returns the memory-mapped timeline levels of a trace. Creates their file if necessary. Raises CacheRefused."""
    return MEMO.get(trace, levels_of, lambda: _opened(trace, levels_path(path)), size_bytes=0)


def _opened(trace: TraceTable, target: str) -> Pyramid:
    try:
        found = read(trace, target)
        os.utime(target)
        return found
    except (CacheFileLost, OSError):
        made = pyramid_of(trace)
        put_atomically(target, lambda partial: write(made, str(partial)))
    try:
        found = read(trace, target)
    except CacheFileLost:  # another process evicted it
        return made
    drop_cached(trace, pyramid_of)  # mapped files take no memory of this process
    return found


def write(pyramid: Pyramid, path: str) -> None:
    arrays: dict[str, np.ndarray[Any, np.dtype[Any]]] = {"lane": pyramid.lane, "depth": pyramid.depth}
    if pyramid.module is not None:
        arrays["module"] = pyramid.module
    numbers: list[int] = []
    for number, level in enumerate(pyramid.levels):
        if number and level is pyramid.levels[number - 1]:
            numbers.append(numbers[-1])
            continue
        numbers.append(number)
        arrays[f"{number}.bounds"] = level.bounds
        kept = (
            {"first": level.first} if level.merged is None else {name: getattr(level.merged, name) for name in _ITEMS}
        )
        arrays |= {f"{number}.{name}": values for name, values in kept.items()}
    header = {
        "version": VERSION,
        "events": len(pyramid.trace),
        "levels": [[number, pyramid.levels[number].cell_ns] for number in numbers],
        "lanes": [{name: getattr(lane, name) for name in lane.__struct_fields__} for lane in pyramid.lanes],
    }
    columns = {name: one_list(pa.array(values)) for name, values in arrays.items()}
    table = with_header(columns, header)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    append_checksum(path)


def read(trace: TraceTable, path: str) -> Pyramid:
    """Maps timeline levels into memory. Raises CacheFileLost: missing, damaged, or of another trace."""
    with cache_file_errors("The timeline levels are", path, _AGAIN):
        if not has_valid_checksum(path):
            raise CacheFileLost("The timeline levels are damaged.", path, _AGAIN)
        return _read(trace, path)


def _read(trace: TraceTable, path: str) -> Pyramid:
    with pa.memory_map(path) as mapped:
        table = pa.ipc.open_stream(mapped).read_all()
    header = header_of(table)
    if header["version"] != VERSION or header["events"] != len(trace):
        raise CacheFileLost("The timeline levels are from another trace.", path, _AGAIN)

    def column(name: str) -> np.ndarray[Any, np.dtype[Any]]:
        values: np.ndarray[Any, np.dtype[Any]] = table[name].chunk(0).values.to_numpy(zero_copy_only=True)
        return values

    made: dict[int, Level] = {}
    for number, cell_ns in header["levels"]:
        if number not in made:
            single = f"{number}.last" not in table.column_names
            merged = None if single else Items(*(column(f"{number}.{name}") for name in _ITEMS))
            made[number] = Level(cell_ns, column(f"{number}.bounds"), column(f"{number}.first"), merged)
    return Pyramid(
        trace,
        [TimelineTrack(**lane) for lane in header["lanes"]],
        column("lane"),
        column("depth"),
        [made[number] for number, _ in header["levels"]],
        column("module") if "module" in table.column_names else None,
    )
