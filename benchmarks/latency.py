"""How long a person waits: requests through HTTP on a loaded profile, and the first page after a start.

``python latency.py FOLDER`` prints JSON. The plugin runs as in TensorBoard, with its worker processes; what is left out is
the socket and the browser. Every answer is compressed, as browsers ask for it, and must have status 200.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from werkzeug.test import Client

from tb_plugin.plugin import TorchTracePlugin
from tb_plugin.web.routes import BASE

OF_RANKS = ("distributed", "ranks_kernels")
"""Views about several workers."""
TABLES = {
    "sql": ("rows",),
    "overview": ("steps", "steps_of_devices", "stated_steps", "longest_ranges", "busiest_threads", "operations"),
    "findings": ("savings", "finding_events", "fusible_kernels"),
    "timeline": (),
    "operators": ("operators", "operators_outermost", "operators_by_shape", "no_operator", "stacks"),
    "kernels": ("kernels", "kernels_by_type", "kernels_by_type_shape", "kernels_by_launch", "kernel_rows", "copies"),
    "roofline": ("roofline",),
    "whatif": ("whatif",),
    "path_marks": ("path_marks", "next"),
    "critical_path": ("critical_events", "critical_operators", "critical_modules"),
    "idle": ("idle_causes", "idle_groups", "idle_steps", "idle_pieces"),
    "launches": (
        "runtime_calls",
        "runtime_calls_by_caller",
        "launch_operators",
        "launch_kernels",
        "late_launches",
        "queue_depths",
        "kernel_sequences",
    ),
    "modules": ("modules", "compiled"),
    "serving": ("serving_steps", "serving_modes", "serving_classes"),
    "graphs": ("graphs", "graph_nodes", "graph_replays"),
    "compiled": ("graph_breaks", "regions", "generated_kernels", "compiled_steps"),
    "backward": ("backward_operators", "backward_lines", "recomputed"),
    "parallelism": ("roles",),
    "memory": (
        "memory_operators",
        "memory_operators_outermost",
        "memory_events",
        "memory_peak",
        "memory_steps",
        "memory_shapes",
        "memory_allocators",
        "memory_components",
    ),
    "distributed": (
        "workers",
        "operation_kinds",
        "operations",
        "collectives",
        "steps",
        "process_groups",
        "group_kinds",
        "devices",
        "device_kinds",
        "clocks",
        "stragglers",
        "worst",
        "bandwidths",
        "bandwidth_fits",
        "nodes",
        "traffic",
        "stage_bubbles",
        "rank_steps",
        "operation_types",
        "kinds_of_links",
        "links",
        "recorders",
    ),
    "ranks_kernels": ("kernels_across_ranks",),
    "diff": ("operators", "operators_by_shape", "kernels", "modules", "settings"),
    "range": ("range", "range_devices", "range_streams"),
    "phases": ("phases", "phase_steps"),
    "stacks": ("functions", "threads"),
    "find": ("hits", "names"),
    "flows": (),
    "counters": (),
    "gaps": ("gaps",),
    "allocated_in": ("allocating_operators",),
    "stated": ("allocator_blocks", "allocator_totals"),
}
"""Views and all their tables, as docs/http.md names them, but those that answer nothing without a call or a stretch of time
(`partners`, `meetings`)."""
EVENT_KEYS = (
    "name",
    "kind",
    "operator",
    "input_shape",
    "module",
    "grid",
    "block",
    "category",
    "caller_phase",
    "caller_frame",
)
"""Columns by which an opened row asks for its events."""
WITH_STACKS = ("operators", "operators_by_shape", "memory_operators")
WITH_EVENTS = (
    *WITH_STACKS,
    "kernels",
    "kernels_by_launch",
    "copies",
    "modules",
    "runtime_calls",
    "runtime_calls_by_caller",
    "launch_operators",
    "launch_kernels",
)
"""Tables whose rows show these when they are opened."""
REPEATED = 3
OPENED = 8
WINDOWS = 12
STARTS = 3
POLL_SECONDS = 0.02
SMALL = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
_Query = dict[str, Any]


class Page:
    """What a browser does: asks, waits, and notes how long it took."""

    def __init__(self, spec: str, place: _Query | None = None) -> None:
        self.plugin = TorchTracePlugin(SimpleNamespace(logdir="", flags=SimpleNamespace(logdir="", logdir_spec=spec)))
        self._client = Client(self.plugin.get_plugin_apps()["/*"])
        self.place = place or {}
        self.asked: list[tuple[str, str, str, float]] = []
        """View, kind of request, route, milliseconds."""

    def get(self, route: str, query: _Query | None = None, note: tuple[str, str] | None = None) -> Any:
        """The answer, waited for while a profile loads or parts of several are computed."""
        url = f"{BASE}{route}?{urlencode({**self.place, **(query or {})}, doseq=True)}"
        begin = time.perf_counter()
        while (response := self._client.get(url, headers={"Accept-Encoding": "gzip"})).status_code == 202:
            time.sleep(POLL_SECONDS)
        took = time.perf_counter() - begin
        content = response.get_data()
        if response.status_code == 404 and note is None:
            return None
        if response.status_code != 200:
            raise SystemExit(f"{url} answered {response.status_code}")
        if note is not None:
            self.asked.append((*note, url.removeprefix(BASE), 1000 * took))
        if response.content_type != "application/json":
            return content
        return json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)


def main(folder: str) -> None:
    """Loads, measures first pages after a start, then everything else on a warm worker."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TORCH_TRACE_CACHE"] = f"{scratch}/cache"
        small = Path(scratch) / "small"
        small.mkdir()
        (small / "worker.1.pt.trace.json").write_text(json.dumps({"traceEvents": [SMALL]}))
        spec = f"large:{folder},small:{small}"
        page = Page(spec)
        runs = page.get("runs")["runs"]
        large = next(run for run in runs if run["name"].startswith("large"))
        first = large["workers"][0]
        place = {"run": large["name"], "worker": first["name"], "span": first["spans"][0]["id"]}
        page.place = place
        page.get("view/overview")
        page.plugin.close()
        starts = {"cold": [_first_page(spec, place, None) for _ in range(STARTS)]}
        other = next(run for run in runs if run is not large)
        starts["warm"] = [_first_page(spec, place, {"run": other["name"]}) for _ in range(STARTS)]
        page = Page(spec, place)
        _ask_everything(page, len(large["workers"]) > 1)
        page.plugin.close()
    print(json.dumps({"overview_ms": {k: statistics.median(v) for k, v in starts.items()}, "asked": page.asked}))


def _first_page(spec: str, place: _Query, before: _Query | None) -> float:
    """Milliseconds from the first question about a kept profile to its Overview, the server being up.

    ``before`` is a profile that was looked at before: the worker process is there and has imported what it needs.
    """
    page = Page(spec, place)
    page.get("runs")
    if before is not None:
        page.place = before
        page.get("view/operators")
        page.place = place
    begin = time.perf_counter()
    page.get("profile")
    page.get("view/overview")
    took = time.perf_counter() - begin
    page.plugin.close()
    return 1000 * took


def _ask_everything(page: Page, ranks: bool) -> None:
    page.get("view/overview")
    page.get("view/operators")  # the worker that will be asked is warm from here on
    profile = page.get("profile")
    steps = [step["label"] for step in profile["steps"]][:3]
    for view in ("overview", *OF_RANKS) if ranks else [view for view in TABLES if view not in OF_RANKS]:
        first = page.get(f"view/{view}", note=(view, "first"))
        for _ in range(REPEATED):
            page.get(f"view/{view}", note=(view, "again"))
        for table in TABLES[view]:
            _ask_table(page, view, table)
        if view == "timeline":
            _ask_tiles(page, first["payloads"]["timeline"])
        for query in _details(view, first):
            page.get(f"view/{view}", query, note=(view, "detail"))
        for step in steps:
            page.get(f"view/{view}", {"steps": step}, note=(view, "other steps"))
    events = {row["event"] for row in _instances(page)}
    for event in sorted(events)[:WINDOWS]:
        page.get("view/events", {"event": event}, note=("events", "detail"))


def _instances(page: Page) -> Iterator[_Query]:
    for view in ("operators", "kernels"):
        table = page.get(f"table/{view}/{view}")
        for row in table["rows"][:2] if table else ():
            found = page.get("view/events", {"where": _where(table, row)})["payloads"]
            yield from (item for item in found["instances"]["rows"][:6] if "event" in item)


def _ask_tiles(page: Page, head: Any) -> None:
    """What a screen of the timeline asks for, at all levels and in several places."""
    groups = range(min(2, len(head["groups"]) - 1))
    for number, level in enumerate(head["levels"]):
        last = head["end_ns"] // level["tile_ns"]
        for i in range(4):
            first = last * i // 4
            tiles = [f"{group}.{tile}" for group in groups for tile in range(first, min(last, first + 4) + 1)]
            page.get("tiles", {"level": number, "tiles": ",".join(tiles)}, note=("timeline", "tiles"))


def _ask_table(page: Page, view: str, name: str) -> None:
    """Pages, orders, searches and filters of a table, then what its rows show when they are opened."""
    route = f"table/{view}/{name}"
    table = page.get(route)
    if table is None or not table["rows"]:
        return
    rows, columns = table["rows"], [column["metric"]["key"] for column in table["columns"]]
    text = str(rows[0].get(table["name_column"]))
    queries: list[_Query] = [{"offset": offset} for offset in range(0, min(table["total_rows"], 1000), 100)]
    queries.append({"offset": max(0, table["total_rows"] - 100)})
    queries += [{"sort": key, "desc": desc} for key in columns for desc in (0, 1)]
    queries += [{"search": text[:4]}, {"search": "no such name"}, {"search": "/^a.*[a-z]$/"}]
    queries.append({"where": [f"{table['row_key'][0]}:{rows[0].get(table['row_key'][0])}"]})
    queries.append({"search": text[:2], "sort": columns[-1], "limit": 1000})
    for query in queries * REPEATED:
        page.get(route, query, note=(view, "table"))
    for row in rows[:OPENED]:
        where = _where(table, row)
        if where and name in WITH_EVENTS:
            page.get("view/events", {"where": where}, note=(view, "row opened"))
        names = [item for item in where if item.startswith(("name:", "input_shape:"))]
        if names and name in WITH_STACKS:
            page.get("table/operators/stacks", {"where": names}, note=(view, "row opened"))
        if view == "diff" and where:
            page.get(route, {"where": where, "measure": "all"}, note=(view, "row opened"))


def _where(table: Any, row: _Query) -> list[str]:
    return [f"{key}:{'' if row.get(key) is None else row[key]}" for key in table["row_key"] if key in EVENT_KEYS]


def _details(view: str, first: Any) -> Iterator[_Query]:
    """Questions of a chart that are different each time: windows into the memory curve, ranges of the timeline."""
    if view == "memory" and "curve" in first["payloads"]:
        x = [value for value in first["payloads"]["curve"]["x"] if isinstance(value, int | float)]
        for i in range(1, WINDOWS if len(x) > 2 else 0):
            moment = int(x[0] + (x[-1] - x[0]) * i / WINDOWS)
            yield {"at_ns": moment}
            yield {"start_ns": int(x[0]), "end_ns": moment}
    if view == "find":
        for row in first["payloads"]["names"]["rows"][:WINDOWS]:
            yield {"search": row["name"][:6]}
            yield {"search": row["name"], "exact": 1, "near_ns": int(row["total_ns"])}
    if view == "flows":
        for i in range(WINDOWS):
            yield {"start_ns": i * 10**6, "end_ns": (i + 1) * 10**6}
    if view == "range":
        length = next(f["value"] for f in first["payloads"]["summary"]["figures"] if f["metric"]["unit"] == "ns")
        for i in range(WINDOWS):
            begin = length * i // WINDOWS
            yield {"start_ns": begin, "end_ns": begin + max(1, length >> (1 + i % 12))}
    if view in ("counters", "gaps"):
        length = first["coverage"]["window_ns"]
        for i in range(WINDOWS):
            begin = length * i // WINDOWS
            yield {"start_ns": begin, "end_ns": begin + max(1, length >> (1 + i % 12))}
    if view == "diff":
        for measure in ("host_self_ns", "host_total_ns"):
            yield {"measure": measure}


if __name__ == "__main__":
    main(*sys.argv[1:])
