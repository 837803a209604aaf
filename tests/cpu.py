"""CPU time of the tests by folder and file (``make test ARGS="-p tests.cpu"``)."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

before_s = 0.0
running: dict[str, str] = {}
"""Processes below this one at the last look: pid -> start time, which tells a process from a later one of its number."""
seconds: Counter[str] = Counter()
cases: Counter[str] = Counter()


def _children(pid: str, thread: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    except OSError:
        return []


def _descendants(pid: str, threads: list[str]) -> Generator[str]:
    for thread in threads:
        for child in _children(pid, thread):
            yield child
            yield from _descendants(child, [child])


def _used_s() -> float:
    """CPU time of this process, of the processes it waited for, and of those that run below it."""
    global running
    own = os.times()
    total = time.process_time() + own.children_user + own.children_system
    found: dict[str, str] = {}
    # A thread starts the workers. The kernel may omit children while others end: the last ones are looked at again.
    below = _descendants(str(os.getpid()), [task.name for task in Path("/proc/self/task").iterdir()])
    for pid in {**dict.fromkeys(below, ""), **running}:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if running.get(pid, fields[19]) == fields[19]:
            found[pid] = fields[19]
            total += sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    running = found
    return total


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Notes on each report what was used since the one before; pytest-xdist hands it on."""
    global before_s
    report = yield
    now_s = _used_s()
    report.cpu_s, before_s = max(0.0, now_s - before_s), now_s
    return report


def pytest_runtestloop() -> None:
    """Leaves out what collecting the tests took."""
    global before_s
    before_s = _used_s()


def pytest_runtest_logreport(report: Any) -> None:
    """Adds up by test."""
    seconds[report.nodeid] += report.cpu_s
    cases[report.nodeid] += report.when == "call"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints folders, then the files that took most; TEST_CPU names a file for all tests."""
    if where := os.environ.get("TEST_CPU"):
        Path(where).write_text(json.dumps(seconds), encoding="utf-8")
    for title, most, key in (("folder", 100, 2), ("file", 30, 9)):
        used, count = Counter[str](), Counter[str]()
        for node in seconds:
            path = node.partition("::")[0]
            name = "/".join(path.split("/")[:key]) if path.count("/") > 1 or key > 2 else "tests"
            used[name] += seconds[node]
            count[name] += cases[node]
        terminalreporter.write_sep("-", f"CPU time by {title}")
        for name, total in used.most_common(most):
            terminalreporter.write_line(f"{total:8.1f} s {count[name]:6}  {name}")
        terminalreporter.write_line(f"{used.total():8.1f} s {count.total():6}  in all")
