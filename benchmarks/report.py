"""Measurements as a section of Markdown, and its place in docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus import START
from benchmarks.measure import Cost
from benchmarks.tools import NOT_RUN, OURS, PEERS, TOOLS
from tb_plugin import __version__

MB = 1e6
KEPT_SECTIONS = 2
PINNED = "## The timeline"
TARGET_MS = 50
SLOWEST = 5


@dataclass
class Result:
    """The runs of every tool on one trace, or run of ranks."""

    source: str
    events: int = 0
    packed_bytes: int = 0
    text_bytes: int = 0
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    requests: dict[str, Any] | None = None
    """What latency.py printed."""

    @property
    def title(self) -> str:
        """A heading."""
        size = f"{self.packed_bytes / MB:,.1f} MB compressed, {self.text_bytes / MB:,.0f} MB of text"
        return f"{self.source}, {self.events:,} events ({size})"

    def median(self, tool: str, what: str) -> float | None:
        """Of a field of Cost; None when there is no run."""
        runs = self.costs.get(tool)
        return statistics.median(getattr(run, what) for run in runs) if runs else None


def section(heading: str, results: Sequence[Result]) -> str:
    """Everything of one call of ``make bench``."""
    packages = dict.fromkeys(package for name in PEERS for package in TOOLS[name].packages)
    lines = [
        f"## {heading}",
        "",
        f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, Torch Trace {__version__}. Peers: {', '.join(packages)}.",
        *(f"{name}: {why}." for name, why in NOT_RUN.items()),
    ]
    start = next((result for result in results if result.source == START), None)
    for result in results:
        lines += ["", f"### {result.title}", "", *_costs(result, start)]
    for source in dict.fromkeys(result.source for result in results):
        sizes = [result for result in results if result.source == source]
        if len(sizes) > 1:
            lines += ["", f"### Growth of {source}", "", *_growth(sizes)]
    asked = [result for result in results if result.requests is not None]
    if asked:
        lines += ["", "### Requests on a loaded profile", "", *_requests(asked)]
    return "\n".join(lines) + "\n"


def placed(document: str, text: str) -> str:
    """``document`` with a section at its top, in place of one of the same heading; old ones fall off."""
    head, runs, pinned = _sections(document, without=text)
    return "\n".join([head, text.strip() + "\n", *runs[: KEPT_SECTIONS - 1], *pinned])


def pinned(document: str, text: str) -> str:
    """``document`` with a section at its end that no other run pushes out: its heading begins with PINNED."""
    head, runs, others = _sections(document, without=text)
    return "\n".join([head, *runs, *others, text.strip() + "\n"])


def _sections(document: str, without: str) -> tuple[str, list[str], list[str]]:
    """What stands ahead, the sections but the one with the heading of ``without``, and those that stay."""
    head, *sections = re.split(r"^(?=## )", document, flags=re.MULTILINE)
    heading = without.partition("\n")[0]
    kept = [section.strip() + "\n" for section in sections if section.partition("\n")[0] != heading]
    return (
        head.strip() + "\n",
        [section for section in kept if not section.startswith(PINNED)],
        [section for section in kept if section.startswith(PINNED)],
    )


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares of y = a + b x: (a, b)."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    return intercept, slope


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def _costs(result: Result, start: Result | None) -> list[str]:
    """One row a tool: medians, and multiples of ours."""
    lines = [
        "| | runs | CPU s (range) | wall s | largest process MB | process tree MB "
        "| CPU / ours | without start | largest / ours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ours = {what: result.median(OURS, what) or 1.0 for what in ("cpu_s", "largest_bytes")}
    for name, tool in TOOLS.items():
        runs = result.costs.get(name)
        if name in result.failed:
            lines.append(f"| {tool.title} | fails | {_safe(result.failed[name])} | | | | | | |")
        elif runs:
            cpu, wall, largest, tree = (
                result.median(name, what) or 0.0 for what in ("cpu_s", "wall_s", "largest_bytes", "tree_bytes")
            )
            low, high = min(run.cpu_s for run in runs), max(run.cpu_s for run in runs)
            lines.append(
                f"| {tool.title} | {len(runs)} | {cpu:.2f} ({low:.2f} to {high:.2f}) | {wall:.2f} | {largest / MB:,.0f} "
                f"| {tree / MB:,.0f} | {cpu / ours['cpu_s']:.2f} | {_less_start(result, start, name)} "
                f"| {largest / ours['largest_bytes']:.2f} |"
            )
    return lines


def _less_start(result: Result, start: Result | None, name: str) -> str:
    """CPU over ours when each is spared what it takes to read next to nothing."""
    if start is None or start is result:
        return ""
    mine, other = result.median(OURS, "cpu_s"), result.median(name, "cpu_s")
    mine_start, other_start = start.median(OURS, "cpu_s"), start.median(name, "cpu_s")
    if mine is None or other is None or mine_start is None or other_start is None or mine <= mine_start:
        return ""
    return f"{(other - other_start) / (mine - mine_start):.2f}"


def _growth(sizes: Sequence[Result]) -> list[str]:
    """Cost against events: a line through the medians, and what an event costs at the largest size over 1M."""
    sizes = sorted(sizes, key=lambda result: result.events)
    million = min(sizes[:-1], key=lambda result: abs(result.events - 1_000_000))
    ratio = f"{sizes[-1].events / 1e6:.1f}M / {million.events / 1e6:.1f}M"
    lines = [
        f"| | events (M) | fixed s | µs an event | CPU an event, {ratio} | MB fixed | MB a million events |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tool in TOOLS.items():
        with_runs = [result for result in sizes if result.costs.get(name) and name not in result.failed]
        if len(with_runs) < 2:
            continue
        cpu = [(result.events / 1e6, result.median(name, "cpu_s") or 0.0) for result in with_runs]
        memory = [(result.events / 1e6, (result.median(name, "largest_bytes") or 0.0) / MB) for result in with_runs]
        (fixed, micros), (base, slope) = fit(cpu), fit(memory)
        each = {result.events: seconds / millions for result, (millions, seconds) in zip(with_runs, cpu, strict=True)}
        both = sizes[-1].events in each and million.events in each
        lines.append(
            f"| {tool.title} | {', '.join(f'{millions:.2g}' for millions, _ in cpu)} | {fixed:.2f} | {micros:.2f} "
            f"| {f'{each[sizes[-1].events] / each[million.events]:.2f}' if both else ''} | {base:,.0f} | {slope:,.0f} |"
        )
    return lines


def _requests(results: Sequence[Result]) -> list[str]:
    """Times of requests: one row a trace, then one row a view and kind of request, then the slowest."""
    lines = [
        f"| | cached Overview ms, worker starts | worker warm | requests | median ms | p95 ms | over {TARGET_MS} ms |",
        "|---|---|---|---|---|---|---|",
    ]
    times: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = {id(result): f"{result.source}, {result.events / 1e6:.1f}M" for result in results}
    slowest = []
    for result in results:
        name, found = names[id(result)], result.requests or {}
        for view, kind, _, took in found["asked"]:
            times[view, kind][name].append(took)
        every = [took for *_, took in found["asked"]]
        waits = found["overview_ms"]
        lines.append(
            f"| {name} | {waits['cold']:.0f} | {waits['warm']:.0f} | {len(every)} | {statistics.median(every):.1f} "
            f"| {quantile(every, 0.95):.1f} | {sum(took > TARGET_MS for took in every)} |"
        )
        for _, _, route, took in sorted(found["asked"], key=lambda item: -item[3])[:SLOWEST]:
            slowest.append(f"- {name}: {took:,.0f} ms `{_safe(_short(route))}`")
    lines += ["", "p95 ms (largest) of:", "", f"| view | request | {' | '.join(names.values())} |"]
    lines.append("|---|---|" + "---|" * len(names))
    for (view, kind), by_name in times.items():
        cells = [by_name.get(name) for name in names.values()]
        shown = [f"{quantile(values, 0.95):.1f} ({max(values):.1f})" if values else "" for values in cells]
        lines.append(f"| {view} | {kind} | {' | '.join(shown)} |")
    return [*lines, "", "The slowest:", "", *slowest]


def _short(route: str) -> str:
    """A route without the profile that it names."""
    return re.sub(r"(?:run|worker|span)=[^&]*&?", "", route).rstrip("?&")


def _safe(text: str) -> str:
    """Foreign text in a cell."""
    return re.sub(r"[|`\s]+", " ", text)[:120]


def processor() -> str:
    """Its model, as far as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
