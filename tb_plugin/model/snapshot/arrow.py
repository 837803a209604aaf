"""A Snapshot as one Arrow IPC file that any process memory-maps; columns as in ``model/trace/arrow.py``."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.snapshot.table import Annotations, Blocks, Events, Oddities, Segments, Snapshot, Stacks
from tb_plugin.model.trace.arrow import recorder_of, report_of
from tb_plugin.model.trace.strings import StringTable

SCHEMA_VERSION = 3
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
_SECTIONS: dict[str, type[Any]] = {
    "events": Events,
    "blocks": Blocks,
    "segments": Segments,
    "stacks": Stacks,
    "annotations": Annotations,
}
_AGAIN = "It is made anew from the snapshot: ask again."


def write(snapshot: Snapshot, path: str) -> None:
    """Writes the model to ``path``; the caller makes the file visible to others (rename)."""
    columns: dict[str, pa.Array] = {"strings": one_list(snapshot.strings.array)}
    for name, kind in _SECTIONS.items():
        part = getattr(snapshot, name)
        columns |= {f"{name}.{f.name}": one_list(pa.array(getattr(part, f.name))) for f in fields(kind)}
    header = {
        "version": SCHEMA_VERSION,
        "first": snapshot.first.tolist(),
        "streams": snapshot.streams,
        "pools": snapshot.pools,
        "device_ids": snapshot.device_ids,
        "settings": dict(snapshot.settings),
        "report": asdict(snapshot.report),
        "recorder": asdict(snapshot.recorder),
        "device_type": snapshot.device_type,
        "has_history": snapshot.has_history,
        "origin_ns": snapshot.origin_ns,
        "has_times": snapshot.has_times,
        "oddities": [asdict(each) for each in snapshot.oddities],
        "overflowed": snapshot.overflowed,
        "max_entries": snapshot.max_entries,
    }
    write_columns(columns, header, path)


def read(path: str) -> Snapshot:
    """Maps the model in ``path``. Raises KeptLost when the file is gone, damaged or of another version."""
    with kept("The column file is", path, _AGAIN):
        return _read(path)


def _read(path: str) -> Snapshot:
    table, header = read_columns(path)
    if header.pop("version") != SCHEMA_VERSION:
        raise CacheFileLost("The column file is of another version.", path, _AGAIN)
    sections = {
        name: kind(
            **{f.name: table[f"{name}.{f.name}"].chunk(0).values.to_numpy(zero_copy_only=True) for f in fields(kind)}
        )
        for name, kind in _SECTIONS.items()
    }
    return Snapshot(
        **sections,
        first=np.array(header["first"], np.int64),
        strings=StringTable(table["strings"].chunk(0).values),
        streams=tuple(header["streams"]),
        pools=tuple((first, second) for first, second in header["pools"]),
        device_ids=tuple(header["device_ids"]),
        settings=header["settings"],
        report=report_of(header["report"]),
        recorder=recorder_of(header["recorder"]),
        device_type=header["device_type"],
        has_history=header["has_history"],
        origin_ns=header["origin_ns"],
        has_times=header["has_times"],
        oddities=tuple(Oddities(**each) for each in header["oddities"]),
        overflowed=tuple(header["overflowed"]),
        max_entries=header["max_entries"],
    )
