"""Kills of the processes of a read: no process remains, and the cache holds a whole profile or none.

A server process reads a trace through the worker pool. Its worker has two decoder processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tb_plugin.formats._chrome import pieces
from tb_plugin.formats._chrome.memory_estimate import PER_TEXT_BYTE
from tb_plugin.service.workers.memory_budget import MIN_DIVIDED_BYTES
from tests.depth import DEEP, needs_time

pytestmark = [
    needs_time,
    pytest.mark.skipif(not pieces.is_supported(), reason="decoder processes are forked on Linux only"),
]

SERVER = """
import hashlib, sys
from pathlib import Path
from tb_plugin.analysis.base import Params
from tb_plugin.errors import TorchTraceError
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import Pool
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import FileStore

def main():
    workspace = Workspace(open_catalog([("", sys.argv[1])]), Pool(1), FileStore(Path(sys.argv[2]), 10**9))
    workspace.catalog.scan()
    print("started", flush=True)
    place = Place(*workspace.catalog.entries()[0].key)
    try:
        workspace.load(place)
        answer = workspace.view(place, "kernels", Params())
    except TorchTraceError as error:
        print("error", error, flush=True)
    else:
        print("answer", hashlib.sha256(answer).hexdigest(), flush=True)
    workspace.close()
    print("closed", flush=True)

main()
"""
KILLS = 20 if DEEP else 2
# Decoders live longer.
DECODING_S = 0.1
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Returns a folder with a trace that is large enough for decoder processes."""
    folder = tmp_path_factory.mktemp("logs")
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 1, "args": {"stream": 7}}
    block = b",".join(
        json.dumps(event | {"name": f"kernel {i % 50}", "ts": i, "pad": "x" * 250}).encode() for i in range(10_000)
    )
    count = int(MIN_DIVIDED_BYTES / PER_TEXT_BYTE) // len(block) + 2
    with (folder / "w0.1.pt.trace.json").open("wb") as file:
        file.write(b'{"schemaVersion": 1, "traceEvents": [\n')
        for number in range(count):
            file.write(block + (b",\n" if number < count - 1 else b"\n]}"))
    return folder


def start(logs: Path, cache: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"TORCH_TRACE_DECODERS": "2", "TORCH_TRACE_MEMORY_MB": "2000"}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(logs), str(cache)],
        env=environment,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        listed = [path.read_text("ascii") for path in Path(f"/proc/{pid}/task").glob("*/children")]
        return [int(child) for text in listed for child in text.split()]
    return []


def tree(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from tree(child)


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    return False


def watched(server: subprocess.Popen[str], seen: set[int], until_s: float) -> None:
    """Adds the processes of the server to ``seen``, for a number of seconds or until it ends."""
    end = time.monotonic() + until_s
    while time.monotonic() < end and server.poll() is None:
        seen.update(tree(server.pid))
        time.sleep(0.005)


def waited_for(listed: Callable[[], list[int]], seen: set[int], server: subprocess.Popen[str]) -> int:
    """Returns the first process of a list as soon as there is one."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and server.poll() is None:
        if found := listed():
            seen.update(tree(server.pid))
            return found[0]
        time.sleep(0.002)
    raise AssertionError("the process did not start")


def outcome(server: subprocess.Popen[str]) -> list[str]:
    try:
        output, _ = server.communicate(timeout=LIMIT_S)
    finally:
        server.kill()
    return output.splitlines()


@pytest.fixture(scope="module")
def undisturbed(logs, tmp_path_factory) -> list[str]:
    """Returns the output of a server whose processes all end by themselves."""
    server = start(logs, tmp_path_factory.mktemp("cache"))
    seen: set[int] = set()
    watched(server, seen, LIMIT_S)
    lines = outcome(server)
    assert len(seen) >= 3, "the worker had no decoder processes"
    assert [line.split()[0] for line in lines] == ["started", "answer", "closed"]
    return lines


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("role", ["server", "worker", "decoder"])
def test_a_kill_leaves_no_process_and_one_state(logs, undisturbed, tmp_path, role, seed):
    chance = random.Random(f"{role} {seed}")
    server = start(logs, tmp_path / "cache")
    seen: set[int] = set()
    try:
        worker = waited_for(lambda: children(server.pid), seen, server)
        if role == "decoder" or seed % 2:
            waited_for(lambda: children(worker), seen, server)
        # A server or worker is also killed while it starts, assembles or writes.
        watched(server, seen, chance.random() * (DECODING_S if role == "decoder" else 10 * DECODING_S))
        targets = {"server": [server.pid], "worker": [worker], "decoder": children(worker)}[role]
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(chance.choice(targets), signal.SIGKILL)
        watched(server, seen, LIMIT_S)
        lines = outcome(server)
    finally:
        server.kill()
    end = time.monotonic() + 10
    while any(map(is_running, seen)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [pid for pid in seen if is_running(pid)]
    if role == "server":
        assert lines == undisturbed[: len(lines)]
    else:
        assert lines == undisturbed, "the read was repeated"
    # The cache holds a whole profile or none: the next server gives the same answer.
    assert outcome(start(logs, tmp_path / "cache")) == undisturbed
