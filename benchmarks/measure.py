"""Costs of a command: CPU time and memory of its whole process tree (Linux)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    """A command that did not come to a good end, and why in one line."""


@dataclass(frozen=True)
class Cost:
    """``largest_bytes`` is the peak of the largest process, ``tree_bytes`` the peak of the sum over the tree."""

    cpu_s: float
    wall_s: float
    largest_bytes: int
    tree_bytes: int
    output: str


def measure(command: Sequence[str], environment: Mapping[str, str], seconds: float, most_bytes: float) -> Cost:
    """Runs a command to its end. Raises Failed, also when it takes longer or its process tree gets larger."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    watch = _Watch(process.pid, begin + seconds, most_bytes)
    watch.start()
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    # Usage of the process and of all descendants that were waited for.
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    watch.stop()
    if watch.why:
        raise Failed(watch.why)
    if process.returncode != 0:
        raise Failed(next(reversed(output.strip().splitlines()), f"exit code {process.returncode}"))
    # Linux begins the peak of a new program with that of the process that started it: then the samples say more.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = 1024 * usage.ru_maxrss if usage.ru_maxrss > own else watch.largest_bytes
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, largest, watch.peak_bytes, output)


class _Watch(threading.Thread):
    """Samples the resident memory of a process tree, and kills it when it takes too much or too long."""

    def __init__(self, root: int, deadline: float, most_bytes: float) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self.largest_bytes = 0
        self.why = ""
        self._root = root
        self._deadline = deadline
        self._most_bytes = most_bytes
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            sizes = [resident(pid) for pid in tree(self._root)]
            now = sum(sizes)
            self.largest_bytes = max(self.largest_bytes, *sizes)
            self.peak_bytes = max(self.peak_bytes, now)
            if now > self._most_bytes:
                self.why = f"more than {self._most_bytes / 1e9:,.0f} GB of memory"
            elif time.monotonic() > self._deadline:
                self.why = "not done within the time limit"
            if self.why:
                # The session it began: all its descendants, whatever they wait for.
                os.killpg(self._root, signal.SIGKILL)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    found = [root]
    for pid in found:
        with contextlib.suppress(OSError):  # ended meanwhile
            for path in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in path.read_text().split()]
    return found


def resident(pid: int) -> int:
    """Bytes of memory that it has; 0 once it ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
