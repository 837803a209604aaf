"""A read in several processes equals a read in one process."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tb_plugin.errors import Cancelled, UnreadableTrace
from tb_plugin.formats._chrome import pieces
from tb_plugin.formats._chrome.pieces import Pieces
from tb_plugin.formats.base import Progress, Reader, ReadOptions, ReadState, Source, no_progress
from tb_plugin.formats.chrome_json.reader import ChromeJsonReader
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.service.workers import memory_budget
from tb_plugin.service.workers.memory_budget import DECODER_BYTES, MIN_DIVIDED_BYTES, PROCESS_BYTES, decoders
from tests.depth import DEEP, deep, needs_time, sampled
from tests.samples import SAMPLES

from .hostile import CASES
from .hostile import Pieces as Blocks
from .sources import Bytes, op, trace_text
from .test_kineto_property import BASE, JUNK

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
READERS: dict[str, Callable[[], Reader[Any]]] = {"kineto": KinetoReader, "chrome": ChromeJsonReader}
EVENTS = [op(f"op {i}", ts=i, **{"Input Dims": [[i]]}) for i in range(2_000)]

pytestmark = pytest.mark.skipif(not pieces.is_supported(), reason="decoder processes are forked on Linux only")


def exact(value: Any) -> Any:
    """Returns arrays as type and bytes, so that NaN equals NaN and text ids are compared too."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, msgspec.Struct):
        return {name: exact(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return [(key, exact(each)) for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [exact(each) for each in value]
    return value


def outcome(source: Source, reader: str, options: ReadOptions, progress: Progress = no_progress) -> dict[str, Any]:
    try:
        trace = READERS[reader]().read(source, options, progress)
    except UnreadableTrace as error:
        return {"error": error.what}
    return exact(trace) | {"strings": list(trace.strings)}


def check(
    source: Callable[[], Source], chunk_bytes: int, piece_bytes: int, processes: int, reader: str = "kineto"
) -> dict[str, Any]:
    one, other = (
        outcome(source(), reader, ReadOptions(chunk_bytes, decoders=count, piece_bytes=piece_bytes))
        for count in (1, processes)
    )
    assert [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)] == []
    return one


def text_of(path: Path) -> bytes:
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError):
        return content


def recordings() -> list[Path]:
    found = [path for folder in (SAMPLES, DATA) for path in folder.rglob("*.json*") if path.is_file()]
    return sorted(path for path in found if path.stat().st_size < 30_000_000)


SOME = [
    path for path in recordings() if path.parent.name in ("resnet_cpu", "synthetic_gpu", "chromium", "viztracer_cpu")
]


@needs_time
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", sampled(recordings(), SOME), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_recordings(path, reader):
    text = text_of(path)
    chunk = max(512, len(text) // 150)
    for processes in (2, 3, 7) if DEEP else (2,):
        check(lambda: Bytes(text), chunk, 4 * chunk, processes, reader)


# values that change the type of a column, the state of the decoder or the names
VALUES = [1, 2**40, 2**70, 1.5, "x", "y\ud800", None, True, [1, 2], {"a": 1}, -1, 1e300, "", "0x1f"]
KEYS = [
    "Input Dims", "Call stack", "stream", "grid", "device", "Python module id", "Collective name", "External id",
    "correlation", "bytes", "size", "a", "b", "c", 'a"b', "d", "graph node id", "Record function id", "name",
]  # fmt: skip
CATEGORIES = [
    "cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "python_function", "user_annotation", "cpu_instant_event",
    "fwdbwd", "ac2g", "Trace", "odd", "mtia_insight", None, "overhead", "gpu_op", "cuda_profiler_range",
]  # fmt: skip
NAMES = ["a", "b", "[memory]", "[OutOfMemory]", "ProfilerStep#1", "process_name", "thread_name", "é", None, 7]


def random_event(chance: random.Random, odd: float) -> dict[str, Any]:
    unusual = chance.random() < odd
    phase = chance.choice("XXXXXXsfCMiBEbe") if unusual else chance.choice("XXXXXXXsfC")
    event: dict[str, Any] = {
        "ph": phase,
        "cat": chance.choice(CATEGORIES if unusual else CATEGORIES[:9]),
        "name": chance.choice(NAMES) if unusual else f"op {chance.randrange(40)}",
        "pid": chance.choice([1, "1", 2, "CPU functions"]) if unusual else chance.randrange(3),
        "tid": chance.choice([1, 1.0, "x", None]) if unusual else chance.randrange(3),
        "ts": chance.choice([2**60 + 0.5, "12.345", 1e19, -5, None]) if unusual else chance.randrange(10**6) / 8,
        "dur": chance.choice([2**70, "7", None, 3]) if unusual else chance.randrange(1000),
    }
    if phase in "sf" or unusual:
        event["id"] = chance.choice([1, 2, 3, "4", 2**33, None])
    if unusual and chance.random() < 0.3:
        event |= {"bind_id": chance.randrange(5), "flow_in": chance.random() < 0.5, "flow_out": chance.random() < 0.5}
    if unusual:
        event["args"] = {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randrange(6))}
    else:
        event["args"] = {
            key: chance.randrange(30) if key in ("device", "stream", "a", "correlation") else f"v{chance.randrange(30)}"
            for key in chance.sample(KEYS, chance.randrange(6))
        }
    return event


def random_file(chance: random.Random) -> bytes:
    """Returns a trace with unusual values, damaged text, several lists and cut archives."""
    if chance.random() < 0.1:
        content = bytearray(BASE)
    else:
        odd = chance.choice([0.0, 0.001, 0.003, 0.01, 0.3])
        events = [random_event(chance, odd) for _ in range(chance.randrange(300, 2_000))]
        if chance.random() < 0.1:
            events += [op(**{f"n{i}": i}) for i in range(150)]
        parts = [trace_text(*events[: len(events) // 2]), trace_text(*events[len(events) // 2 :])]
        kind = chance.randrange(6)
        text = trace_text(*events) if kind else parts[0][:-1] + "," + parts[1][1:]
        content = bytearray((json.dumps(events) if kind == 1 else text).encode())
        content = content.replace(b'"op 7"', b'"%s"' % (b"n" * 5_000), chance.choice([0, 0, 0, 2]))
    for _ in range(chance.choice([0, 0, 0, 1, 2, 6, 20])):
        at = chance.randrange(len(content))
        content[at : at + chance.randrange(30)] = chance.choice(JUNK)
    if chance.random() < 0.2:
        del content[chance.randrange(len(content)) :]
    if chance.random() < 0.1:
        packed = gzip.compress(bytes(content))
        return packed[: chance.randrange(len(packed))] if chance.random() < 0.5 else packed
    return bytes(content)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("seed", range(3_000 if DEEP else 60))
def test_random_files(seed, reader):
    chance = random.Random(seed)
    content = random_file(chance)
    chunk_bytes = chance.choice([300, 700, 2_000])
    check(
        lambda: Bytes(content), chunk_bytes, chance.choice([2, 4, 12]) * chunk_bytes, chance.choice([2, 3, 7]), reader
    )


@deep
@pytest.mark.parametrize("processes", (2, 3, 7))
@pytest.mark.parametrize("case", CASES)
def test_hostile_files(case, processes):
    check(lambda: Blocks(CASES[case]()), 64 * 1024, 256 * 1024, processes)


OPTIONS = ReadOptions(2_000, decoders=2, piece_bytes=8_000)


def children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text("ascii").split()]


@pytest.mark.parametrize("stage", ["_send", "_merge"])
def test_a_killed_process_changes_nothing(monkeypatch, stage):
    source = Bytes(trace_text(*EVENTS).encode())
    expected = outcome(source, "kineto", ReadOptions(2_000))
    unchanged = getattr(Pieces, stage)
    killed: list[int] = []

    def kill(self: Pieces) -> None:
        if self._processes and len(killed) < 3:
            killed.append(self._processes[0].pid)
            os.kill(killed[-1], signal.SIGKILL)
        unchanged(self)

    monkeypatch.setattr(Pieces, stage, kill)
    assert outcome(source, "kineto", OPTIONS) == expected
    assert killed


def test_no_processes_and_no_memory(monkeypatch):
    source = Bytes(trace_text(*EVENTS).encode())

    def refuse() -> int:
        raise BlockingIOError

    expected = outcome(source, "kineto", ReadOptions(2_000))
    monkeypatch.setattr(os, "fork", refuse)
    assert outcome(source, "kineto", OPTIONS) == expected


@pytest.mark.parametrize("error", [Cancelled("x"), KeyboardInterrupt()])
def test_a_cancelled_read_leaves_no_process(error):
    before, seen = set(children()), set()

    def cancel(state: ReadState) -> None:
        seen.update(set(children()) - before)
        if seen:
            raise error

    content = trace_text(*EVENTS, *EVENTS, *EVENTS).encode()
    with pytest.raises(type(error)):
        KinetoReader().read(Bytes(content), ReadOptions(2_000, decoders=2, piece_bytes=8_000), cancel)
    assert seen
    assert set(children()) == before


def test_a_killed_parent_leaves_no_process(tmp_path):
    script = """
        import os, signal, sys
        from tb_plugin.formats._chrome.pieces import Pieces
        from tests.formats.test_cores import EVENTS, OPTIONS, Bytes, children, outcome, trace_text

        merge = Pieces._merge
        def die(self):
            print(*children(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        Pieces._merge = die
        outcome(Bytes(trace_text(*EVENTS).encode()), "kineto", OPTIONS)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    orphans = [int(pid) for pid in run.stdout.split()]
    assert len(orphans) == 2
    end = time.monotonic() + 10
    while any(is_running(pid) for pid in orphans) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(is_running(pid) for pid in orphans)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_number_of_processes(monkeypatch):
    monkeypatch.setattr(memory_budget, "cores", lambda: 4)
    monkeypatch.delenv("TORCH_TRACE_DECODERS", raising=False)
    large = PROCESS_BYTES + MIN_DIVIDED_BYTES
    assert decoders(large - 1, 10**12) == 1
    assert decoders(large, 10**12) == 4
    assert decoders(large, large + 3 * DECODER_BYTES) == 3
    assert decoders(large, large + DECODER_BYTES) == decoders(large, 0) == 1
    monkeypatch.setattr(memory_budget, "cores", lambda: 64)
    assert decoders(large, 10**12) == 8
    for text, expected in (("1", 1), ("3", 3), ("0", 8), ("many", 8)):
        monkeypatch.setenv("TORCH_TRACE_DECODERS", text)
        assert decoders(large, 10**12) == expected
