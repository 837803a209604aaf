"""Sources for reader tests: bytes in memory, and shorthand for reading them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pytest

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import RawTrace

REPO = Path(__file__).resolve().parents[2]
SHARED = REPO.parent / "shared"
DATA = SHARED / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real traces of ../shared/data are not here")


@dataclass(frozen=True)
class Bytes:
    """A Source of one file in memory."""

    content: bytes
    name: str = "worker0.pt.trace.json"

    def names(self) -> Sequence[str]:
        return [self.name]

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.content)

    def size(self, name: str) -> int:
        return len(self.content)


def read(content: bytes | str | Path, chunk_bytes: int = 512 * 1024) -> RawTrace:
    if isinstance(content, Path):
        content = content.read_bytes()
    if isinstance(content, str):
        content = content.encode()
    return KinetoReader().read(Bytes(content), ReadOptions(chunk_bytes), no_progress)


def read_events(*events: Any, **root: Any) -> RawTrace:
    """Events as dicts, or as raw text where JSON would refuse them."""
    return read(trace_text(*events, **root))


def trace_text(*events: Any, **root: Any) -> str:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    head = "".join(f'"{key}": {json.dumps(value)}, ' for key, value in root.items())
    return "{" + head + '"traceEvents": [\n' + ",\n".join(texts) + "\n]}"


def op(
    name: str = "aten::mm", ts: Any = 1, dur: Any = 2, cat: str = "cpu_op", pid: Any = 1, tid: Any = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def names(trace: RawTrace) -> list[str]:
    return [trace.strings[i] for i in trace.name]


def kinds(trace: RawTrace) -> list[EventKind]:
    return [EventKind(int(kind)) for kind in trace.kind]


def issues(trace: Any) -> dict[str, int]:
    """Counts of what a reader reports, by code."""
    return {issue.code: issue.count for issue in trace.report.issues}


def plain(trace: RawTrace) -> dict[str, Any]:
    """Everything in a trace as comparable Python values; string ids replaced by texts, since ids depend on order."""
    return {item: _plain(getattr(trace, item), item, trace) for item in trace.__struct_fields__ if item != "strings"}


_IDS = {
    "name", "category", "pid", "tid", "shapes", "types", "strides", "concrete", "stack", "stream", "grid", "block",
    "dtype", "group_name", "group_ranks", "start_pid", "start_tid", "end_pid", "end_tid",
}  # fmt: skip


def _plain(value: Any, name: str, trace: RawTrace) -> Any:
    if isinstance(value, np.ndarray):
        if name in _IDS:
            return [trace.strings[i] for i in value]
        return [None if x != x else x for x in value.tolist()]
    if name == "others":
        return [
            (c.key, c.row.tolist(), [trace.strings[i] for i in c.value] if c.is_text else c.value.tolist())
            for c in value
        ]
    if isinstance(value, msgspec.Struct) and name not in ("report", "devices"):
        return {item: _plain(getattr(value, item), item, trace) for item in value.__struct_fields__}
    return value
