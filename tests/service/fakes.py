"""Questions for worker processes and small traces: what the tests of service, web, cli and api share."""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import pyarrow as pa

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.lib.isolation import isolated
from tb_plugin.service.catalog import ProfileCatalog
from tb_plugin.service.discovery.scan import Root, Scanner
from tb_plugin.service.workers.memory_budget import local_file_sizes, peak_memory_bytes
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import Parse, Summary
from tb_plugin.service.workers.pool import InlineWorkers, Pool, Workers
from tb_plugin.service.workers.question import Job, Progress, Question, Report
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.storage.files import Folder


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
    return ProfileCatalog(Scanner([Root(Folder(str(url))) for url in urls], registry.readers()), every_seconds=0.1)


@contextmanager
def workspace_of(logs: str | Path, cache: Path, workers: Workers | None = None) -> Iterator[Workspace]:
    """A workspace, closed at the end; by default it works in this process."""
    workspace = Workspace(catalog_of(logs), workers or InlineWorkers(), FileStore(cache))
    try:
        yield workspace
    finally:
        workspace.close()


def need_of(*paths: str | Path) -> int:
    """What a worker takes that reads these local traces of torch.profiler as one profile."""
    return peak_memory_bytes(KinetoReader(), local_file_sizes({str(path): str(path) for path in paths}))


def until(condition: Any, seconds: float = 20.0) -> bool:
    """Waits for a condition; False when it did not come true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Echo(Generic[T]):
    value: T

    def answer(self, models: OpenModels, report: Report) -> T:
        return self.value


@dataclass(frozen=True)
class Arrays:
    """What pyarrow makes of a column, and whether it brought pandas along."""

    def answer(self, models: OpenModels, report: Report) -> tuple[list[int], bool]:
        return pa.array(np.arange(3)).to_pylist(), "pandas" in sys.modules


@dataclass(frozen=True)
class Pid:
    def answer(self, models: OpenModels, report: Report) -> int:
        return os.getpid()


@dataclass(frozen=True)
class Slow:
    """Reports a growing fraction while it sleeps."""

    seconds: float

    def answer(self, models: OpenModels, report: Report) -> int:
        start = time.monotonic()
        while (passed := time.monotonic() - start) < self.seconds:
            report(Progress("sleeping", passed / self.seconds))
            time.sleep(0.02)
        return os.getpid()


@dataclass(frozen=True)
class Chatty:
    """Reports far more often than anybody can look, then names a second stage once."""

    reports: int

    def answer(self, models: OpenModels, report: Report) -> None:
        for i in range(self.reports):
            report(Progress("first", i / self.reports, i))
        report(Progress("second", 1.0, self.reports))


@dataclass(frozen=True)
class Noisy:
    def answer(self, models: OpenModels, report: Report) -> str:
        print("a library prints something")
        return "quiet"


@dataclass(frozen=True)
class Refuse:
    def answer(self, models: OpenModels, report: Report) -> None:
        raise UnreadableTrace("The file is not a trace.", "x.json", "Record another.")


@dataclass(frozen=True)
class Stumble:
    def answer(self, models: OpenModels, report: Report) -> None:
        raise KeyError("a bug")


@dataclass(frozen=True)
class DieTimes:
    """Kills its own process as the out-of-memory killer would, ``times`` times; then succeeds."""

    marks: str
    times: int

    def answer(self, models: OpenModels, report: Report) -> str:
        folder = Path(self.marks)
        died = len(list(folder.iterdir()))
        if died < self.times:
            (folder / str(died)).touch()
            os.kill(os.getpid(), 9)
        return f"after {died}"


@dataclass(frozen=True)
class Die:
    """Ends its process: ``kill`` as the system does, ``memory`` as a failed allocation does, ``exit`` as a library may."""

    how: str

    def answer(self, models: OpenModels, report: Report) -> None:
        if self.how == "kill":
            os.kill(os.getpid(), 9)
        if self.how == "memory":
            raise MemoryError
        sys.stderr.write("libfoo: cannot go on\n")
        os._exit(1)


@dataclass(frozen=True)
class Packer:
    """Where the library that unpacks gzip comes from."""

    def answer(self, models: OpenModels, report: Report) -> str:
        import isal

        return str(isal.__file__)


@dataclass(frozen=True)
class SlowParse:
    """The real parse, slowed down and counted: one line in ``parses.log`` beside the first file."""

    parse: Parse

    def answer(self, models: OpenModels, report: Report) -> Summary:
        first = Path(self.parse.files[0][1])
        with (first.parent / "parses.log").open("a") as log:
            log.write(f"{os.getpid()}\n")
        if "deadly" in first.name:
            os.kill(os.getpid(), 9)
        for step in range(200 if "slow" in first.name else 10):
            report(Progress("reading", step / 200, step * 10, {"operator": step * 10}))
            time.sleep(0.05)
        return self.parse.answer(models, report)


class SlowPool(Pool):
    """A pool whose parses are slow and counted."""

    def submit(self, question: Question[Answer], **more: Any) -> Job[Answer]:
        if isinstance(question, Parse):
            return super().submit(cast("Question[Answer]", SlowParse(question)), **more)
        return super().submit(question, **more)


class LastingPool(Pool):
    """A pool that goes on when a workspace is closed: a start of its workers costs ten times what most tests ask of them."""

    def close(self) -> None:
        """Ends what is under way; the next test has the workers."""
        with self._changed:
            jobs = [*self._pending, *(seat.job for seat in self._seats if seat.job is not None)]
        for job in jobs:
            self.cancel(job)

    def end(self) -> None:
        """Ends the workers."""
        super().close()


class LastingSlowPool(LastingPool, SlowPool):
    """Both."""


@dataclass(frozen=True)
class Broken:
    """A question with a part that fails."""

    def answer(self, models: OpenModels, report: Report) -> str:
        return isolated("Part", lambda: str(1 // 0), lambda failure: failure.error_id)
