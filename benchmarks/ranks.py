"""What a run of many ranks costs: its summaries on each engine, its page from summaries alone, and HTA on the same ranks.

``python -m benchmarks.ranks [--ranks 64 256 1024]`` invents the ranks (`samples/synthetic_job.py`, one slow rank planted),
summarises them in turn with one process, the local pool and a Dask cluster (a scheduler and two workers, started from the
command line), compares the summaries byte by byte, and starts TensorBoard on them. Traces and summaries lie in the
temporary folder and go when their size is done: 0.35 GB at 1,024 ranks of 20,000 events.

In one file: what is measured and how it is told are read together.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.compare import DOCUMENT, MEMORY_SHARE
from benchmarks.latency import TABLES
from benchmarks.measure import Cost, Failed, measure, resident, tree
from benchmarks.report import processor
from benchmarks.tools import ROOT, TOOLS, Tool, command_of

GENERATOR = ROOT / "samples" / "synthetic_job.py"
EVENTS_A_STEP = 1_531
"""Of a rank, as LIKE makes them. One base time and the old names of kernels: HTA knows no other ones."""
LIKE = ("--tp", "8", "--layers", "8", "--kernels", "16", "--one-base", "--old-names")
HTA = Tool("HTA: overlap and stragglers", "peers.py", "hta_ranks", TOOLS["hta"].packages, TOOLS["hta"].venv)
ONE, POOL, DASK, PEER = "one process", "pool of 2", "Dask, 2 workers", "HTA"
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Page:
    """TensorBoard on the summaries of a run."""

    listed_s: float = 0.0
    """From the first request to a list of runs with all ranks in it."""
    first_ms: float = 0.0
    """The view, for the first time: all that a person waits for after a click."""
    first_cpu_s: float = 0.0
    """CPU of TensorBoard meanwhile: what a busy machine does not change."""
    again_ms: float = 0.0
    slowest: tuple[float, str] = (0.0, "")
    """First page of a table, when the view has been asked for."""
    largest: tuple[int, str] = (0, "")
    """Of all answers: bytes as they are before compression."""
    rss_bytes: int = 0
    """Peak of the sum over TensorBoard's processes; what they share counts in each ..."""
    pss_bytes: int = 0
    """... and here once."""
    findings: list[str] = field(default_factory=list)


@dataclass
class Result:
    """What was measured at one number of ranks."""

    ranks: int
    events: int
    packed_bytes: int
    made_s: float
    """CPU of the generator."""
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    planted: str = ""
    """The slow rank."""
    named: str = ""
    """Whom HTA takes for one."""
    summary_bytes: int = 0
    equal: bool | None = None
    pages: dict[str, Page] = field(default_factory=dict)
    """By what is in the cache of the machine."""

    def cpu_s(self, name: str) -> float | None:
        """Returns the median of CPU seconds; None where nothing came to an end."""
        runs = self.costs.get(name)
        return statistics.median(run.cpu_s for run in runs) if runs else None


def main() -> int:
    options = _options()
    limits = (60 * options.minutes, MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    heading = datetime.now(UTC).strftime("%-d %B %Y, a run of many ranks")
    results = []
    for ranks in options.ranks:
        folder = Path(tempfile.mkdtemp(prefix="torch-trace-ranks-", dir=options.folder))
        try:
            results.append(_measured(ranks, folder, options, limits))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        text = section(heading, results)
        if options.write:
            DOCUMENT.write_text(placed(DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(section(heading, results))
    return int(any(result.equal is False for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1_024])
    parser.add_argument("--events", type=int, default=20_000, help="of each rank")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engines", choices=(ONE, POOL, DASK), nargs="*", default=[ONE, POOL, DASK])
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="without HTA")
    parser.add_argument("--minutes", type=float, default=30.0, help="the longest that one run may take")
    parser.add_argument("--no-write", dest="write", action="store_false", help="leave docs/benchmarks.md as it is")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the ranks lie meanwhile"
    )
    return parser.parse_args()


def _measured(ranks: int, folder: Path, options: argparse.Namespace, limits: tuple[float, float]) -> Result:
    _say(f"Inventing {ranks} ranks ...")
    run, steps = folder / "job", max(1, round(options.events / EVENTS_A_STEP))
    straggler = f"{ranks // 3}:kernel:persistent:2000"
    command = [sys.executable, str(GENERATOR), str(run), "--ranks", str(ranks), "--steps", str(steps), *LIKE]
    made = measure([*command, "--straggler", straggler], {}, *limits)
    files = sorted(run.iterdir())
    result = Result(ranks, EVENTS_A_STEP * steps, sum(file.stat().st_size for file in files), made.cpu_s)
    result.planted = straggler.partition(":")[0]
    names = [*options.engines, *([PEER] if options.peer else [])]
    for number in range(1, options.rounds + 1):
        for name in names if number % 2 else names[::-1]:
            if name in result.failed:
                continue
            try:
                cost = _run(name, run, folder, limits)
            except Failed as error:
                result.failed[name] = str(error)
                _say(f"  {name} fails: {error}")
                continue
            result.costs.setdefault(name, []).append(cost)
            if name == PEER:
                result.named = ", ".join(map(str, json.loads(cost.output.splitlines()[-1])["stragglers"]))
            _say(
                f"  round {number}: {name:16} {cost.cpu_s:8.2f} s CPU {cost.wall_s:8.2f} s {cost.tree_bytes / 1e6:8,.0f} MB"
            )
    kept = [place for name in options.engines if (place := _place(folder, name)).is_dir()]
    if kept:
        result.summary_bytes = sum(file.stat().st_size for file in kept[0].iterdir())
        result.equal = all(_same(kept[0], other) for other in kept[1:]) if len(kept) > 1 else None
        _say(f"  byte-equal: {result.equal}; TensorBoard ...")
        result.pages["nothing"] = _opened(kept[0], ranks, folder, keep=False)
        measure(_command(run, kept[0], "--workers", "0"), _environment(folder), *limits)
        result.pages["joined ranks"] = _opened(kept[0], ranks, folder, keep=True)
    return result


def _place(folder: Path, engine: str) -> Path:
    return folder / "summaries" / engine.replace(" ", "-").replace(",", "")


def _run(name: str, run: Path, folder: Path, limits: tuple[float, float]) -> Cost:
    if name == PEER:
        command, environment = command_of(HTA, run, folder)
        return measure(command, environment, *limits)
    to = _place(folder, name)
    shutil.rmtree(to, ignore_errors=True)
    command = _command(run, to)
    if name != DASK:
        return measure([*command, "--workers", "0" if name == ONE else "2"], _environment(folder), *limits)
    with _cluster(folder) as (address, pids):
        before, memory = _cpu_of(pids), _Memory(pids)
        memory.start()
        cost = measure([*command, "--scheduler", address], _environment(folder), *limits)
        memory.stop()
        cpu_s = cost.cpu_s + _cpu_of(pids) - before
        largest = max(cost.largest_bytes, memory.largest_bytes)
        return Cost(cpu_s, cost.wall_s, largest, cost.tree_bytes + memory.rss_bytes, cost.output)


def _command(run: Path, to: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "tb_plugin", "summarize", str(run), "--to", str(to), *options]


def _environment(folder: Path, keep: bool = False) -> dict[str, str]:
    """With an empty cache unless what is there is to be kept."""
    cache = folder / "cache"
    if not keep:
        shutil.rmtree(cache, ignore_errors=True)
    return {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "TORCH_TRACE_CACHE": str(cache)}


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A scheduler and two workers of one thread; yields the address and the processes."""
    address = f"tcp://127.0.0.1:{_free_port()}"
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True, "cwd": folder,
        "env": {**os.environ, **_environment(folder)},
    }  # fmt: skip
    dask = [sys.executable, "-m", "distributed.cli"]
    scheduler = [f"{dask[-1]}.dask_scheduler", "--host", address, "--no-dashboard"]
    worker = [f"{dask[-1]}.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    started = [subprocess.Popen([*dask[:2], *command], **quiet) for command in (scheduler, worker, worker)]
    try:
        _wait_for(int(address.rsplit(":", 1)[1]), 60)
        yield address, [process.pid for process in started]
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _cpu_of(roots: Sequence[int]) -> float:
    """CPU seconds of process trees so far."""
    return sum(_cpu_s(pid) for root in roots for pid in tree(root))


def _cpu_s(pid: int) -> float:
    """Of a process, with its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICK


def _same(first: Path, second: Path) -> bool:
    names = sorted(file.name for file in first.iterdir())
    if names != sorted(file.name for file in second.iterdir()):
        return False
    return filecmp.cmpfiles(first, second, names, shallow=False)[0] == names


# ------------------------------------------------------------------------------------------------- the page


class _Memory(threading.Thread):
    """Samples the memory of process trees, several times a second."""

    def __init__(self, roots: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.rss_bytes = self.pss_bytes = self.largest_bytes = 0
        self._roots = roots
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.1):
            pids = [pid for root in self._roots for pid in tree(root)]
            sizes = [resident(pid) for pid in pids]
            self.largest_bytes = max(self.largest_bytes, *sizes)
            self.rss_bytes = max(self.rss_bytes, sum(sizes))
            self.pss_bytes = max(self.pss_bytes, sum(_pss(pid) for pid in pids))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _opened(logdir: Path, ranks: int, folder: Path, keep: bool) -> Page:
    """Starts TensorBoard on summaries and opens the page Distributed, as a browser would ask for it.

    With ``keep`` on what is in the cache, else with an empty one.
    """
    port, page = _free_port(), Page()
    command = [str(Path(sys.executable).with_name("tensorboard")), "--logdir", str(logdir), "--port", str(port)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **_environment(folder, keep)},
    )
    memory = _Memory([process.pid])
    memory.start()
    try:
        _wait_for(port, 120)
        ask = _Asking(f"http://127.0.0.1:{port}/data/plugin/torch_trace/")
        begun = time.monotonic()
        while True:
            runs = json.loads(ask("runs")).get("runs", [])
            if sum(len(run["workers"]) for run in runs) >= ranks:
                break
            if time.monotonic() - begun > 300:
                raise Failed(f"TensorBoard lists {sum(len(run['workers']) for run in runs)} of {ranks} ranks")
            time.sleep(0.05)
        page.listed_s = time.monotonic() - begun
        place = {"run": runs[0]["name"], "span": "1"}
        before = _cpu_of([process.pid])
        view = ask("view/distributed", **place)
        page.first_cpu_s = _cpu_of([process.pid]) - before
        page.first_ms = ask.took_ms
        ask("view/distributed", **place)
        page.again_ms = ask.took_ms
        payloads = json.loads(view)["payloads"]
        for table in filter(payloads.__contains__, TABLES["distributed"]):
            ask(f"table/distributed/{table}", **place)
            page.slowest = max(page.slowest, (ask.took_ms, table))
        page.largest = max((size, name) for name, size in ask.sizes.items() if name != "runs")
        notices = payloads.get("findings", {}).get("notices", [])
        page.findings = [notice["rule"] for notice in notices]
    finally:
        memory.stop()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    page.rss_bytes, page.pss_bytes = memory.rss_bytes, memory.pss_bytes
    return page


class _Asking:
    """Requests until an answer is there: 202 says that it is not yet. Asking again costs the server something as well."""

    def __init__(self, address: str) -> None:
        self.took_ms = 0.0
        self.sizes: dict[str, int] = {}
        self._address = address

    def __call__(self, route: str, **params: str) -> bytes:
        begun = time.monotonic()
        while True:
            with urllib.request.urlopen(f"{self._address}{route}?{urlencode(params)}", timeout=300) as answer:
                body: bytes = answer.read()
                if answer.status == 200:
                    break
            if time.monotonic() - begun > 300:
                raise Failed(f"{route} is still not there after five minutes")
            time.sleep(0.1)
        self.took_ms = 1000 * (time.monotonic() - begun)
        self.sizes[route] = len(body)
        return body


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _wait_for(port: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise Failed(f"nothing answers at port {port}") from None
            time.sleep(0.1)


# ------------------------------------------------------------------------------------------------ the report


def section(heading: str, results: Sequence[Result]) -> str:
    """Returns a section of docs/benchmarks.md."""
    lines = [
        f"## {heading}",
        "",
        f"`python -m benchmarks.ranks`. {processor()}, {os.cpu_count()} cores. Invented ranks in groups of 8",
        "(tensor parallel) and across them (data parallel), one of them slow, clocks right; all from the file to summaries,",
        "in turn. HTA: load, overlap and stragglers.",
        "",
        "| ranks x events | MB packed | what | CPU s | CPU ms a rank | wall s | largest process, MB | tree, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for result in results:
        size = f"{result.ranks:,} x {result.events:,} | {result.packed_bytes / 1e6:,.0f}"
        for name, runs in result.costs.items():
            cost = sorted(runs, key=lambda run: run.cpu_s)[len(runs) // 2]
            lines.append(
                f"| {size} | {name} | {cost.cpu_s:,.1f} | {1000 * cost.cpu_s / result.ranks:,.0f} | {cost.wall_s:,.1f} | "
                f"{cost.largest_bytes / 1e6:,.0f} | {cost.tree_bytes / 1e6:,.0f} |"
            )
        lines += [f"| {size} | {name} | {why} | | | | |" for name, why in result.failed.items()]
    found = [f"{r.named} at {r.ranks:,} ranks, where {r.planted} is slow" for r in results if r.named]
    lines += ["", *_growth(results), *([f"HTA names {'; '.join(found)}.", ""] if found else []), *_pages(results)]
    return "\n".join(lines) + "\n"


def _growth(results: Sequence[Result]) -> list[str]:
    """How CPU grows with the ranks, beside the ranks themselves."""
    lines = []
    for before, after in pairwise(results):
        times = {
            name: after_s / before_s
            for name in after.costs
            if (after_s := after.cpu_s(name)) and (before_s := before.cpu_s(name))
        }
        said = ", ".join(f"{name} {times:.2f}" for name, times in times.items())
        lines.append(
            f"From {before.ranks:,} to {after.ranks:,} ranks ({after.ranks / before.ranks:.2g} times) CPU grows: {said}."
        )
    return [*lines, ""] if lines else []


def _pages(results: Sequence[Result]) -> list[str]:
    """TensorBoard on the summaries of each run."""
    lines = [
        "Page: TensorBoard on the summaries alone; all tables of Distributed asked for. On the machine where",
        "`torch-trace summarize` ran, the joined ranks are in the cache.",
        "",
        "| ranks | in the cache | summaries, kB a rank | byte-equal | runs listed, s | page, first time, ms | its CPU s "
        "| again, ms | slowest table, ms | largest answer, kB | tree RSS, MB | tree PSS, MB | findings |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result, cached, page in ((r, cached, page) for r in results for cached, page in r.pages.items()):
        equal = {True: "yes", False: "**NO**", None: "one engine"}[result.equal]
        lines.append(
            f"| {result.ranks:,} | {cached} | {result.summary_bytes / 1e3 / result.ranks:,.1f} | {equal} | "
            f"{page.listed_s:.2f} | "
            f"{page.first_ms:,.0f} | {page.first_cpu_s:.2f} | {page.again_ms:,.0f} | "
            f"{page.slowest[0]:,.0f} ({page.slowest[1]}) | "
            f"{page.largest[0] / 1e3:,.0f} ({page.largest[1]}) | {page.rss_bytes / 1e6:,.0f} | {page.pss_bytes / 1e6:,.0f} | "
            f"{', '.join(page.findings)} |"
        )
    return lines


def placed(document: str, text: str) -> str:
    """Returns the document with the section in the place of the one before, or first of all."""
    title = "a run of many ranks"
    parts = document.split("\n## ")
    kept = [part for part in parts[1:] if title not in part.splitlines()[0]]
    return "\n## ".join([parts[0], text.removeprefix("## ").rstrip("\n") + "\n", *kept])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
