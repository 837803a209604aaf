"""Every real trace with addresses and totals: the curve ends at the trace's own total, and live blocks account for it."""

from __future__ import annotations

import bisect
import functools
import gzip
import json
import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tb_plugin.analysis.memory.trace_devices import devices_of
from tests.builders import model, part
from tests.conftest import SAMPLES, SHARED, UNLIKE

MOMENTS = 100
REAL = (
    "torch213/profile_memory.pt.trace.json.gz", "torch213/concrete_inputs_nan_inf.pt.trace.json.gz",
    "torch213/python_export_memory_quotes.pt.trace.json", "torch213/verbose_stack_mem.pt.trace.json.gz",
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
)  # fmt: skip
"""The traces of ../shared/data whose memory events carry Addr and Total Allocated."""
PATHS = [SAMPLES / name for name in UNLIKE if name.endswith((".json", ".json.gz"))] + [
    SHARED / "data" / name for name in REAL
]
TYPES = {0: "cpu", 1: "cuda", 6: "hip"}


Events = dict[str, list[dict[str, Any]]]


@functools.cache
def told(path: Path) -> tuple[Events, dict[str, tuple[int, int]]]:
    """Straight from the file: memory events of each device by time, and begin and end of each step on the host, by label."""
    content = path.read_bytes()
    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    found: Events = defaultdict(list)
    steps = {}
    root = json.loads(text, parse_float=Decimal)
    for event in root["traceEvents"]:
        name, category = str(event.get("name", "")), event.get("cat")
        if name == "[memory]":
            args = event["args"]
            kind = args["Device Type"]
            device = TYPES[kind] if kind == 0 else f"{TYPES[kind]}:{args['Device Id']}"
            found[device].append({"ts": Decimal(event["ts"]), **args})
        elif name.startswith("ProfilerStep#") and category == "user_annotation":
            start, end = Decimal(event["ts"]), Decimal(event["ts"]) + Decimal(event["dur"])
            steps[name.removeprefix("ProfilerStep#")] = (int(start * 1000), int(end * 1000))
    return {name: sorted(events, key=lambda e: e["ts"]) for name, events in found.items()}, steps


def brute_force(events: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """(bytes, position of the allocation or -1, position of the release or the number of events)."""
    pending: dict[int, tuple[int, int]] = {}
    blocks = []
    for i, event in enumerate(events):
        size, address = event["Bytes"], event["Addr"]
        if size > 0:
            if address in pending:
                old, at = pending.pop(address)
                blocks.append((old, at, len(events)))
            pending[address] = (size, i)
        elif size < 0:
            _, at = pending.pop(address, (0, -1))
            blocks.append((-size, at, i))
    return blocks + [(size, at, len(events)) for size, at in pending.values()]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}-{p.name.split('.')[1]}")
def test_live_blocks_account_for_the_trace_s_own_total(path: Path) -> None:
    if not path.is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    recorded, _ = told(path)
    table = model(path)
    assert {d.name for d in devices_of(table)} == set(recorded)
    for device in devices_of(table):
        events = recorded[device.name]
        totals = [event["Total Allocated"] for event in events]
        curve = part(table, "memory", extra=(("device", device.name),)).payloads["curve"]
        assert curve.lines[0].values[-1] == totals[-1]  # type: ignore[union-attr]
        assert max(curve.lines[0].values) == max(max(totals), totals[0] - events[0]["Bytes"])  # type: ignore[union-attr]

        expected = sorted(brute_force(events))
        blocks = device.blocks
        ends = [len(events) if r < 0 else r for r in blocks.release.tolist()]
        assert sorted(zip(blocks.size.tolist(), blocks.allocation.tolist(), ends, strict=True)) == expected

        # What lived before the trace and outlives it: the level before the first event less the blocks given back.
        before = totals[0] - events[0]["Bytes"]
        outlives = before - sum(size for size, begin, _ in expected if begin < 0)
        origin, times = table.origin_ns, device.time_ns.tolist()
        assert [int(e["ts"] * 1000) - origin for e in events] == times
        rng = random.Random(5)
        for moment in [rng.randint(times[0] - 1000, times[-1] + 1000) for _ in range(MOMENTS)]:
            at = bisect.bisect_right(times, moment) - 1
            total = totals[at] if at >= 0 else before
            assert int(blocks.size[blocks.live(device.at(moment))].sum()) + outlives == total
            assert sum(size for size, begin, end in expected if begin <= at < end) + outlives == total


@pytest.mark.parametrize("path", PATHS[-3:], ids=lambda p: p.name.split(".")[0])
def test_what_was_live_sums_to_the_total_at_any_moment(path: Path) -> None:
    if not path.is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    table = model(path)
    for device in devices_of(table):
        for i in range(0, len(device.time_ns), max(1, len(device.time_ns) // 7)):
            moment = str(int(device.time_ns[i]))
            found = part(table, "memory", extra=(("device", device.name), ("at_ns", moment)))
            live = sum(found.frames["memory_peak"].data["live_bytes"].to_pylist())
            assert live == device.level(device.at(int(moment)))
            bar: Any = found.payloads["live_operators"]
            assert sum(p.value for p in bar.parts) == bar.total == live


@pytest.mark.parametrize("path", PATHS, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}-{p.name.split('.')[1]}")
def test_windows_counted_event_by_event(path: Path) -> None:
    """Peaks, allocations, increase and what stays, of every other step and of random ranges, without a line of ours."""
    if not path.is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    (recorded, steps), table = told(path), model(path)
    origin, rng = table.origin_ns, random.Random(3)
    blocks_of = {name: brute_force(events) for name, events in recorded.items()}
    times_of = {name: [int(event["ts"] * 1000) - origin for event in events] for name, events in recorded.items()}
    windows: list[tuple[dict[str, Any], list[tuple[int, int]]]] = []
    labels = [label for label in table.steps.label if label in steps]
    for chosen in filter(None, (labels[::2], labels[1::2])):
        windows.append(({"steps": tuple(chosen)}, [(steps[x][0] - origin, steps[x][1] - origin) for x in chosen]))
    for _ in range(5):
        low, high = sorted(rng.randint(0, table.coverage.end_ns) for _ in range(2))
        windows.append(({"extra": (("start_ns", str(low)), ("end_ns", str(high)))}, [(low, high + 1)]))
    for own, parts in windows:
        found = part(table, "memory", own.get("steps"), extra=own.get("extra", ()))
        for name, events in recorded.items():
            times = times_of[name]
            before = events[0]["Total Allocated"] - events[0]["Bytes"]
            inside = [any(low <= t < high for low, high in parts) for t in times]
            levels = [event["Total Allocated"] for event, counts in zip(events, inside, strict=True) if counts]
            for low, _ in parts:
                at = bisect.bisect_left(times, low) - 1
                levels.append(events[at]["Total Allocated"] if at >= 0 else before)
            facts = {key.removeprefix(f"memory.{name}."): value for key, value in found.facts.items()}
            assert facts["peak_allocated_bytes"] == max(levels)
            got = [event["Bytes"] for event, counts in zip(events, inside, strict=True) if counts]
            assert facts["allocations"] == sum(size > 0 for size in got)
            kept = [size for size, at, end in blocks_of[name] if at >= 0 and inside[at] and end == len(events)]
            assert facts["unreleased_bytes"] == sum(kept)
            rows = [r for r in found.frames["memory_operators"].data.to_pylist() if r["device"] == name]
            assert sum(r["self_size_increase_bytes"] for r in rows) == sum(got)
            assert sum(r["self_allocation_bytes"] for r in rows) == sum(size for size in got if size > 0)
            blocks = [r for r in found.frames["memory_events"].data.to_pylist() if r["device"] == name]
            touched = [
                size for size, at, end in blocks_of[name]
                if (at >= 0 and inside[at]) or (end < len(events) and inside[end])
            ]  # fmt: skip
            assert sorted(r["block_bytes"] for r in blocks) == sorted(touched)
