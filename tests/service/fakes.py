"""Tasks for worker processes and small traces: what the tests of service, web, cli and api share."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import UnreadableTrace
from tb_plugin.readers import READERS
from tb_plugin.readers.kineto import KinetoReader
from tb_plugin.service.budget import need_bytes, seen_sizes
from tb_plugin.service.catalog import ProfileCatalog
from tb_plugin.service.discovery import Root, Scanner
from tb_plugin.service.worker import Progress
from tb_plugin.storage.files import Folder

TASKS = "tests.service.fakes"


def event(name: str, ts: int, dur: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def trace_text(*names: str) -> str:
    """A trace of one operator per name, in two profiler steps."""
    names = names or ("aten::mm", "aten::add")
    steps = [event(f"ProfilerStep#{i}", i * 100, 100, cat="user_annotation") for i in (5, 6)]
    ops = [event(name, 510 + i * 100 % 200, 10) for i, name in enumerate(names)]
    return json.dumps({"schemaVersion": 1, "traceEvents": steps + ops})


def write_trace(path: Path, *names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = trace_text(*names).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def catalog_of(*urls: str | Path) -> ProfileCatalog:
    return ProfileCatalog(Scanner([Root(Folder(str(url))) for url in urls], READERS), every_seconds=0.1)


def need_of(*paths: str | Path) -> int:
    """What a worker takes that reads these local traces of torch.profiler as one profile."""
    return need_bytes(KinetoReader(), seen_sizes({str(path): str(path) for path in paths}))


def until(condition: Any, seconds: float = 20.0) -> bool:
    """Waits for a condition; False when it did not come true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def echo(value: Any, *, report: Any) -> Any:
    return value


def arrays(*, report: Any) -> tuple[list[int], bool]:
    """What pyarrow makes of a column, and whether it brought pandas along."""
    return pa.array(np.arange(3)).to_pylist(), "pandas" in sys.modules


def pid(*, report: Any) -> int:
    return os.getpid()


def slow(seconds: float, *, report: Any) -> int:
    """Reports a growing fraction while it sleeps."""
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        report(Progress("sleeping", passed / seconds))
        time.sleep(0.02)
    return os.getpid()


def chatty(reports: int, *, report: Any) -> None:
    """Reports far more often than anybody can look, then names a second stage once."""
    for i in range(reports):
        report(Progress("first", i / reports, i))
    report(Progress("second", 1.0, reports))


def noisy(*, report: Any) -> str:
    print("a library prints something")
    return "quiet"


def ready(*, report: Any) -> None:
    """Nothing to import."""


def refuse(*, report: Any) -> None:
    raise UnreadableTrace("It is no trace.", "x.json", "Record another.")


def stumble(*, report: Any) -> None:
    raise KeyError("a bug")


def die_times(marks: str, times: int, *, report: Any) -> str:
    """Kills its own process as the out-of-memory killer would, ``times`` times; then succeeds."""
    folder = Path(marks)
    died = len(list(folder.iterdir()))
    if died < times:
        (folder / str(died)).touch()
        os.kill(os.getpid(), 9)
    return f"after {died}"


def parse(reader_id: str, paths: dict[str, str], target: str, summary_target: str, limits: Any, *, report: Any) -> Any:
    """The real parse, slowed down and counted: one line in ``parses.log`` beside the first file."""
    from tb_plugin.service import tasks

    first = Path(next(iter(paths.values())))
    with (first.parent / "parses.log").open("a") as log:
        log.write(f"{os.getpid()}\n")
    if "deadly" in first.name:
        os.kill(os.getpid(), 9)
    for step in range(200 if "slow" in first.name else 10):
        report(Progress("reading", step / 200, step * 10, {"operator": step * 10}))
        time.sleep(0.05)
    return tasks.parse(reader_id, paths, target, summary_target, limits, report=report)


def view(*args: Any, report: Any) -> bytes:
    from tb_plugin.service import tasks

    return tasks.view(*args, report=report)


def die(how: str, *, report: Any) -> None:
    """Ends its process: ``kill`` as the system does, ``memory`` as a failed allocation does, ``exit`` as a library may."""
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "memory":
        raise MemoryError
    sys.stderr.write("libfoo: cannot go on\n")
    os._exit(1)


def packer(*, report: Any) -> str:
    """Where the library that unpacks gzip comes from."""
    import isal

    return str(isal.__file__)
