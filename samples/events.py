"""Builders for Kineto events and reproducible files."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

Json = dict[str, Any]
Time = int | float
MIB = 1 << 20
H100 = {
    "name": "Synthetic H100 (not a recording)", "totalGlobalMem": 85_018_279_936, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65_536, "warpSize": 32,
    "sharedMemPerBlock": 49_152, "numSms": 132,
}  # fmt: skip
"""Invented device with H100 figures."""
H100_LIMITS = {
    "regsPerMultiprocessor": 65_536,
    "sharedMemPerBlockOptin": 232_448,
    "sharedMemPerMultiprocessor": 233_472,
}


class Timeline:
    """Events in the order and with the keys of Kineto. Times are microseconds, written as they are."""

    def __init__(self) -> None:
        self.events: list[Json] = []

    def raw(self, **event: Any) -> Self:
        self.events.append(event)
        return self

    def span(self, category: str | None, name: str, at: Time, dur: Time | None, pid: Any, tid: Any, args: Json) -> Self:
        """A range. A category or duration that is None is left out."""
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur}
        self.events.append({**{key: value for key, value in event.items() if value is not None}, "args": args})
        return self

    def memory_event(self, at: Time, pid: Any, tid: Any, args: Json) -> Self:
        return self.raw(ph="i", cat="cpu_instant_event", s="t", name="[memory]", pid=pid, tid=tid, ts=at, args=args)

    def flow(self, phase: str, category: str, number: int, at: Time, pid: Any, tid: Any) -> Self:
        """The start ("s") or end ("f") of an arrow, on the range that starts then."""
        end = {"bp": "e"} if phase == "f" else {}
        return self.raw(ph=phase, id=number, pid=pid, tid=tid, ts=at, cat=category, name=category, **end)

    def counter_event(self, name: str, at: Time, pid: Any, tid: Any, values: Json) -> Self:
        return self.raw(ph="C", name=name, pid=pid, tid=tid, ts=at, args=values)

    def metadata(self, what: str, pid: Any, tid: Any, at: Time, args: Json) -> Self:
        """A fact about a process or thread, such as its name (thread_name)."""
        return self.raw(ph="M", name=what, pid=pid, tid=tid, ts=at, args=args)

    def window(self, at: Time, dur: Time, end: Time) -> Self:
        """The rows with which Kineto ends: the profiler's own range, its iteration, the end of the recording."""
        tool = "PyTorch Profiler"
        self.span("Trace", f"{tool} (0)", at, dur, "Spans", tool, {"Op count": 0})
        self.raw(ph="i", s="g", name=f"Iteration Start: {tool}", pid="Traces", tid=f"Trace {tool}", ts=at)
        return self.raw(ph="i", s="g", name="Record Window End", pid="", tid="", ts=end)


def distributed_info(rank: int, world_size: int, groups: Iterable[tuple[str, str, Sequence[int]]]) -> Json:
    """Returns ``distributedInfo`` with these groups: name, description and ranks."""
    listed = [
        {"pg_name": name, "pg_desc": description, "backend_config": "cuda:nccl", "pg_size": len(ranks), "ranks": list(ranks)}
        for name, description, ranks in groups
    ]  # fmt: skip
    return {
        "backend": "nccl", "rank": rank, "world_size": world_size, "pg_count": len(listed), "pg_config": listed,
        "nccl_version": "2.27.5",
    }  # fmt: skip


def micros(ns: int) -> str:
    """Microseconds with all digits."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def strides(shape: Sequence[int]) -> list[int]:
    """Strides of a dense tensor; none for a scalar."""
    found = [1]
    for size in reversed(shape[1:]):
        found.insert(0, found[0] * size)
    return found if shape else []


Request = TypeVar("Request")
Answer = TypeVar("Answer")


def resumed(program: Generator[Request, Answer, None], answer: Answer) -> Request | None:
    """Resumes a rank with an answer. Returns its next request; None at its end."""
    try:
        return program.send(answer)
    except StopIteration:
        return None


def write_pieces(path: Path, pieces: Iterable[str], level: int = 9) -> Path:
    """Writes a text in pieces, compressed if the name ends in .gz. Without a time: equal plans give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=level) as packed:
                packed.writelines(piece.encode() for piece in pieces)
        else:
            raw.writelines(piece.encode() for piece in pieces)
    return path


def sqlite_file(
    tables: Mapping[str, str], rows: Mapping[str, Iterable[tuple[Any, ...]]], page_bytes: int = 4096
) -> bytes:
    """The content of a database: columns and rows of each table."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    for table, columns in tables.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        for row in rows.get(table, ()):
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    content = connection.serialize()
    connection.close()
    return content


def write_truth(path: Path | None, truth: Json, indent: int | None = None) -> None:
    """Writes the truth beside a run, if a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(truth, indent=indent) + "\n")
        print(path)
