"""Profiles of NPUs in memory, of a few rows each, and the recorded ones where they are."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tb_plugin.formats.ascend.reader import AscendReader
from tb_plugin.formats.base import Candidate, ListedFile, ReadOptions, no_progress
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.storage.files import FileSource
from tests.formats.sources import DATA

Json = dict[str, Any]
OUTPUT = "ASCEND_PROFILER_OUTPUT/"
RECORDED = DATA / "ascend" / "logdir"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings of NPUs are in ../shared")
ALEXNET = RECORDED / "alexnet_text_level1" / "rank_0_20250109074804023_ascend_pt"
QWEN = RECORDED / "qwen3_pp2_dp2_level2" / "rank_0_20251127123438131_ascend_pt"
GPT = RECORDED / "gpt3_2023_level1" / "rank_0_20230919172305_ascend_pt"


@dataclass(frozen=True)
class Files:
    """A Source of several files in memory."""

    content: Mapping[str, bytes]

    def names(self) -> Sequence[str]:
        return list(self.content)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.content[name])

    def size(self, name: str) -> int:
        return len(self.content[name])


def files(**tables: Any) -> Files:
    """Files of a profile: ``kernel_details="Name\\n..."`` is a table, what is no text is JSON."""
    made = {}
    for name, value in tables.items():
        ending = "csv" if isinstance(value, str) and not name.startswith(("trace", "communication")) else "json"
        place = "" if name.startswith("profiler") else OUTPUT
        text = value if isinstance(value, str) else json.dumps(value)
        made[f"{place}{name}.{ending}"] = text.encode()
    return Files(made)


def raw_of(source: Any, chunk_bytes: int = 512 * 1024) -> RawTrace:
    return AscendReader().read(source, ReadOptions(chunk_bytes), no_progress)


def table_of(source: Any) -> TraceTable:
    return assemble(raw_of(source))


def folder(path: Path) -> FileSource:
    """A recorded profile."""
    names = [str(file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
    return FileSource({name: str(path / name) for name in names})


def found(*paths: str) -> list[Candidate]:
    return AscendReader().find([ListedFile(path, 100, "f") for path in paths])


def process(pid: int, name: str, label: str = "") -> list[Json]:
    made = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}]
    labels = {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}}
    return [*made, labels] if label else made


def thread(pid: int, tid: int, name: str) -> Json:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def x(name: str, pid: int, tid: int, ts: Any, dur: Any, cat: str | None = None, **args: Any) -> Json:
    made = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return {**made, "cat": cat} if cat else made


def arrow(cat: str, name: str, number: Any, begin: tuple[int, int, Any], end: tuple[int, int, Any]) -> list[Json]:
    return [
        {"ph": ph, "name": name, "id": number, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "bp": "e"}
        for ph, (pid, tid, ts) in (("s", begin), ("f", end))
    ]


def codes(raw: RawTrace, file: str = "") -> set[str]:
    """What the report tells, of one file or of all."""
    return {issue.code for issue in raw.report.issues if not file or issue.file == file}
